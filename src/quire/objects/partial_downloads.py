"""Documents that are being fetched: kept on this machine until they are whole, so that the rest can be asked for.

A partial outlives its process. Beside the bytes lies a note: whose they are, what their server calls the version
they belong to, and when this machine was started. After a power cut nobody knows which bytes reached the disk, so
then the note counts for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from quire.errors import ObjectsError, QuireError
from quire.objects.object_store import BLOCK_BYTES, in_thread
from quire.objects.temporary_files import make_private_folder

_PART, _NOTE, _NEW_NOTE = ".part", ".note", ".new"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Partial:
    """An async context manager: what has arrived of one document. Every method may raise ObjectsError.

    When the block ends well, or with an error that another attempt can't mend, the bytes go; otherwise they
    stay for that attempt. `source` is a hash of where they come from: bytes of another source are dropped.
    """

    def __init__(self, folder: Path, name: str, source: str) -> None:
        self._folder = folder
        self._name = name
        self._source = source
        self._fd = -1
        self._path = folder / f"{name}{_PART}"
        self._block = bytearray()
        self._written = 0
        self.validator = ""

    @property
    def size(self) -> int:
        return self._written + len(self._block)

    async def __aenter__(self) -> Self:
        with self._translated():
            await in_thread(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        final = error is None or (isinstance(error, QuireError) and not error.retryable)
        # What went wrong before is what counts; a part that can't be kept is fetched again.
        with self._translated() if error is None else contextlib.suppress(OSError):
            await in_thread(self._close, keep=not final and bool(self.validator))

    async def write(self, chunk: bytes) -> None:
        """Adds what comes next; waits for the disk now and then, so a fast sender can't fill the memory."""
        self._block += chunk
        if len(self._block) >= BLOCK_BYTES:
            with self._translated():
                await in_thread(self._flush)

    async def restart(self, validator: str) -> None:
        """Forgets everything; what comes next is the beginning of the version named so."""
        with self._translated():
            await in_thread(self._restart, validator)

    async def pieces(self) -> AsyncIterator[bytes]:
        """All that has arrived, from its beginning."""
        with self._translated():
            await in_thread(self._flush)
            at = 0
            while piece := await in_thread(os.pread, self._fd, BLOCK_BYTES, at):
                at += len(piece)
                yield piece

    def _open(self) -> None:
        make_private_folder(self._folder)
        self._fd = _locked(self._path)
        if self._fd < 0:
            # Somebody still works on it (this process was thought dead, or that one): a place of our own then.
            self._path = self._folder / f"{self._name}-{secrets.token_hex(4)}{_PART}"
            self._fd = _locked(self._path)
        try:
            note = _read_note(self._note)
            if note.get("source") == self._source and note.get("boot") == _boot_id():
                self.validator = str(note.get("validator") or "")
            if self.validator:
                self._written = os.lseek(self._fd, 0, os.SEEK_END)
            else:
                self._restart("")
        except OSError:
            os.close(self._fd)
            self._fd = -1
            raise

    def _restart(self, validator: str) -> None:
        # In this order: a note must never stand beside bytes of another version.
        self._note.unlink(missing_ok=True)
        self._block.clear()
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        self._written = 0
        self.validator = validator
        if validator:
            note = {"source": self._source, "validator": validator, "boot": _boot_id()}
            fresh = self._note.with_suffix(_NEW_NOTE)
            fresh.write_text(json.dumps(note))
            fresh.replace(self._note)

    def _flush(self) -> None:
        block, self._block = self._block, bytearray()
        view = memoryview(block)
        while view:
            done = os.write(self._fd, view)
            self._written += done
            view = view[done:]

    def _close(self, *, keep: bool) -> None:
        if self._fd < 0:
            return
        try:
            if keep:
                self._flush()
            else:
                _remove(self._path)
        finally:
            os.close(self._fd)
            self._fd = -1

    @property
    def _note(self) -> Path:
        return self._path.with_suffix(_NOTE)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise ObjectsError(f"The folder {self._folder} can't be used: {why}.") from error


def sweep_partials(folder: Path, before_s: float) -> int:
    """Removes what nobody has touched since that time and nobody holds; how many documents. Blocking."""
    removed = 0
    for path in folder.glob(f"*{_PART}"):
        try:
            if path.stat().st_mtime >= before_s:
                continue
            fd = _locked(path)
            if fd < 0:
                continue
            try:
                _remove(path)
            finally:
                os.close(fd)
        except FileNotFoundError:
            continue
        removed += 1
    return removed


async def remove_old_partials(folder: Path, before_s: float) -> int:
    """`sweep_partials`, in a thread. A folder that can't be read has nothing that could be removed."""
    with contextlib.suppress(OSError):
        return await asyncio.to_thread(sweep_partials, folder, before_s)
    return 0


def _remove(path: Path) -> None:
    """The bytes last: as long as they are there, whoever sweeps finds the rest by them."""
    for ending in (_NOTE, _NEW_NOTE, _PART):
        path.with_suffix(ending).unlink(missing_ok=True)


def _locked(path: Path) -> int:
    """A descriptor that holds the file's lock, or -1 if somebody else does."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return -1
        # Whoever held it may have removed it just before we got the lock.
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)


def _read_note(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _boot_id() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:  # not Linux: a restart of the machine can't be told, so nothing is completed after one
        return secrets.token_hex(8)
