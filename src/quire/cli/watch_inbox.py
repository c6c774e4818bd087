"""The watched folder: which of its files are completely written, without the help of their writers."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path, PurePosixPath

_UNFINISHED_ENDINGS = (
    *(".part", ".partial", ".crdownload", ".download", ".opdownload", ".filepart", ".tmp", ".temp"),
    *(".swp", ".swx", ".lock", ".aria2", ".!ut", ".!qb", ".bc!", "~"),
)
_HIDDEN_BEGINNINGS = (".", "~$", "#")
_BLOCK_BYTES = 1 << 20
_LONGEST_NAME_BYTES = 255
_NO_WRITERS_KNOWN = (errno.EACCES, errno.EINVAL, errno.EPERM, errno.ENOTSUP, errno.ENOLCK, errno.EBADF)


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a file: what changes when a process writes to it."""

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Look:
        return cls(found.st_size, found.st_mtime_ns, found.st_ino)


@dataclass(frozen=True, slots=True)
class InboxFile:
    """A file in the inbox. `name` is its path within it, with slashes."""

    name: str
    path: Path
    look: Look


class Inbox:
    """Polls a folder. A file is finished when two polls saw the same state and no process has it open for writing."""

    def __init__(self, folder: Path, leave_out: Iterable[Path] = ()) -> None:
        self.folder = folder
        self._leave_out = {path.resolve() for path in leave_out}
        self._before: dict[str, Look] = {}

    def look(
        self, wanted: Callable[[InboxFile], bool] = lambda _: True
    ) -> tuple[list[InboxFile], list[InboxFile]]:
        """Of the files that are wanted, those that are finished, and those that may not be.

        Blocking. Raises OSError if the folder itself can't be read.
        """
        seen = {found.name: found for found in self._files()}
        finished: list[InboxFile] = []
        unfinished: list[InboxFile] = []
        for name, found in sorted(seen.items()):
            if not wanted(found):
                continue
            same = self._before.get(name) == found.look
            (finished if same and not is_being_written(found.path) else unfinished).append(found)
        self._before = {name: found.look for name, found in seen.items()}
        return finished, unfinished

    def _files(self) -> Iterator[InboxFile]:
        with os.scandir(self.folder):  # a folder that can't be read is an error, one below it is not
            pass
        waiting = [self.folder]
        while waiting:
            folder = waiting.pop()
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith(_HIDDEN_BEGINNINGS):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if Path(entry.path).resolve() not in self._leave_out:
                            waiting.append(Path(entry.path))
                    elif not entry.name.lower().endswith(_UNFINISHED_ENDINGS):
                        yield from self._file(entry)

    def _file(self, entry: os.DirEntry[str]) -> Iterator[InboxFile]:
        with contextlib.suppress(OSError):  # it has just gone
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) and _is_text(entry.name):
                path = Path(entry.path)
                yield InboxFile(path.relative_to(self.folder).as_posix(), path, Look.of(found))


def is_being_written(path: Path) -> bool:
    """Whether some process has the file open for writing, as far as the system tells. Blocking.

    A lease for reading is refused while there is a writer. Weakness: only owners may ask, and network file systems
    know of no leases; there a file counts as finished when it doesn't change. The caller must ignore SIGIO, which
    is sent if another process opens the file at this moment.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False  # it is gone or can't be read: the conversion reports that
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno not in _NO_WRITERS_KNOWN
    except AttributeError:  # not Linux
        return False
    finally:
        os.close(fd)
    return False


def digest_of(path: Path) -> tuple[str, Look]:
    """The hash of a file's content, and how the file looked while it was read. Blocking. Raises OSError."""
    digest = hashlib.sha256()
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with FileIO(fd) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
        return digest.hexdigest(), Look.of(os.fstat(fd))


def look_at(path: Path) -> Look | None:
    """How the file looks now; None if it is no file, or gone."""
    try:
        found = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return Look.of(found) if stat.S_ISREG(found.st_mode) else None


def result_names(name: str, suffix: str) -> Iterator[str]:
    """What a document's result may be called, the best name first: `a/report.md`, `a/report.pdf.md`, …"""
    path = PurePosixPath(name)
    yield str(path.with_name(fitting(path.stem, suffix)))
    yield str(path.with_name(fitting(path.name, suffix)))
    number = 2
    while True:
        yield str(path.with_name(fitting(path.name, f"-{number}{suffix}")))
        number += 1


def fitting(name: str, ending: str) -> str:
    """The name with that ending, cut so that a file system takes it."""
    room = _LONGEST_NAME_BYTES - len(ending.encode())
    return name.encode()[:room].decode("utf-8", "ignore") + ending


def _is_text(name: str) -> bool:
    """Names that are no text (undecodable bytes) can't be written down in the journal."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
