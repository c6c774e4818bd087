"""Partial downloads: bytes that stay on this machine until the document is complete, so that it can be resumed.

A partial survives its process. A note beside the bytes has their source, the server's identifier of their version,
and this machine's boot id. After a reboot it is not known which bytes reached the disk, so the note is not used.
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
    """An async context manager: the bytes of one document so far. Every method may raise ObjectsError.

    The bytes are deleted when the block succeeds or raises an error that is not retryable; otherwise they stay
    for the next attempt. `source` is a hash of the address: bytes of another source are dropped.
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
        # The error of the block is raised, not one of the clean-up; a lost part is downloaded again.
        with self._translated() if error is None else contextlib.suppress(OSError):
            await in_thread(self._close, keep=not final and bool(self.validator))

    async def write(self, chunk: bytes) -> None:
        """Appends a chunk; waits for the disk when a block is full (backpressure for a fast sender)."""
        self._block += chunk
        if len(self._block) >= BLOCK_BYTES:
            with self._translated():
                await in_thread(self._flush)

    async def restart(self, validator: str) -> None:
        """Drops all bytes; the next chunk is the beginning of this version."""
        with self._translated():
            await in_thread(self._restart, validator)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields all bytes from the beginning."""
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
            # Another process still writes it (a worker that was presumed dead): this attempt uses its own file.
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
        # In this order: a note must never be beside bytes of another version.
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
    """Deletes partials that are older than that time and not locked; returns their number. Blocking."""
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
    """Runs `sweep_partials` in a thread. Returns 0 for a folder that can't be read."""
    with contextlib.suppress(OSError):
        return await asyncio.to_thread(sweep_partials, folder, before_s)
    return 0


def _remove(path: Path) -> None:
    """Deletes the bytes last: a later sweep finds the other files by them."""
    for ending in (_NOTE, _NEW_NOTE, _PART):
        path.with_suffix(ending).unlink(missing_ok=True)


def _locked(path: Path) -> int:
    """Returns a descriptor that holds the file's lock, or -1 if another process holds it."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return -1
        # The previous holder may have deleted the file just before we got the lock.
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
    except OSError:  # not Linux: a reboot can't be detected, so no partial is resumed
        return secrets.token_hex(8)
