"""Thousands of callers in one process: bare HTTP over asyncio protocols, because a client library costs more than
what is measured. Each sends one picture of its own and waits."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Image:
    """Looks like a JPEG as far as its size; every number gives other bytes."""

    head: bytes
    tail: bytes

    @property
    def data(self) -> bytes:
        return self.head + self.tail

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


_TAILS: dict[int, tuple[bytes, bytes]] = {}


def image(number: int, size: int = 100_000) -> Image:
    mark = f"{number:012d}".encode()
    head = (
        b"\xff\xd8\xff\xfe\x00\x0e" + mark + b"\xff\xc0\x00\x11\x08\x04\x00\x03\x00\x03" + b"\x01\x11\x00" * 3
    )
    head += b"\x00" * (-len(head) % 3)
    return Image(head, _tail(size - len(head))[0])


def _tail(size: int) -> tuple[bytes, bytes]:
    """Random bytes and the same in base64, made once for each size."""
    if size not in _TAILS:
        raw = os.urandom(size)
        _TAILS[size] = (raw, base64.b64encode(raw))
    return _TAILS[size]


def as_json(number: int, size: int = 100_000, filename: str = "page.jpg") -> list[bytes]:
    """The body in pieces, the long one shared by all."""
    made = image(number, size)
    head = b'{"filename":"' + filename.encode() + b'","image_data":"' + base64.b64encode(made.head)
    return [head, _tail(len(made.tail))[1], b'"}']


def as_raw(number: int, size: int = 100_000) -> list[bytes]:
    made = image(number, size)
    return [made.head, made.tail]


@dataclass
class Reply:
    status: int
    body: bytes
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _Exchange(asyncio.Protocol):
    def __init__(self, request: Sequence[bytes]) -> None:
        self._request = request
        self._received = bytearray()
        self._length = -1
        self._status = 0
        self._began = 0.0
        self.done: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._began = time.perf_counter()
        transport.writelines(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._length < 0:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._received[:end]).lower()
            self._status = int(head[9:12])
            at = head.index(b"content-length:")
            self._length = int(head[at + 15 :].split(b"\r\n", 1)[0])
            del self._received[: end + 4]
        if len(self._received) >= self._length and not self.done.done():
            self.done.set_result(
                Reply(self._status, bytes(self._received), time.perf_counter() - self._began)
            )
            if self.transport is not None:
                self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if not self.done.done():
            self.done.set_exception(ConnectionResetError("the server closed the connection"))


def request_of(
    body: Sequence[bytes], content_type: str, headers: dict[str, str] | None = None
) -> list[bytes]:
    length = sum(map(len, body))
    more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    opening = (
        f"POST /parse HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {length}\r\n{more}\r\n"
    )
    return [opening.encode(), *body]


async def post(url: str, request: Sequence[bytes]) -> Reply:
    """One request on a connection of its own. Raises OSError where the server goes away."""
    parts = urlsplit(url)
    _, exchange = await asyncio.get_running_loop().create_connection(
        lambda: _Exchange(request), parts.hostname, parts.port
    )
    try:
        return await exchange.done
    finally:
        if exchange.transport is not None and not exchange.transport.is_closing():
            exchange.transport.abort()


async def post_image(url: str, number: int, size: int = 100_000, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await post(url, request_of(as_json(number, size), "application/json", named))
