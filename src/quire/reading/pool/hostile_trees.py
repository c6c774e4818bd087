"""Deletes folders that hostile code may have filled: of any depth and number of files, without following a link.

`shutil.rmtree` calls itself for each level, so that a thousand nested folders make it raise RecursionError.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

_AT_ONCE = 200
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path) -> threading.Thread | None:
    """Deletes the folder with everything in it, as far as that is possible. Raises nothing.

    The first entries are deleted at once, the others in the thread that is returned: a million files take seconds.
    """
    steps = _steps(path)
    if sum(1 for _ in itertools.islice(steps, _AT_ONCE)) < _AT_ONCE:
        return None
    thread = threading.Thread(target=lambda: sum(1 for _ in steps), name="remove-tree", daemon=True)
    thread.start()
    return thread


def _steps(path: Path) -> Iterator[None]:
    """Yields after each entry that it has deleted or moved."""
    with contextlib.suppress(OSError):
        top = os.open(path, _FOLDER)
        try:
            has_changed = True
            while has_changed:
                has_changed = False
                for _ in _emptied(top):
                    has_changed = True
                    yield
        finally:
            os.close(top)
        path.rmdir()


def _emptied(top: int) -> Iterator[None]:
    """Deletes the files in `top`, and each folder after its own folders were moved up to `top`."""
    with os.scandir(top) as entries:
        for one in entries:
            with contextlib.suppress(OSError):
                if one.is_dir(follow_symlinks=False):
                    yield from _flattened(one.name, top)
                    os.rmdir(one.name, dir_fd=top)
                else:
                    os.unlink(one.name, dir_fd=top)
                yield


def _flattened(name: str, top: int) -> Iterator[None]:
    _make_writable(name, top)
    folder = os.open(name, _FOLDER, dir_fd=top)
    try:
        with os.scandir(folder) as entries:
            for one in entries:
                if one.is_dir(follow_symlinks=False):
                    _make_writable(one.name, folder)
                    os.rename(one.name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=top)
                else:
                    os.unlink(one.name, dir_fd=folder)
                yield
    finally:
        os.close(folder)


def _make_writable(name: str, parent: int) -> None:
    """Hostile code may make folders that not even their owner may open or move. They stay where this is impossible."""
    with contextlib.suppress(OSError, AttributeError):  # macOS has neither O_PATH nor /proc
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=parent)
        try:
            Path(f"/proc/self/fd/{fd}").chmod(0o700)
        finally:
            os.close(fd)
