"""The interface of the object plane: originals and results, under keys that Quire chooses.

Two implementations: a directory (`objects.directory_store`) and the stores of cloud providers
(`objects.remote_store`). An object is written atomically.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import hashlib
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from quire.errors import MissingError, ObjectsError
from quire.objects.cloud_clients import Clouds

P = ParamSpec("P")
T = TypeVar("T")

BLOCK_BYTES = 1 << 20  # hashed and written in one turn of a thread
PIECE_BYTES = 256 << 10  # handed out when streaming
SCRATCH_BYTES = 2 << 30
_LONGEST_KEY = 1024
_LONGEST_SEGMENT = 200  # leaves room for what a file system or a temporary name adds


@dataclass(frozen=True, slots=True)
class SignedUpload:
    """A PUT that needs no other credentials. The client must send the headers."""

    url: str
    headers: Mapping[str, str]


class ObjectStore(abc.ABC):
    """Objects by key. Every method may raise ObjectsError; a malformed key is a ValueError."""

    @classmethod
    def open(
        cls,
        url: str,
        scratch_dir: Path,
        *,
        credentials: Mapping[str, str] | None = None,
        clouds: Clouds | None = None,
        scratch_bytes: int = SCRATCH_BYTES,
    ) -> ObjectStore:
        """Returns the store at `url`: a directory, `file:///dir`, `s3://bucket/prefix`, `gs://…` or `az://…`.

        `clouds` has the credentials for each scheme; `credentials` are those for the scheme of `url`, where
        nothing else is needed. Local copies of remote objects are kept in `scratch_dir`, up to about
        `scratch_bytes`. Nothing is contacted.
        """
        parts = urllib.parse.urlsplit(url)
        if parts.scheme in ("", "file"):
            # Imported here because the implementations import this module.
            from quire.objects.directory_store import DirectoryStore

            return DirectoryStore(Path(urllib.parse.unquote(parts.path) if parts.scheme else url).absolute())
        from quire.objects.remote_store import RemoteStore

        found = clouds or Clouds.with_only(parts.scheme, credentials or {})
        return RemoteStore(url, scratch_dir, found, scratch_bytes)

    async def prepare(self) -> None:
        """Makes what a new store needs before its first use. A store that is away then says so when it is used."""
        return

    @abc.abstractmethod
    def writer(self, key: str) -> ObjectWriter:
        """Returns an async context manager that streams an object in; it is visible once the block has succeeded."""

    @abc.abstractmethod
    async def put(self, key: str, data: bytes) -> None:
        """Stores an object and atomically replaces an existing one."""

    @abc.abstractmethod
    async def get(self, key: str) -> bytes:
        """Returns the content. Raises MissingError."""

    @abc.abstractmethod
    def stream(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Yields the bytes from `start` up to `end` (exclusive). Raises MissingError at the first piece."""

    @abc.abstractmethod
    async def size(self, key: str) -> int | None:
        """Returns the size in bytes, or None if there is no such object."""

    @abc.abstractmethod
    async def delete(self, key: str) -> None:
        """Deletes an object, if it exists."""

    @abc.abstractmethod
    async def delete_prefix(self, prefix: str) -> int:
        """Deletes everything below `prefix/` and returns the number of objects."""

    @abc.abstractmethod
    async def keys(self, prefix: str) -> list[str]:
        """Returns the keys of everything below `prefix/`, in no order."""

    @abc.abstractmethod
    def listing(self) -> AsyncIterator[tuple[str, int]]:
        """Yields key and size in bytes of every object of the store, in no order."""

    @abc.abstractmethod
    async def put_file(self, key: str, path: Path) -> None:
        """Stores the content of a local file, of any size, and keeps no local copy."""

    @abc.abstractmethod
    async def copy(self, key: str, target: str) -> None:
        """Copies an object inside the store, so that its bytes don't come here. Raises MissingError."""

    @abc.abstractmethod
    async def upload_link(self, key: str, for_s: float, size: int) -> SignedUpload | None:
        """Returns a signed address to which a client can PUT the object itself for `for_s` seconds.

        None if the store can't sign, or takes no file of this size in one request.
        """

    @abc.abstractmethod
    def local(self, key: str) -> AbstractAsyncContextManager[Path]:
        """Yields a read-only file with the object's content, which exists until the block ends.

        Only for objects that are never replaced: an earlier copy may be used again.
        """

    @abc.abstractmethod
    async def link(self, key: str, for_s: float) -> str | None:
        """Returns a signed address whose bearer can fetch the object for `for_s` seconds; None if the store can't sign.

        It does not check that the object exists.
        """

    @abc.abstractmethod
    def url(self, key: str) -> str:
        """Returns the unsigned address of an object: `file:///…`, `s3://…`, `gs://…` or `az://…`."""

    @abc.abstractmethod
    async def check(self) -> None:
        """Writes and deletes an object. Raises ObjectsError with a sentence for the operator."""

    @abc.abstractmethod
    async def sweep_temporaries(self) -> int:
        """Deletes incomplete files of killed processes and returns their number; call it at the start."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Deletes local copies."""


class ObjectWriter(abc.ABC):
    """Streams one object in. `size` and `sha256` are final once the block has ended."""

    def __init__(self) -> None:
        self.size = 0
        self._hash = hashlib.sha256()
        self._block = bytearray()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def write(self, data: bytes) -> None:
        """Appends bytes; waits for the disk when a block is full (backpressure for a fast sender)."""
        self.size += len(data)
        self._block += data
        if len(self._block) >= BLOCK_BYTES:
            await self._flush()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            await self._discard()
            return
        try:
            await self._flush()
            await self._finish()
        except BaseException:
            await self._discard()
            raise

    async def _flush(self) -> None:
        block, self._block = self._block, bytearray()
        if block:
            await in_thread(self._store_block, block)

    def _store_block(self, block: bytearray) -> None:
        self._hash.update(block)
        self._append(block)

    @abc.abstractmethod
    async def _open(self) -> None:
        """Creates the place for the content."""

    @abc.abstractmethod
    def _append(self, block: bytearray) -> None:
        """Stores a block; runs in a thread."""

    @abc.abstractmethod
    async def _finish(self) -> None:
        """Makes the object visible."""

    @abc.abstractmethod
    async def _discard(self) -> None:
        """Deletes everything that was written."""


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a blocking function in a thread; a cancellation is raised only after the function has ended.

    Otherwise the caller would close a file that the thread still uses, and the thread would write to the next
    file with the same descriptor.
    """
    running = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # retrieved, so that asyncio does not log it
        raise


def checked_key(key: str) -> str:
    """Returns the key. Raises ValueError if it could leave the store's folder or is special to a file system."""
    segments = key.split("/")
    if not key or len(key.encode()) > _LONGEST_KEY:
        raise ValueError("an object key is between 1 and 1024 bytes long")
    if not key.isprintable() or "\\" in key:
        raise ValueError("an object key has printable characters only, and no backslash")
    for segment in segments:
        if not segment or segment.startswith(".") or len(segment.encode()) > _LONGEST_SEGMENT:
            raise ValueError("a part of an object key is empty, starts with a dot or is too long")
    return key


def missing(key: str) -> MissingError:
    return MissingError(f"There is no object {key}.")


def unusable(where: str, reason: str, *, retryable: bool = True) -> ObjectsError:
    return ObjectsError(f"The object store {where} can't be used: {reason}.", retryable=retryable)
