"""Temporary files that are locked while they are written, so that orphans can be recognised.

The writer of a temporary file holds a lock on it, and the kernel releases the lock when the process ends. So a
file that another process can lock is an orphan and may be deleted at any time, even while other processes write in
the same folder.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path

_ATTEMPTS = 100


class TemporaryFile:
    """A locked file under a random name in `folder`, to be renamed into place or discarded."""

    def __init__(self, folder: Path) -> None:
        while True:
            make_private_folder(folder)
            self.path = folder / secrets.token_hex(16)
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            # A sweep may have deleted the file between its creation and the lock.
            if os.fstat(self._fd).st_nlink == 1:
                return
            os.close(self._fd)

    def write(self, data: bytes | bytearray) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def sync(self) -> None:
        os.fsync(self._fd)

    def move_to(self, target: Path) -> None:
        """Renames the file to `target` and creates the folders that it needs."""
        for attempt in range(_ATTEMPTS):
            make_private_folder(target.parent)
            try:
                self.path.rename(target)
                break
            except FileNotFoundError:  # another process deleted the empty folder
                if attempt == _ATTEMPTS - 1:
                    raise
        self.close()

    def discard(self) -> None:
        if self._fd >= 0:
            self.path.unlink(missing_ok=True)
            self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def make_private_folder(path: Path) -> None:
    """Creates a folder, and missing folders above it, for this user only.

    Retries when another process deletes one of the empty folders at the same time.
    """
    for attempt in range(_ATTEMPTS):
        last = attempt == _ATTEMPTS - 1
        try:
            path.mkdir(mode=0o700)
            return
        except FileExistsError:
            if path.is_dir():
                return
            if last:
                raise
        except FileNotFoundError:
            if last or path == path.parent:
                raise
            make_private_folder(path.parent)


def sweep(folder: Path) -> int:
    """Deletes the orphans in `folder`; returns their number."""
    try:
        found = list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return sum(remove_if_left_over(path) for path in found)


def remove_if_left_over(path: Path) -> bool:
    """Deletes a temporary file whose lock is free; returns True if it no longer exists."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(
            missing_ok=True
        )  # while holding the lock: a writer checks the link count after it got the lock
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
