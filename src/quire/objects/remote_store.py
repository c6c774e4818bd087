"""The object store in S3, Google Cloud Storage or Azure, through obstore.

An upload is first spooled to a local file: nothing is sent before the content is complete, so a caller that fails
leaves nothing behind, and the worker that reads the object next finds a local copy.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from quire.errors import ObjectsError
from quire.objects.cloud_clients import Clouds, Patience, connect
from quire.objects.object_store import (
    BLOCK_BYTES,
    PIECE_BYTES,
    ObjectStore,
    ObjectWriter,
    SignedUpload,
    checked_key,
    in_thread,
    missing,
    unusable,
)
from quire.objects.scratch_copies import Scratch
from quire.objects.temporary_files import TemporaryFile

if TYPE_CHECKING:
    from obstore import GetOptions

_PART_BYTES = 5 << 20  # the smallest part that S3 accepts; with 10,000 parts at most: 50 GB
_PARTS_AT_ONCE = 2
_LISTED_AT_ONCE = 1000
_MOST_PUT_BYTES = 5_000_000_000  # S3 takes, and copies, no more in one request
_PUT_HEADERS = {"az": {"x-ms-blob-type": "BlockBlob"}}


class RemoteStore(ObjectStore):
    def __init__(self, url: str, scratch_dir: Path, clouds: Clouds, scratch_bytes: int) -> None:
        self._url = url
        self._scratch = Scratch(scratch_dir, scratch_bytes)
        try:
            self._store = connect(url, clouds, Patience())
        except ObjectsError as error:
            raise ObjectsError(
                f"OBJECT_STORE={url} is not understood. Use a directory, s3://bucket/prefix, "
                "gs://bucket/prefix or az://container/prefix, and check the credentials.",
                retryable=False,
            ) from error

    def writer(self, key: str) -> ObjectWriter:
        return _SpooledWriter(self, checked_key(key))

    async def put(self, key: str, data: bytes) -> None:
        self._scratch.forget(checked_key(key))
        with self._translated():
            await obstore.put_async(
                self._store, key, data, chunk_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE
            )

    async def get(self, key: str) -> bytes:
        with self._translated(key):
            answer = await obstore.get_async(self._store, checked_key(key))
            return bytes(await answer.bytes_async())

    async def stream(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        options = await self._range(checked_key(key), start, end)
        if options is None:
            return
        with self._translated(key):
            answer = await obstore.get_async(self._store, key, options=options)
            async for chunk in answer.stream(min_chunk_size=PIECE_BYTES):
                view = memoryview(chunk)
                for at in range(0, len(view), PIECE_BYTES):
                    yield bytes(view[at : at + PIECE_BYTES])

    async def size(self, key: str) -> int | None:
        checked_key(key)
        with self._translated():
            try:
                return (await obstore.head_async(self._store, key))["size"]
            except FileNotFoundError:
                return None

    async def delete(self, key: str) -> None:
        self._scratch.forget(checked_key(key))
        with self._translated(), contextlib.suppress(FileNotFoundError):
            await obstore.delete_async(self._store, key)

    async def delete_prefix(self, prefix: str) -> int:
        folder = checked_key(prefix.rstrip("/"))
        self._scratch.forget_below(folder + "/")
        removed = 0
        with self._translated():
            async for found in obstore.list(self._store, folder, chunk_size=_LISTED_AT_ONCE):
                keys = [one["path"] for one in found]
                await obstore.delete_async(self._store, keys)
                removed += len(keys)
        return removed

    async def keys(self, prefix: str) -> list[str]:
        folder = checked_key(prefix.rstrip("/"))
        found: list[str] = []
        with self._translated():
            async for batch in obstore.list(self._store, folder, chunk_size=_LISTED_AT_ONCE):
                found += [one["path"] for one in batch]
        return found

    async def listing(self) -> AsyncIterator[tuple[str, int]]:
        with self._translated():
            async for batch in obstore.list(self._store, chunk_size=_LISTED_AT_ONCE):
                for one in batch:
                    yield one["path"], one["size"]

    async def put_file(self, key: str, path: Path) -> None:
        with self._translated():
            await obstore.put_async(
                self._store, checked_key(key), path, chunk_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE
            )

    async def copy(self, key: str, target: str) -> None:
        self._scratch.forget(checked_key(target))
        with self._translated(key):
            await obstore.copy_async(self._store, checked_key(key), target)

    async def upload_link(self, key: str, for_s: float, size: int) -> SignedUpload | None:
        if size > _MOST_PUT_BYTES:
            return None
        with self._translated():
            url = await obstore.sign_async(self._store, "PUT", checked_key(key), timedelta(seconds=for_s))
        return SignedUpload(url, _PUT_HEADERS.get(self._url.partition("://")[0], {}))

    @contextlib.asynccontextmanager
    async def local(self, key: str) -> AsyncIterator[Path]:
        checked_key(key)

        async def fetch(file: TemporaryFile) -> None:
            block = bytearray()
            async for piece in self.stream(key):
                block += piece
                if len(block) >= BLOCK_BYTES:
                    await in_thread(file.write, block)
                    block = bytearray()
            await in_thread(file.write, block)

        async with self._scratch.copy(key, fetch) as path:
            yield path

    async def link(self, key: str, for_s: float) -> str | None:
        with self._translated():
            return await obstore.sign_async(self._store, "GET", checked_key(key), timedelta(seconds=for_s))

    def url(self, key: str) -> str:
        return f"{self._url.rstrip('/')}/{checked_key(key)}"

    async def check(self) -> None:
        key = f"checks/{secrets.token_hex(8)}"
        await self.put(key, b"quire")
        await self.delete(key)

    async def sweep_temporaries(self) -> int:
        with self._translated():
            return await in_thread(self._scratch.sweep)

    async def close(self) -> None:
        await self._scratch.close()

    def spool(self) -> TemporaryFile:
        """Returns a local file to spool an upload. Blocking."""
        with self._translated():
            return self._scratch.temporary()

    async def upload(self, key: str, file: TemporaryFile, size: int) -> None:
        """Uploads a finished file and keeps it as the local copy."""
        with self._translated():
            await obstore.put_async(
                self._store, key, file.path, chunk_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE
            )
            self._scratch.adopt(key, file, size)

    async def _range(self, key: str, start: int, end: int | None) -> GetOptions | None:
        """Returns the range to request; None if it is empty, which servers refuse."""
        if start == 0 and end is None:
            return {}
        size = await self.size(key)
        if size is None:
            raise missing(key)
        stop = size if end is None else min(end, size)
        return {"range": (start, stop)} if start < stop else None

    @contextlib.contextmanager
    def _translated(self, key: str | None = None) -> Iterator[None]:
        """Translates obstore's errors. Only their class is shown: their texts may have signed headers."""
        try:
            yield
        except FileNotFoundError as error:
            if key is not None:
                raise missing(key) from error
            raise unusable(self._url, "there is no such bucket") from error
        except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
            raise unusable(self._url, "it refuses the credentials", retryable=False) from error
        except (BaseError, OSError, TimeoutError) as error:
            raise unusable(self._url, type(error).__name__) from error


class _SpooledWriter(ObjectWriter):
    def __init__(self, store: RemoteStore, key: str) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._file: TemporaryFile | None = None

    async def _open(self) -> None:
        self._file = self._store.spool()

    def _append(self, block: bytearray) -> None:
        if self._file is not None:
            try:
                self._file.write(block)
            except OSError as error:
                raise unusable(str(self._file.path.parent), error.strerror or type(error).__name__) from error

    async def _finish(self) -> None:
        if self._file is not None:
            await self._store.upload(self._key, self._file, self.size)

    async def _discard(self) -> None:
        if self._file is not None:
            self._file.discard()
