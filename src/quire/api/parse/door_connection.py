"""One connection at the door: its request is read, served and answered, and then the next.

It is a socket and a state, so that thousands may be there at once and cost next to nothing.

The head of a request, for the door: read only where the request is a plain one for `POST /parse`.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Any, Protocol

import httptools

_BEGINNINGS = (b"POST /parse ", b"POST /parse?")
_ELSEWHERE = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
"""Headers of requests that need more of a server than a length and a body."""

_LONGEST_NUMBER = 12


@dataclass(frozen=True, slots=True)
class Head:
    raw: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body_bytes: int
    keep_alive: bool


@dataclass(slots=True)
class _Collected:
    url: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))


def read_head(data: bytes, most_body_bytes: int) -> Head | None:
    """The head that `data` begins with; None for whatever is not a plain, whole head of `POST /parse`.

    Nothing is decided about the others, malformed ones among them: a complete HTTP server is asked.
    """
    end = data.find(b"\r\n\r\n") + 4
    if end < 4 or not data.startswith(_BEGINNINGS):
        return None
    found = _Collected()
    parser = httptools.HttpRequestParser(found)
    try:
        parser.feed_data(data[:end])
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return None
    body_bytes = _body_bytes(found.headers)
    if body_bytes is None or parser.get_http_version() != "1.1":
        return None
    if not 0 < body_bytes <= most_body_bytes or len(data) - end > body_bytes:
        return None
    query = found.url.partition(b"?")[2].partition(b"#")[0]
    return Head(data[:end], query, found.headers, body_bytes, parser.should_keep_alive())


def _body_bytes(headers: list[tuple[bytes, bytes]]) -> int | None:
    """The length that is given, once and plainly; None where the body comes in another way."""
    lengths = [value for name, value in headers if name == b"content-length"]
    if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > _LONGEST_NUMBER:
        return None
    return None if any(name in _ELSEWHERE for name, _ in headers) else int(lengths[0])


_HEAD_BYTES = 4 << 10
_STATUS_LINES = {
    one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus if one.value >= 200
}
_CLOSES = b"connection: close\r\n\r\n"


class State(Enum):
    IDLE = 0
    """Nothing of a request has come."""
    QUEUED = 1
    """The head was read; the body waits for its turn."""
    READING = 2
    HELD = 3
    """The request is whole and being served."""
    WRITING = 4
    OVER = 5
    """Closed, or handed over."""


class Place(Protocol):
    """What a visitor needs of the door."""

    most_body_bytes: int
    closing: bool
    reading: int

    def watch(self, visitor: Visitor, events: int) -> None: ...
    def queue(self, visitor: Visitor) -> None: ...
    def serve(self, visitor: Visitor) -> None: ...
    def hand_over(self, visitor: Visitor, data: bytes) -> None: ...
    def release(self, count: int) -> None: ...
    def left(self, visitor: Visitor) -> None: ...
    def now(self) -> float: ...
    def date(self) -> bytes: ...


class Visitor:
    __slots__ = (
        "_body",
        "_door",
        "_filled",
        "_out",
        "_reserved",
        "_rest",
        "client",
        "gone",
        "head",
        "since",
        "sock",
        "state",
        "watched",
    )

    def __init__(self, door: Place, sock: socket.socket, client: tuple[str, int]) -> None:
        self._door = door
        self.sock = sock
        self.client = client
        self.watched = 0
        self.since = door.now()
        self.state = State.IDLE
        self.head: Head | None = None
        self.gone: asyncio.Future[None] | None = None
        self._rest = b""
        self._body = bytearray()
        self._filled = 0
        self._reserved = 0
        self._out = memoryview(b"")

    def enter(self) -> None:
        """The head is read, if it has come with the connection; else it is waited for."""
        self.ready()
        if self.state is State.IDLE:
            self._door.watch(self, selectors.EVENT_READ)

    def ready(self) -> None:
        """The connection can be read from or, with an answer half sent, written to."""
        try:
            if self.state is State.IDLE:
                self._read_head()
            elif self.state is State.READING:
                self._read_body()
            elif self.state is State.HELD:
                self._look()
            elif self.state is State.WRITING:
                self._write()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.close()

    def begin(self) -> None:
        """It is this visitor's turn: its body, for which memory has been reserved, is read."""
        if self.head is None:
            return
        self._reserved = self.head.body_bytes
        self.state = State.READING
        self._door.reading += 1
        self.since = self._door.now()
        rest, self._rest = self._rest, b""
        self._body = bytearray(self.head.body_bytes)
        self._body[: len(rest)] = rest
        self._filled = len(rest)
        if self._filled == len(self._body):
            self._whole()
            return
        self._door.watch(self, selectors.EVENT_READ)
        self.ready()

    def so_far(self) -> bytes:
        """What was read of the request, for whoever goes on with it."""
        head = self.head.raw if self.head is not None else b""
        with memoryview(self._body) as whole:
            return b"".join((head, whole[: self._filled]))

    def close(self) -> None:
        if self.state is State.OVER:
            return
        self.let_go()
        self.sock.close()
        if self.gone is not None and not self.gone.done():
            self.gone.set_result(None)

    def let_go(self) -> None:
        """Takes the visitor out of the door's sight; its socket stays open."""
        self._door.reading -= self.state is State.READING
        self._door.watch(self, 0)
        self.state = State.OVER
        self._body = bytearray()
        self._release()
        self._door.left(self)

    def scope(self) -> dict[str, Any]:
        """The request as an ASGI scope. `quire.gone` is done when the caller has left, `quire.body` is all of it."""
        assert self.head is not None  # noqa: S101 - only asked for a visitor whose head was read
        self.gone = asyncio.get_running_loop().create_future()
        body, self._body = self._body, bytearray()
        self._release()  # whoever takes it accounts for it
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "scheme": "http",
            "method": "POST",
            "root_path": "",
            "path": "/parse",
            "raw_path": b"/parse",
            "query_string": self.head.query,
            "headers": self.head.headers,
            "client": self.client,
            "server": None,
            "state": {},
            "quire.gone": self.gone,
            "quire.body": body,
        }

    def answer(self, status: int, headers: bytes, body: bytes) -> None:
        if self.state is not State.HELD:
            return  # the caller has left
        keep = self.head is not None and self.head.keep_alive and not self._door.closing
        lines = (_STATUS_LINES[status], self._door.date(), headers, b"\r\n" if keep else _CLOSES, body)
        self._out = memoryview(b"".join(lines))
        self.state = State.WRITING
        self.since = self._door.now()
        self.head = self.head if keep else None
        self.ready()

    def _read_head(self) -> None:
        data = self.sock.recv(_HEAD_BYTES)
        if not data:
            self.close()
            return
        self.head = None if self._door.closing else read_head(data, self._door.most_body_bytes)
        if self.head is None:
            self._door.hand_over(self, data)
            return
        self._rest = data[len(self.head.raw) :]
        self.state = State.QUEUED
        self.since = self._door.now()
        self._door.queue(self)

    def _read_body(self) -> None:
        with memoryview(self._body) as whole, whole[self._filled :] as left:
            count = self.sock.recv_into(left)
        if not count:
            self.close()
            return
        self._filled += count
        if self._filled == len(self._body):
            self._whole()

    def _whole(self) -> None:
        self._door.reading -= 1
        self.state = State.HELD
        self._door.watch(self, selectors.EVENT_READ)
        self._door.serve(self)

    def _look(self) -> None:
        """Something can be read while an answer is awaited: either the end, or the next request."""
        if self.sock.recv(1, socket.MSG_PEEK):
            self._door.watch(self, 0)
        else:
            self.close()

    def _write(self) -> None:
        while self._out:
            try:
                self._out = self._out[self.sock.send(self._out) :]
            except BlockingIOError:
                self._door.watch(self, selectors.EVENT_WRITE)
                return
        self.gone = None
        if self.head is None:
            self.close()
            return
        self.head = None
        self.state = State.IDLE
        self.since = self._door.now()
        self._door.watch(self, selectors.EVENT_READ)

    def _release(self) -> None:
        count, self._reserved = self._reserved, 0
        if count:
            self._door.release(count)
