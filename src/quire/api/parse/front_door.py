"""The door: every connection comes in here, a few in each turn of the event loop.

`POST /parse` is served at the door itself, so that thousands may come at one moment and wait: a connection is a socket
and a small object, bodies are read in the order of arrival and only a few at a time, and the first are on their way to
the backend while the last are not read yet. Every other request, and everything about a request that is unusual or
slow, is handed on with its socket to the complete HTTP server.

Connections that come to the complete HTTP server from the door, with what was already read of them.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import selectors
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.types import Message, Receive
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from quire.api.parse.door_connection import State, Visitor


class Arrival(HttpToolsProtocol):
    def __init__(self, data: bytes, **options: Any) -> None:
        super().__init__(**options)
        self._data = data

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        data, self._data = self._data, b""
        self.data_received(data)


_LOG = logging.getLogger(__name__)
_ACCEPTED_A_TURN = 8
_ENOUGH_QUEUED = 64
_ACCEPTED_BESIDE = 2  # where enough wait for their bodies to be read: those come first
_HEADS_A_TURN = 8
_BODIES_A_TURN = 3
_SLOW_S = 2.0
_TICK_S = 0.5
_NO_ROOM_S = 0.005
_REST_S = 0.001
_LONGEST_REST_S = 0.02
_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


@dataclass(frozen=True, slots=True)
class DoorOptions:
    backlog: int
    most_body_bytes: int
    """Larger bodies are for the complete server."""
    idle_s: float
    write_s: float = 60.0


@dataclass(frozen=True, slots=True)
class DoorParts:
    serve: Callable[[dict[str, Any], Receive], Awaitable[tuple[int, bytes, bytes]]]
    """Answers `POST /parse` with a status, header lines and a body."""
    protocol: Callable[[bytes], asyncio.Protocol]
    """A protocol of the complete server for a connection of which this has been read."""
    date: Callable[[], bytes]
    """The header line with the time."""
    reserve: Callable[[int], bool]
    """Whether a body of this size may be read into memory now …"""
    release: Callable[[int], None]
    """… and that it is not this door's any more."""
    expect: Callable[[int], None]
    """Told how many bodies are to be read."""
    hurried: Callable[[], bool] = lambda: False
    """Whether a free slot of the backend waits for the event loop; new bodies can wait a moment."""


class Door:
    """Owns the listening socket from `open` to `close`. Belongs to one event loop."""

    def __init__(self, listener: socket.socket, parts: DoorParts, options: DoorOptions) -> None:
        self._listener = listener
        self._parts = parts
        self._options = options
        self._selector = selectors.DefaultSelector()
        self._visitors: set[Visitor] = set()
        self._queue: deque[Visitor] = deque()
        self._room_for = _BODIES_A_TURN
        self._tasks: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._admission_due = False
        self._turned_at = 0.0
        self._over = False
        self.most_body_bytes = options.most_body_bytes
        self.closing = False
        self.reading = 0

    def open(self) -> None:
        """Connections are taken from now on."""
        self._loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        self._listener.listen(self._options.backlog)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._watch_all()
        self._timer = self._loop.call_later(_TICK_S, self._tick)

    async def close(self, timeout_s: float) -> None:
        """No new connections; those with a request in hand get their answers, within the time."""
        self.closing = True
        self._stop_listening()
        for visitor in [one for one in self._visitors if one.state is State.IDLE]:
            visitor.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._visitors:  # noqa: ASYNC110 - they leave in many ways
                    await asyncio.sleep(0.02)
        for visitor in list(self._visitors):
            visitor.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._loop.remove_reader(self._selector.fileno())
            self._selector.close()

    # What visitors ask for

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def date(self) -> bytes:
        return self._parts.date()

    def watch(self, visitor: Visitor, events: int) -> None:
        if events == visitor.watched:
            return
        if not visitor.watched:
            self._selector.register(visitor.sock, events, visitor)
        elif not events:
            self._selector.unregister(visitor.sock)
        else:
            self._selector.modify(visitor.sock, events, visitor)
        visitor.watched = events

    def queue(self, visitor: Visitor) -> None:
        self.watch(visitor, 0)
        self._queue.append(visitor)

    def serve(self, visitor: Visitor) -> None:
        self._start(self._serve(visitor), "parse-request")

    def hand_over(self, visitor: Visitor, data: bytes) -> None:
        """The complete server goes on with this connection."""
        visitor.let_go()
        self._start(self._hand_over(visitor.sock, data), "hand-over")

    def release(self, count: int) -> None:
        self._parts.release(count)

    def left(self, visitor: Visitor) -> None:
        self._visitors.discard(visitor)

    # Turns

    def _turn(self) -> None:
        """A little of everything that can be done, the oldest bodies first: others want the event loop too."""
        if self._rests():
            self._loop.remove_reader(self._selector.fileno())
            self._loop.call_later(_REST_S, self._watch_all)
            return
        self._turned_at = self.now()
        heads, bodies = [], []
        for key, _ in self._selector.select(0):
            visitor: Visitor | None = key.data
            if visitor is None:
                self._accept()
            elif visitor.state is State.READING:
                bodies.append(visitor)
            elif visitor.state is State.IDLE:
                heads.append(visitor)
            else:
                visitor.ready()
        for visitor in heads[:_HEADS_A_TURN]:
            visitor.ready()
        if len(bodies) > _BODIES_A_TURN:
            bodies.sort(key=_since)
        for visitor in bodies[:_BODIES_A_TURN]:
            visitor.ready()
        self._room_for = _BODIES_A_TURN - len(bodies)
        self._admit_later(0)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_A_TURN if len(self._queue) < _ENOUGH_QUEUED else _ACCEPTED_BESIDE):
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _LOG.warning("a connection could not be taken", extra={"reason": error.strerror})
                if error.errno in _FULL:  # until others have gone
                    self._selector.unregister(self._listener)
                    self._loop.call_later(_TICK_S, self._watch_listener)
                return
            sock.setblocking(False)
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            visitor = Visitor(self, sock, (str(address[0]), int(address[1])))
            self._visitors.add(visitor)
            visitor.enter()

    def _admit(self) -> None:
        """Begins with bodies whose turn it is, as far as there is memory and those before them leave time."""
        begun = 0
        while self._queue and begun < self._room_for:
            visitor = self._queue[0]
            if visitor.state is not State.QUEUED or visitor.head is None:
                self._queue.popleft()
            elif not self._parts.reserve(visitor.head.body_bytes):
                self._admit_later(_NO_ROOM_S)
                return
            else:
                self._queue.popleft()
                begun += 1
                visitor.begin()
        self._room_for = _BODIES_A_TURN
        self._parts.expect(len(self._queue) + self.reading)
        if self._queue:
            self._admit_later(0)

    def _rests(self) -> bool:
        """Whether the event loop is left to others for a moment; it is never a long one."""
        return self._parts.hurried() and self.now() - self._turned_at < _LONGEST_REST_S

    def _admit_later(self, delay_s: float) -> None:
        if not self._admission_due:
            self._admission_due = True
            if delay_s:
                self._loop.call_later(delay_s, self._admit_now)
            else:
                self._loop.call_soon(self._admit_now)

    def _admit_now(self) -> None:
        self._admission_due = False
        if self._over:
            return
        if self._rests():
            self._admit_later(_REST_S)
        else:
            self._admit()

    def _tick(self) -> None:
        """Sees to those that take too long."""
        now = self.now()
        limits = {State.IDLE: self._options.idle_s, State.WRITING: self._options.write_s}
        for visitor in list(self._visitors):
            waited_s = now - visitor.since
            if visitor.state is State.READING and waited_s > _SLOW_S:
                if self.closing:
                    visitor.close()
                else:
                    self.hand_over(visitor, visitor.so_far())
            elif waited_s > limits.get(visitor.state, waited_s):
                visitor.close()
        self._timer = self._loop.call_later(_TICK_S, self._tick)

    # What goes on beside

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, visitor: Visitor) -> None:
        if visitor.state is not State.HELD:
            return  # it left at once
        scope = visitor.scope()
        gone = visitor.gone

        async def receive() -> Message:
            body = scope.pop("quire.body", None)  # kept by nobody once it is taken
            if body is not None:
                return {"type": "http.request", "body": body, "more_body": False}
            if gone is not None:
                await asyncio.wait([gone])
            return {"type": "http.disconnect"}

        try:
            visitor.answer(*await self._parts.serve(scope, receive))
        finally:
            if visitor.state is State.HELD:  # without an answer: the only way left to say so
                visitor.close()

    async def _hand_over(self, sock: socket.socket, data: bytes) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._parts.protocol(data), sock)
        except OSError:
            sock.close()

    def _watch_all(self) -> None:
        if not self._over:
            self._loop.add_reader(self._selector.fileno(), self._turn)

    def _watch_listener(self) -> None:
        if not self.closing:
            self._selector.register(self._listener, selectors.EVENT_READ, None)

    def _stop_listening(self) -> None:
        with suppress(KeyError, ValueError):  # it is not watched while there are no descriptors left
            self._selector.unregister(self._listener)
        self._listener.close()


def _since(visitor: Visitor) -> float:
    return visitor.since
