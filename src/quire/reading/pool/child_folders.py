"""The folders of reader processes: each child has one with the document at hand, to read, and one to write into.

A document is linked into the folder of its child before a task and taken out after it, so that a parser that a hostile
file has taken over finds no other document. Where a link is impossible (another file system, a file of another user),
the document is copied, once for each child that reads it. Folders of processes that were killed are removed by the next
process that starts readers.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

DOCUMENT, TEMPORARY = "document", "temporary"
OUTPUTS = "outputs"
"""Beside the folders of children: files that a parent made for a child to write into. No child reads them."""
_PREFIX = "server-"


class ChildFolder:
    """The folder of one child, seen by its parent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._shown: Path | None = None
        self._is_copy = False
        for name in (DOCUMENT, TEMPORARY):
            (path / name).mkdir(mode=0o700)

    async def show(self, document: str) -> str:
        """Returns the path at which the child finds the document. Raises OSError if there is no room for a copy.

        A document that no longer exists is not found by the child either.
        """
        real = os.path.realpath(document)  # noqa: ASYNC240 - a few microseconds, as the link below
        name = hashlib.sha256(os.fsencode(real)).hexdigest()[:32] + Path(document).suffix
        place = self.path / DOCUMENT / name
        if self._shown == place and self._is_copy and _is_same(real, place):
            return str(place)
        self._remove()
        self._shown, self._is_copy = place, False
        try:
            os.link(real, place)
        except FileNotFoundError:
            pass
        except OSError:
            self._is_copy = True
            with contextlib.suppress(FileNotFoundError):
                await asyncio.to_thread(shutil.copy2, real, place)
        return str(place)

    def hide(self) -> None:
        """Takes the document out of the folder. A copy stays until another document is shown."""
        if not self._is_copy:
            self._remove()

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _remove(self) -> None:
        if self._shown is not None:
            self._shown.unlink(missing_ok=True)
            self._shown = None


def _is_same(original: str, copy: Path) -> bool:
    try:
        one, other = Path(original).stat(), copy.stat()
    except OSError:
        return False
    return (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)


class ChildFolders:
    """The folders of the children of one fork server. A lock, which ends with the process, marks them as in use."""

    def __init__(self, parent: Path) -> None:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (parent / OUTPUTS).mkdir(mode=0o700, exist_ok=True)
        with _locked(parent):
            for stale in parent.glob(f"{_PREFIX}*"):
                _remove_unless_locked(stale)
            self._path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            self._lock = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._made = 0

    def make(self) -> ChildFolder:
        self._made += 1
        path = self._path / str(self._made)
        path.mkdir(mode=0o700)
        return ChildFolder(path)

    def close(self) -> None:
        """Removes all folders. It may be called again, for what a child that was just ending has written since."""
        shutil.rmtree(self._path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _remove_unless_locked(folder: Path) -> None:
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:  # its process is alive
        pass
    finally:
        os.close(fd)
