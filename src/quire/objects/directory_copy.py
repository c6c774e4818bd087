"""A copy of an object directory, made while objects are written and deleted.

Objects are never changed after they were written, so a file that the copy has already is left out.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from quire.errors import ObjectsError


def copy_objects(root: Path, target: Path) -> int:
    """Copies what the target does not have; returns how many files. Raises ObjectsError if they can't be written."""
    copied = 0
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder, names, files in os.walk(root):
            names[:] = [name for name in names if not name.startswith(".")]
            beside = target / Path(folder).relative_to(root)
            beside.mkdir(exist_ok=True)
            copied += sum(_copy_one(Path(folder, name), beside / name) for name in files)
    except OSError as error:
        raise ObjectsError(f"The objects can't be copied to {target}: {error.strerror}.") from error
    return copied


def _copy_one(source: Path, target: Path) -> bool:
    if source.name.startswith(".") or target.exists():
        return False
    part = target.with_name(f".{target.name}.part")
    try:
        shutil.copy2(source, part)
    except FileNotFoundError:  # deleted since it was listed
        return False
    part.replace(target)
    return True
