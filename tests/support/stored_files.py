"""What is on the disk below a folder while the process that owns it still works there."""

from __future__ import annotations

from pathlib import Path


def files_below(folder: Path) -> dict[Path, bytes]:
    """The contents of all files below the folder; a file that is deleted meanwhile is left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        try:
            if path.is_file():
                found[path] = path.read_bytes()
        except FileNotFoundError:
            continue
    return found


def bytes_below(folder: Path) -> bytes:
    return b"\n".join(files_below(folder).values())
