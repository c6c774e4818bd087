"""A batch backend over HTTP: `POST /parse-batch` with base64 in JSON, and `GET /health`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import pybase64

from quire.batching.backend_protocol import BatchAnswer, SendPermit, SentImage, read_answer, sent_name
from quire.batching.parse_errors import BackendDownError, BackendFailedError

if TYPE_CHECKING:
    import aiohttp

MAX_ANSWER_BYTES = 64 << 20
_PIECE = 1 << 20
_ENCODED_AT_ONCE = 3 << 18  # a multiple of three, so that the encoded pieces can be joined
_BETWEEN = b'"},'
_END = b'"}]}'
_INLINE_BYTES = 256 << 10
_CONNECT_S = 5.0
_HEALTH_S = 5.0
_KEEP_ALIVE_S = 15.0
_UNAVAILABLE = frozenset({429, 502, 503, 504})
"""Statuses of a backend that did not look at the images."""


@dataclass(frozen=True, slots=True)
class BackendAddress:
    """Where batches are posted and health is checked. Without a known health endpoint any answer is a sign of life."""

    batch_url: str
    health_url: str
    has_health: bool

    @classmethod
    def of(cls, url: str, path: str = "/parse-batch") -> BackendAddress:
        """A URL that names the path, in its path or in its host, is the endpoint itself; any other is a base.

        With the path `-` the URL is the endpoint, whatever its name is.
        """
        parts = urlsplit(url)
        name = path.strip("/")
        if path == "-" or (name and name in parts.netloc):
            return cls(url, urlunsplit((parts.scheme, parts.netloc, "/health", "", "")), has_health=False)
        base = parts.path.rstrip("/")
        if name and (base == f"/{name}" or base.endswith(f"/{name}")):
            base = base[: -len(name) - 1]
            batch_url = url
        else:
            batch_url = urlunsplit((parts.scheme, parts.netloc, f"{base}/{name}", parts.query, ""))
        health_url = urlunsplit((parts.scheme, parts.netloc, f"{base}/health", "", ""))
        return cls(batch_url, health_url, has_health=True)


class RemoteBackend:
    def __init__(self, address: BackendAddress, timeout_s: float, connections: int) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def parse(self, images: Sequence[SentImage], permit: SendPermit) -> BatchAnswer:
        import aiohttp

        openings = _openings(images)
        try:
            async with (
                _time_limit(permit, self._timeout_s),
                self._client().post(
                    self._address.batch_url,
                    data=_pieces(openings, images, permit),
                    headers={
                        "Content-Type": "application/json",
                        "Content-Length": str(_size(openings, images)),
                    },
                ) as response,
            ):
                raw = await _read(response)
                if response.status in _UNAVAILABLE:
                    raise BackendDownError(f"status {response.status}")
                if response.status != 200:
                    raise BackendFailedError(f"status {response.status}")
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise BackendDownError(type(error).__name__) from error
        except TimeoutError as error:
            raise BackendFailedError(f"no answer within {self._timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise BackendFailedError(type(error).__name__) from error
        wanted = frozenset(image.request_id for image in images)
        if len(raw) > _INLINE_BYTES:
            return await asyncio.to_thread(read_answer, raw, wanted)
        return read_answer(raw, wanted)

    async def healthy(self) -> bool:
        import aiohttp

        try:
            async with self._client().get(
                self._address.health_url, timeout=aiohttp.ClientTimeout(total=_HEALTH_S)
            ) as response:
                return response.status == 200 if self._address.has_health else response.status < 500
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return False

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _client(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
                connector=aiohttp.TCPConnector(limit=self._connections + 2, keepalive_timeout=_KEEP_ALIVE_S),
                auto_decompress=True,
            )
        return self._session


@asynccontextmanager
async def _time_limit(permit: SendPermit, seconds: float) -> AsyncIterator[None]:
    """Raises TimeoutError this many seconds after the permit was granted."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:

        def begin(_: object = None) -> None:
            with suppress(RuntimeError):  # the block has ended
                limit.reschedule(loop.time() + seconds)

        if permit.granted.done():
            begin()
        else:
            permit.granted.add_done_callback(begin)
        try:
            yield
        finally:
            permit.granted.remove_done_callback(begin)


def _openings(images: Sequence[SentImage]) -> list[bytes]:
    """Returns the JSON text before each image."""
    names = (sent_name(image.request_id, index, image.filename) for index, image in enumerate(images))
    shown = [b'{"filename":%s,"image_data":"' % json.dumps(name).encode() for name in names]
    return [b'{"images":[' + shown[0], *(_BETWEEN + one for one in shown[1:])]


def _size(openings: list[bytes], images: Sequence[SentImage]) -> int:
    in_base64 = sum((len(image.data) + 2) // 3 * 4 for image in images)
    return sum(map(len, openings)) + in_base64 + len(_END)


async def _pieces(
    openings: list[bytes], images: Sequence[SentImage], permit: SendPermit
) -> AsyncIterator[bytes]:
    """Yields the body in pieces of about 1 MB; each is encoded while the previous one is being sent.

    The end of the JSON is held back until the permit is granted, so that the backend can't start earlier.
    """
    waiting: list[bytes] = []
    size = 0
    for opening, image in zip(openings, images, strict=True):
        waiting.append(opening)
        with memoryview(image.data) as data:
            for at in range(0, len(data), _ENCODED_AT_ONCE):
                if size >= _PIECE:
                    yield b"".join(waiting)
                    waiting, size = [], 0
                waiting.append(pybase64.b64encode(data[at : at + _ENCODED_AT_ONCE]))
                size += len(waiting[-1])
    if not permit.granted.done():
        yield b"".join(waiting)
        waiting = []
        await permit.wait()
    yield b"".join((*waiting, _END))
    permit.mark_sent()


async def _read(response: aiohttp.ClientResponse) -> bytes:
    raw = bytearray()
    async for piece in response.content.iter_any():
        raw += piece
        if len(raw) > MAX_ANSWER_BYTES:
            raise BackendFailedError("the answer is too large")
    return bytes(raw)
