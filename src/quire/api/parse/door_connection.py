"""One connection at the front door: a socket and a state machine that reads `POST /parse` requests, one after another.

Thousands may be open at once, so a connection holds only its socket, its state and the body that it is reading.
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

from quire.api.http.connection_limits import Seat

_BEGINNINGS = (b"POST /parse ", b"POST /parse?")
_UNSUPPORTED_HEADERS = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
"""Requests with one of these headers are handed over to the complete HTTP server."""

_MAX_LENGTH_DIGITS = 12


@dataclass(frozen=True, slots=True)
class RequestHead:
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


def read_head(data: bytes, max_body_bytes: int) -> RequestHead | None:
    """Returns the head that `data` starts with; None unless it is a complete, plain head of `POST /parse`.

    All other requests, malformed ones included, are left to the complete HTTP server.
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
    if not 0 < body_bytes <= max_body_bytes or len(data) - end > body_bytes:
        return None
    query = found.url.partition(b"?")[2].partition(b"#")[0]
    return RequestHead(data[:end], query, found.headers, body_bytes, parser.should_keep_alive())


def _body_bytes(headers: list[tuple[bytes, bytes]]) -> int | None:
    """Returns the Content-Length; None if it is missing, repeated or malformed, or if the body is sent another way."""
    lengths = [value for name, value in headers if name == b"content-length"]
    if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > _MAX_LENGTH_DIGITS:
        return None
    return None if any(name in _UNSUPPORTED_HEADERS for name, _ in headers) else int(lengths[0])


_HEAD_BYTES = 4 << 10
_STATUS_LINES = {
    one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus if one.value >= 200
}
_CLOSES = b"connection: close\r\n\r\n"


class ConnectionState(Enum):
    IDLE = 0
    """No part of a request has been received."""
    QUEUED = 1
    """The head was read; the body waits for its turn."""
    READING = 2
    """The body is being read."""
    RECEIVED = 3
    """The request is complete and is being served."""
    WRITING = 4
    """The response is being written."""
    FOREIGN = 5
    """The complete HTTP server has to serve this connection; `received()` is what it has sent so far."""
    CLOSED = 6


class ConnectionOwner(Protocol):
    """What a connection needs from the front door."""

    def watch(self, connection: DoorConnection, events: int) -> None:
        """Waits for these selector events on the connection's socket; 0 for none."""

    def state_changed(self, connection: DoorConnection, before: ConnectionState) -> None:
        """Takes the next step for a connection whose state was `before` until now."""


class DoorConnection:
    __slots__ = (
        "_body",
        "_filled",
        "_out",
        "_owner",
        "client",
        "gone",
        "has_served",
        "head",
        "max_body_bytes",
        "reserved",
        "seat",
        "since",
        "sock",
        "state",
        "watched",
    )

    def __init__(
        self,
        owner: ConnectionOwner,
        sock: socket.socket,
        client: tuple[str, int],
        max_body_bytes: int,
        seat: Seat,
    ) -> None:
        self._owner = owner
        self.sock = sock
        self.client = client
        self.max_body_bytes = max_body_bytes
        self.seat = seat
        self.has_served = False
        """Whether a request of this connection was answered."""
        self.watched = 0
        self.reserved = 0
        """Bytes of memory that the front door has reserved for the body."""
        self.since = asyncio.get_running_loop().time()
        """When the present state began."""
        self.state = ConnectionState.IDLE
        self.head: RequestHead | None = None
        self.gone: asyncio.Future[None] | None = None
        self._body = bytearray()
        self._filled = 0
        self._out = memoryview(b"")

    def start(self) -> None:
        """Reads the head if it has arrived with the connection; else waits for it."""
        self.ready()
        if self.state is ConnectionState.IDLE:
            self._owner.watch(self, selectors.EVENT_READ)
            self.seat.waits(self)

    def ready(self) -> None:
        """Takes one step: the socket can be read or, while a response is being written, written."""
        try:
            if self.state is ConnectionState.IDLE:
                self._read_head()
            elif self.state is ConnectionState.READING:
                self._read_body()
            elif self.state is ConnectionState.RECEIVED:
                self._check_caller()
            elif self.state is ConnectionState.WRITING:
                self._write()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.close()

    def read_body(self) -> None:
        """Starts to read the body, for which the front door has reserved memory."""
        if self.head is None:
            return
        started, self._body = self._body, bytearray(self.head.body_bytes)
        self._body[: len(started)] = started
        self._enter(ConnectionState.READING)
        if self._filled == len(self._body):
            self._enter(ConnectionState.RECEIVED)
            return
        self._owner.watch(self, selectors.EVENT_READ)
        self.ready()

    def received(self) -> bytes:
        """Returns what was read of the request so far."""
        head = self.head.raw if self.head is not None else b""
        with memoryview(self._body) as whole:
            return b"".join((head, whole[: self._filled]))

    def hand_over(self) -> None:
        """Leaves the connection, with what was read so far, to the complete HTTP server."""
        self._enter(ConnectionState.FOREIGN)

    def close(self) -> None:
        if self.state in (ConnectionState.CLOSED, ConnectionState.FOREIGN):
            return
        self._enter(ConnectionState.CLOSED)
        self._body = bytearray()
        self.sock.close()
        if self.gone is not None and not self.gone.done():
            self.gone.set_result(None)

    def take_scope(self) -> dict[str, Any]:
        """Returns the request as an ASGI scope and gives up the body.

        `quire.body` in it is the complete body; `quire.gone` is done when the caller has disconnected.
        """
        assert self.head is not None  # noqa: S101 - only called for a connection whose head was read
        self.gone = asyncio.get_running_loop().create_future()
        body, self._body = self._body, bytearray()
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
            "quire.vouch": self.seat.vouch,
            "quire.body": body,
        }

    def answer(self, status: int, headers: bytes, body: bytes, *, keep_alive: bool) -> None:
        """Writes the response, unless the caller has disconnected."""
        if self.state is not ConnectionState.RECEIVED:
            return
        keep = keep_alive and self.head is not None and self.head.keep_alive
        lines = (_STATUS_LINES[status], headers, b"\r\n" if keep else _CLOSES, body)
        self._out = memoryview(b"".join(lines))
        self.head = self.head if keep else None
        self._enter(ConnectionState.WRITING)
        self.ready()

    def _enter(self, state: ConnectionState) -> None:
        before, self.state = self.state, state
        self.since = asyncio.get_running_loop().time()
        self._owner.state_changed(self, before)

    def _read_head(self) -> None:
        data = self.sock.recv(_HEAD_BYTES)
        if not data:
            self.close()
            return
        self.head = read_head(data, self.max_body_bytes)
        self._body = bytearray(data if self.head is None else data[len(self.head.raw) :])
        self._filled = len(self._body)
        self._enter(ConnectionState.FOREIGN if self.head is None else ConnectionState.QUEUED)

    def _read_body(self) -> None:
        with memoryview(self._body) as whole, whole[self._filled :] as left:
            count = self.sock.recv_into(left)
        if not count:
            self.close()
            return
        self._filled += count
        if self._filled == len(self._body):
            self._enter(ConnectionState.RECEIVED)

    def _check_caller(self) -> None:
        """The socket is readable while the caller waits: it has disconnected, or sent its next request."""
        if self.sock.recv(1, socket.MSG_PEEK):
            self._owner.watch(self, 0)
        else:
            self.close()

    def _write(self) -> None:
        while self._out:
            try:
                self._out = self._out[self.sock.send(self._out) :]
            except BlockingIOError:
                self._owner.watch(self, selectors.EVENT_WRITE)
                return
        self.gone = None
        if self.head is None:
            self.close()
            return
        self.head = None
        self.has_served = True
        self._enter(ConnectionState.IDLE)
