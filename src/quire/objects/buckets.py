"""Other people's buckets: a document is fetched from one, a result is put next to it. Nothing else is touched.

The operator's credentials may reach far more than callers should, so every address is judged against a list of
places first, and never leads into our own object store.
"""

from __future__ import annotations

import asyncio
import contextlib
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from quire.errors import DownloadError, LinkRefusedError, ObjectsError, TooLargeError
from quire.objects.store import PIECE_BYTES

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

SCHEMES = ("s3", "gs", "az")
_PART_BYTES = 5 << 20
_LONGEST_KEY = 1024


@dataclass(frozen=True, slots=True)
class Address:
    """An object in a bucket. Keys stand in addresses as they are: nothing in them is escaped."""

    scheme: str
    bucket: str
    key: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """Raises LinkRefusedError."""
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

    def beside(self, ending: str) -> Address:
        """An object in the same folder, named after this one."""
        return Address(self.scheme, self.bucket, self.key + ending)


def in_bucket(url: str) -> bool:
    """Whether this is the address of an object in a bucket, good or bad."""
    return url.partition("://")[0] in SCHEMES


class Buckets:
    """`places` are prefixes that end with a slash; `own` is where our own object store lies."""

    def __init__(self, places: tuple[str, ...], own: str, s3: Mapping[str, str]) -> None:
        self._places = places
        self._own = own
        self._s3 = dict(s3)

    def check(self, url: str) -> Address:
        """Raises LinkRefusedError unless the object lies where sources may lie."""
        address = Address.parse(url)
        text = str(address)
        if not any(text.startswith(place) for place in self._places):
            raise LinkRefusedError(
                f"The bucket {address.bucket} (or this part of it) is not among those that may be read. "
                "The operator can allow it by S3_ALLOWED_BUCKETS."
            )
        for own in {self._own, urllib.parse.unquote(self._own)}:
            if in_bucket(own) and text.startswith(own.rstrip("/") + "/"):
                raise LinkRefusedError("This is the service's own object store, which holds no sources.")
        return address

    async def fetch(
        self,
        address: Address,
        write: Callable[[bytes], Awaitable[None]],
        *,
        max_bytes: int,
        timeout_s: float,
    ) -> None:
        """Streams the object into `write`. Raises TooLargeError or DownloadError."""
        import obstore

        too_large = TooLargeError(
            f"The document is larger than the {max_bytes / (1 << 20):g} MB allowed (MAX_UPLOAD_MB)."
        )
        try:
            async with asyncio.timeout(timeout_s):
                with _translated(address, DownloadError):
                    answer = await obstore.get_async(self._client(address, timeout_s), address.key)
                    if answer.meta["size"] > max_bytes:
                        raise too_large
                    got = 0
                    async for chunk in answer.stream(min_chunk_size=PIECE_BYTES):
                        piece = bytes(chunk)
                        got += len(piece)
                        if got > max_bytes:
                            raise too_large
                        await write(piece)
        except TimeoutError as error:
            raise DownloadError(f"Fetching from {address.bucket} took longer than allowed.") from error

    async def put(self, address: Address, pieces: AsyncIterator[bytes], *, timeout_s: float) -> int:
        """Writes an object, whole or not at all, and says how many bytes it has. Raises ObjectsError."""
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

        attributes: Any = {"Content-Type": "text/plain; charset=utf-8"}
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

    def _client(self, address: Address, timeout_s: float) -> Client:
        from obstore.store import from_url

        config = self._s3 if address.scheme == "s3" else {}
        options: dict[str, Any] = {"timeout": f"{max(1, int(timeout_s))}s", "connect_timeout": "5s"}
        if config.get("endpoint", "").startswith("http://"):
            options["allow_http"] = True
        with _translated(address, ObjectsError):
            client: Client = from_url(
                f"{address.scheme}://{address.bucket}",
                config=config,  # type: ignore[call-overload]
                client_options=options,
                retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=20)},
            )
        return client


@contextlib.contextmanager
def _translated(address: Address, kind: type[DownloadError] | type[ObjectsError]) -> Iterator[None]:
    """Only the class of a foreign error is told: its text may hold addresses and signed headers."""
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
