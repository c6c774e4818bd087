"""The objects plane: originals, page images and results, under keys that we choose.

One interface, two implementations: a directory (`objects.directory`) and the stores of the cloud providers
(`objects.remote`, the only importer of obstore). An object is written once and seen whole or not at all.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import hashlib
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
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
        """The store at `url`: a directory, `file:///dir`, `s3://bucket/prefix`, `gs://…` or `az://…`.

        `clouds` has the credentials for each scheme; `credentials` are those for the scheme of `url`, where
        nothing else is needed. Local copies of remote objects are kept in `scratch_dir`, up to about
        `scratch_bytes`. Nothing is contacted yet.
        """
        parts = urllib.parse.urlsplit(url)
        if parts.scheme in ("", "file"):
            # Imported here because the implementations import this module.
            from quire.objects.directory_store import DirectoryStore

            return DirectoryStore(Path(urllib.parse.unquote(parts.path) if parts.scheme else url).absolute())
        from quire.objects.remote_store import RemoteStore

        found = clouds or Clouds.with_only(parts.scheme, credentials or {})
        return RemoteStore(url, scratch_dir, found, scratch_bytes)

    @abc.abstractmethod
    def writer(self, key: str) -> ObjectWriter:
        """An async context manager to stream an object into; it appears, whole, when the block ends well."""

    @abc.abstractmethod
    async def put(self, key: str, data: bytes) -> None:
        """Store an object, replacing the one that was there in one step."""

    @abc.abstractmethod
    async def get(self, key: str) -> bytes:
        """The content; NotFoundError if there is no such object."""

    @abc.abstractmethod
    def stream(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes from `start` up to `end` (not included) in pieces; NotFoundError at the first of them."""

    @abc.abstractmethod
    async def size(self, key: str) -> int | None:
        """The size in bytes, or None if there is no such object."""

    @abc.abstractmethod
    async def delete(self, key: str) -> None:
        """Remove an object; one that isn't there is fine."""

    @abc.abstractmethod
    async def delete_prefix(self, prefix: str) -> int:
        """Remove everything below `prefix/` and say how many objects that was."""

    @abc.abstractmethod
    async def keys(self, prefix: str) -> list[str]:
        """The keys of everything below `prefix/`, in no order."""

    @abc.abstractmethod
    def local(self, key: str) -> AbstractAsyncContextManager[Path]:
        """A file with the object's content, good until the block ends and not to be changed.

        For objects that are never replaced under their key: a copy made earlier may be handed out again.
        """

    @abc.abstractmethod
    async def link(self, key: str, for_s: float) -> str | None:
        """A signed address at which anybody can fetch the object for that long; None where the store has none.

        It says nothing about whether there is such an object.
        """

    @abc.abstractmethod
    async def check(self) -> None:
        """ObjectsError, with a sentence for the operator, unless an object can be written and removed."""

    @abc.abstractmethod
    async def sweep_temporaries(self) -> int:
        """Remove what killed processes left half-written and say how many files; call it at the start."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Let go of local copies."""


class ObjectWriter(abc.ABC):
    """Streams one object in. `size` and `sha256` are right once the block has ended."""

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
        """Take some bytes; waits for the disk now and then, so a fast sender can't fill the memory."""
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
        """Make room for the content."""

    @abc.abstractmethod
    def _append(self, block: bytearray) -> None:
        """Keep a block; runs in a thread."""

    @abc.abstractmethod
    async def _finish(self) -> None:
        """Make the object visible."""

    @abc.abstractmethod
    async def _discard(self) -> None:
        """Forget everything."""


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in a thread; when cancelled, only after it has ended.

    Otherwise the caller would close a file that the thread still uses, and the thread would go on with
    whatever gets the same descriptor next.
    """
    running = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # nobody is left to be told
        raise


def checked_key(key: str) -> str:
    """The key itself, or ValueError if it could leave its place or mean something to a file system."""
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
