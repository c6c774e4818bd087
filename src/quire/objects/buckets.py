"""Buckets that callers name: reads a document from one, writes a result into one, and touches nothing else.

The operator's credentials may reach more than callers should, so every address is checked against a list of
allowed places, and never leads into our own object store.
"""

from __future__ import annotations

import asyncio
import contextlib
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from quire.errors import DownloadError, LinkRefusedError, ObjectsError, TooLargeError
from quire.objects.cloud_clients import SCHEMES, Clouds, Patience, connect
from quire.objects.object_store import PIECE_BYTES

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult

    from quire.objects.cloud_clients import Client

Progress = Callable[[int, int | None], Awaitable[None]]

_PART_BYTES = 5 << 20
_LONGEST_KEY = 1024
_UTF8 = "; charset=utf-8"


class BucketPart(Protocol):
    """The bytes of a document that have arrived so far; `objects.partial_downloads` implements it."""

    @property
    def size(self) -> int: ...
    @property
    def validator(self) -> str: ...
    async def write(self, chunk: bytes) -> None: ...
    async def restart(self, validator: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Address:
    """An object in a bucket. A key is written into the address unchanged: nothing is escaped."""

    scheme: str
    bucket: str
    key: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """Parses `scheme://bucket/key`. Raises LinkRefusedError."""
        scheme, _, rest = url.partition("://")
        bucket, _, key = rest.partition("/")
        if scheme not in SCHEMES or not bucket or not key:
            raise LinkRefusedError("Expected an address such as s3://bucket/folder/file.pdf.")
        segments = key.split("/")
        if len(key.encode()) > _LONGEST_KEY or not key.isprintable() or {"", ".", ".."} & set(segments):
            raise LinkRefusedError(
                "The key is too long, or has an empty or dotted part or control characters."
            )
        return cls(scheme, bucket, key)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}"

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def below(self, *parts: str) -> Address:
        """Returns an object under this one's key as a prefix. Raises LinkRefusedError if its key is too long."""
        return Address.parse("/".join((str(self).rstrip("/"), *parts)))

    def beside(self, ending: str) -> Address:
        """Returns an object in the same folder: this one's name with an ending."""
        return Address(self.scheme, self.bucket, self.key + ending)


def in_bucket(url: str) -> bool:
    """Returns whether this looks like the address of an object in a bucket, valid or not."""
    return url.partition("://")[0] in SCHEMES


def source_address(given: str, bucket: str) -> str:
    """Returns a source unchanged, or the address of a bare key in `bucket`. Raises LinkRefusedError."""
    if not bucket or "://" in given or given.startswith("file:"):
        return given
    return str(Address.parse(f"s3://{bucket}/{given.lstrip('/')}"))


class Buckets:
    """`places` are allowed prefixes that end with a slash; `own` is the address of our own object store."""

    def __init__(self, places: tuple[str, ...], own: str, clouds: Clouds | Mapping[str, str]) -> None:
        self._places = places
        self._own = own
        self._clouds = clouds if isinstance(clouds, Clouds) else Clouds(s3=dict(clouds))

    def check(self, url: str) -> Address:
        """Parses the address of a source. Raises LinkRefusedError unless it is in an allowed place."""
        address = Address.parse(url)
        if not self._is_at(address, self._places):
            raise LinkRefusedError(
                f"The bucket {address.bucket} (or this part of it) is not among those that may be read. "
                "The operator can allow it by S3_ALLOWED_BUCKETS."
            )
        self._check_not_own(address)
        return address

    def check_prefix(self, url: str, places: tuple[str, ...]) -> Address:
        """Parses the address of a folder for results, without its last slash. Raises LinkRefusedError."""
        scheme, _, rest = url.partition("://")
        bucket, _, prefix = rest.strip("/").partition("/")
        # Parsed as an object in the folder: the prefix may be empty, and is checked like any key.
        inside = Address.parse("/".join(part for part in (f"{scheme}://{bucket}", prefix, "x") if part))
        if not self._is_at(inside, places):
            raise LinkRefusedError(
                f"The bucket {inside.bucket} (or this part of it) is not among those that results may be put "
                "into. The operator can allow it by RESULT_BUCKETS."
            )
        self._check_not_own(inside)
        return Address(inside.scheme, inside.bucket, prefix)

    async def fetch(
        self,
        address: Address,
        part: BucketPart,
        *,
        max_bytes: int,
        timeout_s: float,
        on_progress: Progress | None = None,
    ) -> None:
        """Streams the object; a part that has the beginning of the same version gets only the rest.

        The client resumes a broken connection itself. Raises TooLargeError or DownloadError; the bytes that have
        arrived stay.
        """
        too_large = TooLargeError(
            f"The document is larger than the {max_bytes / (1 << 20):g} MB allowed (MAX_UPLOAD_MB)."
        )
        try:
            async with asyncio.timeout(timeout_s):
                with _translated(address, DownloadError):
                    answer = await self._answer(address, part, timeout_s)
                    total = answer.meta["size"]
                    if total > max_bytes:
                        raise too_large
                    async for chunk in answer.stream(min_chunk_size=PIECE_BYTES):
                        piece = bytes(chunk)
                        if part.size + len(piece) > max_bytes:
                            raise too_large
                        await part.write(piece)
                        if on_progress is not None:
                            await on_progress(part.size, total)
        except TimeoutError as error:
            raise DownloadError(f"Fetching from {address.bucket} took longer than allowed.") from error

    async def addresses_below(self, url: str, most: int) -> list[str]:
        """Returns the addresses of the objects below a prefix that ends with a slash, up to `most` of them.

        Raises LinkRefusedError unless the prefix may be read, or DownloadError.
        """
        import obstore

        inside = self.check(f"{url}x")
        prefix = inside.key.removesuffix("x")
        found: list[str] = []
        with _translated(inside, DownloadError):
            stream = obstore.list(
                self._client(inside, Patience().timeout_s), prefix=prefix.rstrip("/") or None
            )
            async for rows in stream:
                found += [
                    f"{inside.scheme}://{inside.bucket}/{row['path']}"
                    for row in rows
                    if row["size"] and row["path"].startswith(prefix)
                ]
                if len(found) >= most:
                    break
        return found[:most]

    async def put(
        self,
        address: Address,
        pieces: AsyncIterator[bytes],
        *,
        timeout_s: float,
        media_type: str = "text/plain",
    ) -> int:
        """Writes an object atomically and returns its size. Raises ObjectsError."""
        import obstore

        client = self._client(address, timeout_s)
        size = 0
        head = bytearray()
        async for piece in pieces:
            head += piece
            if len(head) > _PART_BYTES:
                break

        async def whole() -> AsyncIterator[bytes]:
            nonlocal size
            size += len(head)
            yield bytes(head)
            async for piece in pieces:
                size += len(piece)
                yield piece

        attributes: Any = {"Content-Type": media_type + _UTF8}
        with _translated(address, ObjectsError):
            if len(head) <= _PART_BYTES:
                await obstore.put_async(client, address.key, bytes(head), attributes=attributes)
                return len(head)
            await obstore.put_async(
                client,
                address.key,
                whole(),
                attributes=attributes,
                chunk_size=_PART_BYTES,
                max_concurrency=2,
            )
        return size

    async def link(self, address: Address, for_s: float) -> str:
        """Returns a signed address; its bearer can fetch the object for `for_s` seconds. Raises ObjectsError."""
        import obstore

        with _translated(address, ObjectsError):
            client = self._client(address, Patience().timeout_s)
            return await obstore.sign_async(client, "GET", address.key, timedelta(seconds=for_s))

    async def _answer(self, address: Address, part: BucketPart, timeout_s: float) -> GetResult:
        import obstore
        from obstore.exceptions import BaseError, PreconditionError

        client = self._client(address, timeout_s)
        if part.size and part.validator:
            rest: GetOptions = {"range": {"offset": part.size}, "if_match": part.validator}
            try:
                return await obstore.get_async(client, address.key, options=rest)
            except PreconditionError:
                pass  # the object has another version now
            except BaseError as error:
                # Servers refuse a range that begins at the end; the client reports that as a GenericError.
                if type(error).__name__ != "GenericError":
                    raise
        answer = await obstore.get_async(client, address.key)
        await part.restart(answer.meta["e_tag"] or "")
        return answer

    def _is_at(self, address: Address, places: tuple[str, ...]) -> bool:
        text = str(address)
        return any(text.startswith(place) for place in places)

    def _check_not_own(self, address: Address) -> None:
        text = str(address)
        for own in {self._own, urllib.parse.unquote(self._own)}:
            if in_bucket(own) and text.startswith(own.rstrip("/") + "/"):
                raise LinkRefusedError(
                    "This is the service's own object store; sources are not read from it."
                )

    def _client(self, address: Address, timeout_s: float) -> Client:
        patience = Patience(timeout_s=timeout_s, retries=2, retry_s=20)
        return connect(f"{address.scheme}://{address.bucket}", self._clouds, patience)


@contextlib.contextmanager
def _translated(address: Address, kind: type[DownloadError] | type[ObjectsError]) -> Iterator[None]:
    """Translates obstore's errors. Only their class is shown: their texts may have signed headers."""
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except FileNotFoundError as error:
        raise kind(
            f"There is no {address.key} in the bucket {address.bucket}, or no such bucket.", retryable=False
        ) from error
    except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
        raise kind(
            f"The bucket {address.bucket} refuses the service's credentials.", retryable=False
        ) from error
    except (BaseError, OSError, ValueError) as error:
        raise kind(f"The bucket {address.bucket} can't be used: {type(error).__name__}.") from error
