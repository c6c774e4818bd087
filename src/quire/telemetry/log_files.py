"""The log file: shared by the processes of a host, rotated by size, compressed, deleted by age and number.

Every line is written under a lock file, so processes that share LOG_FILE neither lose lines nor rotate twice.
Rotation is a rename; compression runs in a thread of the process that rotated. A process that dies while it compresses
leaves the plain file, which the next rotation of any process compresses.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from quire.settings import LoggingSettings

_DAY_S = 86_400.0
_STAMP = "%Y%m%dT%H%M%S"


class SharedFileHandler(logging.Handler):
    """Appends lines to LOG_FILE. Raises OSError when the file can't be opened."""

    def __init__(self, settings: LoggingSettings) -> None:
        super().__init__()
        if settings.file is None:
            raise ValueError("LOG_FILE is not set")
        self._settings = settings
        self._path = settings.file.absolute()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock_fd = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._fd = -1
        self._tidying = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._open()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = f"{self.format(record)}\n".encode("utf-8", "replace")
            with self._exclusive():
                self._follow()
                if self._is_full(len(line)):
                    self._rotate()
                self._write(line)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Waits for a compression under way, then closes the file."""
        for thread in self._threads:
            thread.join(timeout=30)
        with contextlib.suppress(OSError):
            os.close(self._fd)
        with contextlib.suppress(OSError):
            os.close(self._lock_fd)
        super().close()

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock_fd, fcntl.LOCK_UN)

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _follow(self) -> None:
        """Opens the file anew if another process has rotated it, or an operator has moved it."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            there = None
        ours = os.fstat(self._fd)
        if there is None or (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
            os.close(self._fd)
            self._open()

    def _is_full(self, more: int) -> bool:
        size = os.fstat(self._fd).st_size
        return size > 0 and size + more > self._settings.max_size_bytes

    def _write(self, line: bytes) -> None:
        """A full disk may take part of a line: the part is cut off, so that the next line begins a line."""
        size = os.fstat(self._fd).st_size
        written = os.write(self._fd, line)
        while 0 < written < len(line):
            try:
                written += os.write(self._fd, line[written:])
            except OSError:
                os.ftruncate(self._fd, size)
                raise

    def _rotate(self) -> None:
        now = time.time()
        stamp = f"{time.strftime(_STAMP, time.gmtime(now))}.{int(now % 1 * 1e6):06d}Z"
        self._path.rename(f"{self._path}.{stamp}")
        os.close(self._fd)
        self._open()
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=self._tidy, name="log-compression", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _tidy(self) -> None:
        """Compresses rotated files and deletes those that are too old or too many. One process does it at a time."""
        with self._tidying, contextlib.suppress(OSError):
            fd = os.open(f"{self._path}.tidy", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if self._settings.compress:
                    for plain in self._rotated(compressed=False):
                        _compress(plain)
                self._delete_old()
            finally:
                os.close(fd)

    def _rotated(self, *, compressed: bool | None = None) -> list[Path]:
        """Files put aside, the oldest first: their names begin with the time."""
        name = re.compile(re.escape(self._path.name) + r"\.\d{8}T\d{6}\.\d{6}Z(\.gz)?")
        found = [one for one in self._path.parent.iterdir() if name.fullmatch(one.name)]
        kept = [one for one in found if compressed is None or (one.suffix == ".gz") == compressed]
        return sorted(kept, key=lambda one: one.name.removesuffix(".gz"))

    def _delete_old(self) -> None:
        rotated = self._rotated()
        too_many = rotated[: max(0, len(rotated) - self._settings.max_backups)]
        age_s = self._settings.max_age_days * _DAY_S
        too_old = [one for one in rotated if age_s and one.stat().st_mtime < time.time() - age_s]
        for one in {*too_many, *too_old}:
            one.unlink(missing_ok=True)


def _compress(plain: Path) -> None:
    """Level 1: a second of CPU for 100 MB. The time of the plain file is kept, because its age counts."""
    part, packed = Path(f"{plain}.part"), Path(f"{plain}.gz")
    with plain.open("rb") as source, gzip.open(part, "wb", compresslevel=1) as target:
        shutil.copyfileobj(source, target)
    shutil.copystat(plain, part)
    part.chmod(0o600)
    part.replace(packed)
    plain.unlink(missing_ok=True)
