"""The folders of reader processes: each child has one with the document at hand, to read, and one to write into.

A document is linked into the folder of its child before a task and taken out after it, so that a parser that a hostile
file has taken over finds no other document. Where a link is impossible (another file system, a file of another user),
the document is copied, once for each child that reads it. A file that is the result of a task is written in the child's
own folder, and its parent copies it from there. Folders of processes that were killed are removed by the next process
that starts readers.

Weakness: until its task ends, a child that was taken over can fill the disk that its folder is on.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from quire.reading.pool.hostile_trees import remove_tree

DOCUMENT, TEMPORARY = "document", "temporary"
_PREFIX = "server-"
_RESULT = "result"
_COPIED_BYTES = 1 << 20


class RefusedFileError(Exception):
    """What a child left as its result is not a plain file of a possible size."""


class ChildFolder:
    """The folder of one child, seen by its parent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Texts, not paths: they are used for every task.
        self._documents, self._temporary = str(path / DOCUMENT), str(path / TEMPORARY)
        self.result = f"{self._temporary}/{_RESULT}"
        """The path at which the child writes a file that is the result of its task."""
        self._shown: str | None = None
        self._is_copy = False
        for name in (DOCUMENT, TEMPORARY):
            (path / name).mkdir(mode=0o700)

    async def show(self, document: str) -> str:
        """Returns the path at which the child finds the document. Raises OSError if there is no room for a copy.

        A document that no longer exists is not found by the child either.
        """
        real = os.path.realpath(document)  # noqa: ASYNC240 - a few microseconds, as the link below
        name = hashlib.sha256(os.fsencode(real)).hexdigest()[:32] + os.path.splitext(document)[1]  # noqa: PTH122
        place = f"{self._documents}/{name}"
        if self._shown == place and self._is_copy and _is_same(real, place):
            return place
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
        return place

    def hide(self) -> bool:
        """Takes the document and the result out of the folder. A copy stays until another document is shown.

        Returns False if the child has left other files: it must not be used again.
        """
        if not self._is_copy:
            self._remove()
        with contextlib.suppress(FileNotFoundError, IsADirectoryError, PermissionError):
            os.unlink(self.result)  # noqa: PTH108 - after every task
        try:
            with os.scandir(self._temporary) as left:
                return next(left, None) is None
        except OSError:  # the pool was closed in the same moment
            return False

    def deliver(self, target: str, added_bytes: int) -> None:
        """Copies the result into the existing file `target`; it may be larger than the document by `added_bytes`.

        Raises OSError if it can't be written, and RefusedFileError if the child left a link to a file that only the
        parent may read, a pipe, or a file that is too large.
        """
        shown_bytes = Path(self._shown).stat().st_size if self._shown else 0
        with os.fdopen(self._open_result(), "rb") as written, Path(target).open("r+b") as out:
            out.truncate()
            _copy(written, out, shown_bytes + added_bytes)

    def _open_result(self) -> int:
        try:
            fd = os.open(self.result, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise RefusedFileError("The reader process left no file as its result.") from error
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise RefusedFileError("The result of the reader process is not a plain file.")
        return fd

    def remove(self) -> None:
        """Deletes the folder, in the background if the child has left many files in it."""
        remove_tree(self.path)

    def _remove(self) -> None:
        if self._shown is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._shown)  # noqa: PTH108 - after every task
            self._shown = None


def _copy(written: BinaryIO, out: BinaryIO, most_bytes: int) -> None:
    """Raises RefusedFileError before anything is written if the file is too large, and while it grows."""
    text = f"The result of the reader process is larger than the {most_bytes >> 20} MB that it may have."
    if os.fstat(written.fileno()).st_size > most_bytes:
        raise RefusedFileError(text)
    copied = 0
    while piece := written.read(_COPIED_BYTES):
        copied += len(piece)
        if copied > most_bytes:
            raise RefusedFileError(text)
        out.write(piece)


def _is_same(original: str, copy: str) -> bool:
    try:
        one, other = Path(original).stat(), Path(copy).stat()
    except OSError:
        return False
    return (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)


def _make_private(folder: Path) -> None:
    """`mkdir(parents=True)` would give the folders above it the usual mode."""
    if not folder.parent.is_dir():
        _make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


class ChildFolders:
    """The folders of the children of one fork server. A lock, which ends with the process, marks them as in use."""

    def __init__(self, parent: Path) -> None:
        _make_private(parent)
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
        remove_tree(self._path)
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
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_tree(folder)
    except OSError:  # its process is alive
        pass
    finally:
        os.close(fd)
