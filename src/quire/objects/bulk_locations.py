"""Places that bulk runs read from and write to: a folder, or a prefix of a bucket (`s3://`, `gs://`, `az://`).

Keys are those of the user, relative to the place. An object is written atomically. A store that is out of reach or
throttled (503 SlowDown) is waited out for `PATIENCE_S`; after that the call raises ObjectsError.
"""

from __future__ import annotations

import abc
import asyncio
import errno
import itertools
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from quire.errors import MissingError, ObjectsError, StateConflictError
from quire.objects.cloud_clients import SCHEMES, Clouds, Patience, connect
from quire.objects.object_store import in_thread
from quire.objects.temporary_files import TemporaryFile, sweep

if TYPE_CHECKING:
    from obstore import GetOptions

T = TypeVar("T")

PATIENCE_S = 900.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_LISTED_AT_ONCE = 5_000
_PART_BYTES = 8 << 20
_PARTS_AT_ONCE = 2
_PIECE_BYTES = 1 << 20
_INCOMING = ".incoming"


@dataclass(frozen=True, slots=True)
class ListedObject:
    """`etag` changes with the content; `modified` is in seconds since 1970."""

    key: str
    size: int
    etag: str
    modified: float = 0.0


class BulkLocation(abc.ABC):
    """Every method may raise ObjectsError; `get`, `read_range` and `fetch` raise MissingError."""

    url: str

    @classmethod
    def open(cls, url: str, clouds: Clouds | None = None, *, patience_s: float = PATIENCE_S) -> BulkLocation:
        """Returns the place at `url`. Nothing is contacted. Raises ObjectsError where the address is not understood."""
        scheme = url.partition("://")[0] if "://" in url else ""
        if scheme in SCHEMES:
            return BucketLocation(url.rstrip("/"), clouds or Clouds(), patience_s)
        if scheme not in ("", "file"):
            raise ObjectsError(
                f"{url} is not understood. Use a folder, s3://bucket/prefix, gs://bucket/prefix or "
                "az://container/prefix.",
                retryable=False,
            )
        return FolderLocation(Path(unquote(urlsplit(url).path) if scheme else url))

    @abc.abstractmethod
    def listed(self, prefix: str = "") -> AsyncIterator[list[ListedObject]]:
        """Yields all objects below `prefix`, some thousand at a time."""

    @abc.abstractmethod
    async def head(self, key: str) -> ListedObject | None:
        """Returns the object's size and version, or None if there is none."""

    @abc.abstractmethod
    async def get(self, key: str) -> bytes:
        """Returns the content."""

    @abc.abstractmethod
    async def read_range(self, key: str, start: int, end: int) -> bytes:
        """Returns the bytes from `start` up to `end` (exclusive)."""

    @abc.abstractmethod
    async def fetch(self, key: str, etag: str, target: Path) -> Path:
        """Returns a file with the content: the original where it is local, otherwise `target`.

        Raises StateConflictError if the object is no longer the version `etag`.
        """

    @abc.abstractmethod
    async def is_unchanged(self, key: str, etag: str) -> bool:
        """Whether a file that `fetch` returned was still that version after it was read."""

    @abc.abstractmethod
    async def put(self, key: str, data: bytes) -> None:
        """Stores an object and atomically replaces an existing one."""

    @abc.abstractmethod
    async def create(self, key: str, data: bytes) -> bool:
        """Stores an object unless there is one; returns whether it was stored."""

    @abc.abstractmethod
    async def delete(self, key: str) -> None:
        """Deletes an object, if it exists."""

    @property
    def folder(self) -> Path | None:
        """The folder that documents are read in place from; None for a bucket."""
        return None


class FolderLocation(BulkLocation):
    """A folder. The version of a file is its size and modification time."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self.url = str(self._root)
        self._is_swept = False

    @property
    def folder(self) -> Path:
        return self._root

    async def listed(self, prefix: str = "") -> AsyncIterator[list[ListedObject]]:
        walk = self._walk(prefix)
        while batch := await in_thread(_take, walk, _LISTED_AT_ONCE):
            yield batch

    async def head(self, key: str) -> ListedObject | None:
        return _stat(self._path(key), key)  # not in a thread: that takes many times as long as the call

    async def get(self, key: str) -> bytes:
        return await self._read(key, Path.read_bytes)

    async def read_range(self, key: str, start: int, end: int) -> bytes:
        def part(path: Path) -> bytes:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(end - start)

        return await self._read(key, part)

    async def fetch(self, key: str, etag: str, target: Path) -> Path:
        found = await self.head(key)
        if found is None:
            raise _missing(key)
        if etag and found.etag != etag:
            raise _changed(key)
        return self._path(key)

    async def is_unchanged(self, key: str, etag: str) -> bool:
        found = await self.head(key)
        return found is not None and (not etag or found.etag == etag)

    async def put(self, key: str, data: bytes) -> None:
        await in_thread(self._put, self._path(key), data, replace=True)

    async def create(self, key: str, data: bytes) -> bool:
        return await in_thread(self._put, self._path(key), data, replace=False)

    async def delete(self, key: str) -> None:
        await in_thread(lambda: self._path(key).unlink(missing_ok=True))

    async def _read(self, key: str, read: Callable[[Path], bytes]) -> bytes:
        try:
            return await in_thread(read, self._path(key))
        except FileNotFoundError as error:
            raise _missing(key) from error
        except OSError as error:
            raise ObjectsError(f"{self.url}/{key} can't be read: {error.strerror}.") from error

    def _put(self, path: Path, data: bytes, *, replace: bool) -> bool:
        try:
            incoming = self._root / _INCOMING
            if not self._is_swept:  # once is enough: what this process writes it also removes
                self._is_swept = True
                sweep(incoming)
            file = TemporaryFile(incoming)
            try:
                file.write(data)
                file.sync()
                if replace:
                    file.move_to(path)
                    return True
                path.parent.mkdir(parents=True, exist_ok=True)
                path.hardlink_to(file.path)
                return True
            except FileExistsError:
                return False
            finally:
                file.discard()
        except OSError as error:
            raise ObjectsError(f"{self.url} can't be written: {error.strerror}.") from error

    def _path(self, key: str) -> Path:
        if key.startswith("/") or ".." in key.split("/"):
            raise _missing(key)
        return self._root / key

    def _walk(self, prefix: str) -> Iterator[ListedObject]:
        """All files, folder by folder in the order of names. Hidden ones are left out, and so are links to folders."""
        waiting = [self._root / prefix if prefix else self._root]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(folder) as entries:
                    found = sorted(entries, key=lambda one: one.name)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ObjectsError(f"{folder} can't be listed: {error.strerror}.", retryable=False) from error
            inner: list[Path] = []
            for entry in found:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    inner.append(Path(entry.path))
                elif listed := _stat(Path(entry.path), _key(entry.path, self._root)):
                    yield listed
            waiting += reversed(inner)


class BucketLocation(BulkLocation):
    """A prefix of a bucket, through obstore."""

    def __init__(self, url: str, clouds: Clouds, patience_s: float) -> None:
        self.url = url
        self._patience_s = patience_s
        self._store = connect(url, clouds, Patience(timeout_s=120, retries=3, retry_s=20))

    async def listed(self, prefix: str = "") -> AsyncIterator[list[ListedObject]]:
        """A listing that breaks off is begun again behind the last key that was seen."""
        import obstore

        after: str | None = None
        clock = _Patience(self._patience_s)
        while True:
            try:
                pages = obstore.list(self._store, prefix or None, offset=after, chunk_size=_LISTED_AT_ONCE)
                async for page in pages:
                    batch = [_listed(one) for one in page if not one["path"].endswith("/")]
                    after = page[-1]["path"] if page else after
                    yield batch
                    clock = _Patience(self._patience_s)
                return
            except Exception as error:  # translated: only known errors of the store are waited out
                await clock.wait(self._error(error))

    async def head(self, key: str) -> ListedObject | None:
        import obstore

        try:
            return _listed(await self._call(lambda: obstore.head_async(self._store, key), key))
        except MissingError:
            return None

    async def get(self, key: str) -> bytes:
        import obstore

        async def whole() -> bytes:
            answer = await obstore.get_async(self._store, key)
            return bytes(await answer.bytes_async())

        return await self._call(whole, key)

    async def read_range(self, key: str, start: int, end: int) -> bytes:
        import obstore

        found = await self._call(lambda: obstore.get_range_async(self._store, key, start=start, end=end), key)
        return bytes(found)

    async def fetch(self, key: str, etag: str, target: Path) -> Path:
        import obstore

        options: GetOptions = {"if_match": etag} if etag else {}

        async def download() -> None:
            answer = await obstore.get_async(self._store, key, options=options)
            with await asyncio.to_thread(target.open, "wb") as file:
                async for piece in answer.stream(min_chunk_size=_PIECE_BYTES):
                    await asyncio.to_thread(file.write, piece)
            if target.stat().st_size != answer.meta["size"]:  # noqa: ASYNC240 - one call
                raise ConnectionError

        await self._call(download, key)
        return target

    async def is_unchanged(self, key: str, etag: str) -> bool:
        """Always: the copy that was read is the version that was asked for."""
        return True

    async def put(self, key: str, data: bytes) -> None:
        import obstore

        async def upload() -> None:
            await obstore.put_async(
                self._store, key, data, chunk_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE
            )
            if (await obstore.head_async(self._store, key))["size"] != len(data):  # torn on the way
                raise ConnectionError

        await self._call(upload, key)

    async def create(self, key: str, data: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

        async def upload() -> bool:
            try:
                await obstore.put_async(self._store, key, data, mode="create", use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                # A repeated request after a lost answer finds its own object.
                return bytes(await (await obstore.get_async(self._store, key)).bytes_async()) == data
            return True

        try:
            return await self._call(upload, key)
        except NotSupportedError:
            await self.put(key, data)
            return True

    async def delete(self, key: str) -> None:
        import obstore

        await self._call(lambda: obstore.delete_async(self._store, key), key, missing_is_fine=True)

    async def _call(self, call: Callable[[], Awaitable[T]], key: str, *, missing_is_fine: bool = False) -> T:
        clock = _Patience(self._patience_s)
        while True:
            try:
                return await call()
            except FileNotFoundError as error:
                if missing_is_fine:
                    return None  # type: ignore[return-value]
                raise _missing(key) from error
            except Exception as error:  # translated: only known errors of the store are waited out
                await clock.wait(self._error(error, key))

    def _error(self, error: Exception, key: str = "") -> Exception:
        """Translates obstore's errors. Only their class is shown: their texts may have signed headers."""
        from obstore.exceptions import (
            BaseError,
            NotSupportedError,
            PermissionDeniedError,
            PreconditionError,
            UnauthenticatedError,
        )

        if isinstance(error, NotSupportedError):
            return error
        if isinstance(error, PreconditionError):
            return _changed(key)
        if isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError):
            return ObjectsError(f"{self.url} refuses the credentials.", retryable=False)
        if isinstance(error, FileNotFoundError):
            return ObjectsError(f"There is no bucket at {self.url}.", retryable=False)
        if isinstance(error, BaseError | OSError | ValueError):
            return ObjectsError(f"{self.url} can't be used: {type(error).__name__}.")
        return error


class _Patience:
    """Pauses between attempts, each twice as long as the one before, until the time is over."""

    def __init__(self, patience_s: float) -> None:
        self._pause_s = _FIRST_PAUSE_S
        self._left_s = patience_s

    async def wait(self, error: Exception) -> None:
        """Raises the error if it is not worth another attempt or the time is over."""
        if not isinstance(error, ObjectsError) or not error.retryable or self._left_s <= 0:
            raise error
        await asyncio.sleep(self._pause_s)
        self._left_s -= self._pause_s
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)


def _take(walk: Iterator[ListedObject], count: int) -> list[ListedObject]:
    return list(itertools.islice(walk, count))


def _stat(path: Path, key: str) -> ListedObject | None:
    """Raises ObjectsError where that can't be found out: a document must not be missing from a plan silently."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link that leads to itself is like one that leads nowhere
            return None
        raise ObjectsError(f"{path} can't be read: {error.strerror}.", retryable=False) from error
    if not stat.S_ISREG(found.st_mode):
        return None
    return ListedObject(key, found.st_size, f"{found.st_mtime_ns:x}-{found.st_size:x}", found.st_mtime)


def _key(path: str, root: Path) -> str:
    """The path below the root. A name that is not UTF-8 gets a key that leads to no file: its row is an error."""
    return os.fsencode(os.path.relpath(path, root)).decode("utf-8", "backslashreplace")


def _listed(meta: Any) -> ListedObject:
    modified = meta["last_modified"]
    return ListedObject(
        meta["path"], meta["size"], meta["e_tag"] or "", modified.timestamp() if modified else 0.0
    )


def _missing(key: str) -> MissingError:
    return MissingError(f"There is no {key}: it was deleted after it was listed, or its name is not UTF-8.")


def _changed(key: str) -> StateConflictError:
    return StateConflictError(f"{key} has changed since it was listed. Run again to read the new version.")
