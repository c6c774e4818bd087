"""What is on the disk below a folder while the process that owns it still works there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def files_below(folder: Path) -> dict[Path, bytes]:
    """The contents of all files below the folder; a file or a folder that is deleted meanwhile is left out."""
    found = {}
    for place, _folders, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            with suppress(FileNotFoundError):
                if path.is_file():  # Redis's socket is none
                    found[path] = path.read_bytes()
    return dict(sorted(found.items()))


def bytes_below(folder: Path) -> bytes:
    return b"\n".join(files_below(folder).values())
