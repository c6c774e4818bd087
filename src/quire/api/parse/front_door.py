"""The front door: the accept loop for every connection of the service.

It serves `POST /parse` itself, so that thousands of callers can connect at once and wait: a connection is a socket and
a small object, and bodies are read in order of arrival, a few in each turn of the event loop, so the first batches are
sent while the last bodies are still unread. The front door hands every other request, and every unusual or slow one,
over to the complete HTTP server, with the socket and the bytes that were read; a few in each turn, so that thousands of
callers that come together do not stall it, and `GET /health/live` before the others.
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

from quire.api.http.connection_limits import ConnectionTable, Seat
from quire.api.http.turn_queue import TurnQueue
from quire.api.parse.door_connection import ConnectionState, DoorConnection
from quire.batching.batch_former import BatchFormer
from quire.batching.body_memory import BodyMemory

_LOG = logging.getLogger(__name__)
_ACCEPTS_PER_TURN = 8
_CROWDED_QUEUE = 64
_ACCEPTS_PER_CROWDED_TURN = (
    2  # while many connections wait for their bodies to be read, those have precedence
)
_HEADS_PER_TURN = 8
_FOREIGN_SHARE = (
    0.125  # what a connection that is handed over counts in these limits: little is done for it in the turn
)
_HAND_OVERS_PER_TURN = 4
_URGENT = b"GET /health/live "
_BODIES_PER_TURN = 3
_SLOW_BODY_S = 2.0
_SLOW_BODY_WHILE_OTHERS_WAIT_S = 0.3
_TICK_S = 0.5
_MEMORY_RETRY_S = 0.005
_PAUSE_S = 0.001
_REFUSED_HEAD_BYTES = 64 << 10
_MAX_PAUSE_S = 0.02
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


@dataclass(frozen=True, slots=True)
class DoorOptions:
    backlog: int
    max_body_bytes: int
    """The complete server reads larger bodies."""
    idle_s: float
    """How long a connection may stay open between two requests."""
    header_timeout_s: float
    """How long a new connection may take to send its first byte."""
    write_s: float = 60.0


@dataclass(frozen=True, slots=True)
class DoorParts:
    serve: Callable[[dict[str, Any], Receive], Awaitable[tuple[int, bytes, bytes]]]
    """Serves `POST /parse`: returns a status, header lines and a body."""
    protocol: Callable[[bytes, Seat], asyncio.Protocol]
    """Returns a protocol of the complete server for a connection of which these bytes have been read."""
    table: ConnectionTable
    """Decides whether a new connection may stay."""
    has_key: Callable[[list[tuple[bytes, bytes]]], bool]
    """Whether these headers carry a valid API key; then the connection no longer counts for its address."""
    date: Callable[[], bytes]
    """Returns the Date header line."""
    memory: BodyMemory
    """Where memory for bodies is reserved before they are read."""
    former: BatchFormer
    """It needs to know how many requests arrive; while it fills an idle slot, the front door reads no bodies."""


class _Leaving:
    """A connection that waits to be handed over. While its head is not complete, its seat may be given to another."""

    def __init__(self, sock: socket.socket, data: bytes, seat: Seat) -> None:
        self.sock = sock
        self.data = data
        self.seat = seat
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True
        self.sock.close()
        self.seat.leave()


class FrontDoor:
    """Owns the listening socket from `open` to `close`. Belongs to one event loop."""

    def __init__(self, listener: socket.socket, parts: DoorParts, options: DoorOptions) -> None:
        self._listener = listener
        self._parts = parts
        self._options = options
        self._selector = selectors.DefaultSelector()
        self._connections: set[DoorConnection] = set()
        self._queue: deque[DoorConnection] = deque()
        self._reading = 0
        self._new_bodies = _BODIES_PER_TURN
        self._tasks: set[asyncio.Task[Any]] = set()
        self._hand_overs = TurnQueue(_HAND_OVERS_PER_TURN)
        self._timer: asyncio.TimerHandle | None = None
        self._admission_due = False
        self._memory_is_short = False
        self._turned_at = 0.0
        self._over = False
        self._draining = False
        self._closing = False

    def open(self) -> None:
        """Starts to accept connections."""
        self._loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        self._listener.listen(self._options.backlog)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._watch_all()
        self._timer = self._loop.call_later(_TICK_S, self._tick)

    def drain(self) -> None:
        """Closes each connection with its next response."""
        self._draining = True

    def stop_accepting(self) -> None:
        """Accepts the connections that wait in the backlog, then closes the listening socket."""
        if not self._closing and self._listener.fileno() >= 0:
            for _ in range(self._options.backlog):
                if not self._accept():
                    break
        self._hand_overs.finish()
        self._stop_listening()

    async def close(self, timeout_s: float) -> None:
        """Stops accepting; connections with a request get their responses within the time, the others are closed."""
        self._closing = True
        self._stop_listening()
        self._hand_overs.finish()
        for connection in [one for one in self._connections if one.state is ConnectionState.IDLE]:
            connection.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._connections:  # noqa: ASYNC110 - connections end in many ways
                    await asyncio.sleep(0.02)
        for connection in list(self._connections):
            connection.close()
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

    # Called by connections

    def watch(self, connection: DoorConnection, events: int) -> None:
        if events == connection.watched:
            return
        if not connection.watched:
            self._selector.register(connection.sock, events, connection)
        elif not events:
            self._selector.unregister(connection.sock)
        else:
            self._selector.modify(connection.sock, events, connection)
        connection.watched = events

    def state_changed(self, connection: DoorConnection, before: ConnectionState) -> None:
        if before is ConnectionState.READING:
            self._reading -= 1
        match connection.state:
            case ConnectionState.IDLE if self._closing:
                connection.close()
            case ConnectionState.IDLE:
                self.watch(connection, selectors.EVENT_READ)
                connection.seat.waits(connection)
            case ConnectionState.QUEUED:
                self.watch(connection, 0)
                self._admit_to_queue(connection)
            case ConnectionState.READING:
                self._reading += 1
            case ConnectionState.RECEIVED:
                self.watch(connection, selectors.EVENT_READ)  # to notice a caller that disconnects
                self._start(self._serve(connection), "parse-request")
            case ConnectionState.FOREIGN:
                self._forget(connection)
                self._hand_over_soon(connection)
            case ConnectionState.CLOSED:
                self._forget(connection)
                connection.seat.leave()

    # Turns

    def _turn(self) -> None:
        """Does a bounded part of what can be done, the oldest bodies first, so that other tasks get the event loop."""
        if self._pauses():
            self._loop.remove_reader(self._selector.fileno())
            self._loop.call_later(_PAUSE_S, self._watch_all)
            return
        self._turned_at = self._loop.time()
        heads, bodies = [], []
        for key, _ in self._selector.select(0):
            connection: DoorConnection | None = key.data
            if connection is None:
                self._accept()
            elif connection.state is ConnectionState.READING:
                bodies.append(connection)
            elif connection.state is ConnectionState.IDLE:
                heads.append(connection)
            else:
                connection.ready()
        left = float(_HEADS_PER_TURN)
        for connection in heads:
            connection.ready()
            left -= _cost(connection)
            if left <= 0:
                break
        if len(bodies) > _BODIES_PER_TURN:
            bodies.sort(key=_since)
        for connection in bodies[:_BODIES_PER_TURN]:
            connection.ready()
        self._new_bodies = _BODIES_PER_TURN - len(bodies)
        self._admit_later(0)

    def _accept(self) -> bool:
        """Accepts a bounded number of connections; False if none is left in the backlog."""
        crowded = len(self._queue) >= _CROWDED_QUEUE
        left = float(_ACCEPTS_PER_CROWDED_TURN if crowded else _ACCEPTS_PER_TURN)
        while left > 0:
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return False
            except OSError as error:
                _LOG.warning("a connection could not be accepted", extra={"reason": error.strerror})
                if error.errno in _OUT_OF_RESOURCES:  # accepting goes on when other connections have closed
                    self._selector.unregister(self._listener)
                    self._loop.call_later(_TICK_S, self._watch_listener)
                return False
            sock.setblocking(False)
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client = (str(address[0]), int(address[1]))
            seat = self._parts.table.enter(client[0])
            if isinstance(seat, bytes):
                _refuse(sock, seat)
                left -= 1
                continue
            connection = DoorConnection(self, sock, client, self._options.max_body_bytes, seat)
            self._connections.add(connection)
            connection.start()
            left -= _cost(connection)
        return True

    def _admit_to_queue(self, connection: DoorConnection) -> None:
        seat = connection.seat
        seat.is_busy()
        if seat.counts_for_address and connection.head and self._parts.has_key(connection.head.headers):
            seat.vouch()
        self._queue.append(connection)

    def _admit(self) -> None:
        """Starts to read queued bodies, as far as memory and the bodies already being read permit."""
        started = 0
        while self._queue and started < self._new_bodies:
            connection = self._queue[0]
            if connection.state is not ConnectionState.QUEUED or connection.head is None:
                self._queue.popleft()
            elif not self._parts.memory.reserve(connection.head.body_bytes):
                self._memory_is_short = True
                self._admit_later(_MEMORY_RETRY_S)
                return
            else:
                self._memory_is_short = False
                self._queue.popleft()
                started += 1
                connection.reserved = connection.head.body_bytes
                connection.read_body()
        self._new_bodies = _BODIES_PER_TURN
        self._parts.former.arriving = len(self._queue) + self._reading
        if self._queue:
            self._admit_later(0)

    def _pauses(self) -> bool:
        """Whether to leave the event loop, for a short bounded time, to a batch that an idle slot waits for."""
        return self._parts.former.slot_waits and self._loop.time() - self._turned_at < _MAX_PAUSE_S

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
        if self._pauses():
            self._admit_later(_PAUSE_S)
        else:
            self._admit()

    def _tick(self) -> None:
        """Closes connections that are over their time limits and hands over slow requests."""
        now = self._loop.time()
        slow_s = _SLOW_BODY_WHILE_OTHERS_WAIT_S if self._memory_is_short else _SLOW_BODY_S
        for connection in list(self._connections):
            waited_s = now - connection.since
            match connection.state:
                case ConnectionState.READING if waited_s > slow_s:
                    if self._closing:
                        connection.close()
                    else:
                        connection.hand_over()
                case ConnectionState.IDLE if waited_s > self._idle_s(connection):
                    connection.close()
                case ConnectionState.WRITING if waited_s > self._options.write_s:
                    connection.close()
        self._timer = self._loop.call_later(_TICK_S, self._tick)

    def _idle_s(self, connection: DoorConnection) -> float:
        return self._options.idle_s if connection.has_served else self._options.header_timeout_s

    # Tasks

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: DoorConnection) -> None:
        if connection.state is not ConnectionState.RECEIVED:
            return  # the caller has disconnected
        scope = connection.take_scope()
        self._release(connection)  # the endpoint accounts for the body from now on
        gone = connection.gone

        async def receive() -> Message:
            body = scope.pop("quire.body", None)  # so that no reference to it is left
            if body is not None:
                return {"type": "http.request", "body": body, "more_body": False}
            if gone is not None:
                await asyncio.wait([gone])
            return {"type": "http.disconnect"}

        try:
            status, headers, body = await self._parts.serve(scope, receive)
            connection.answer(
                status, self._parts.date() + headers, body, keep_alive=not (self._draining or self._closing)
            )
        finally:
            if connection.state is ConnectionState.RECEIVED:  # no response was made
                connection.close()

    def _hand_over_soon(self, connection: DoorConnection) -> None:
        leaving = _Leaving(connection.sock, connection.received(), connection.seat)
        if b"\r\n\r\n" in leaving.data:
            leaving.seat.is_busy()
        else:
            leaving.seat.waits(leaving)
        self._hand_overs.call(
            lambda: self._hand_over_now(leaving), is_urgent=leaving.data.startswith(_URGENT)
        )

    def _hand_over_now(self, leaving: _Leaving) -> None:
        if not leaving.is_closed:
            leaving.seat.is_busy()
            self._start(self._hand_over(leaving.sock, leaving.data, leaving.seat), "hand-over")

    async def _hand_over(self, sock: socket.socket, data: bytes, seat: Seat) -> None:
        protocols: list[asyncio.Protocol] = []

        def make() -> asyncio.Protocol:
            protocols.append(self._parts.protocol(data, seat))
            return protocols[0]

        try:
            await self._loop.connect_accepted_socket(make, sock)
        except OSError:
            sock.close()
            if not protocols:
                seat.leave()

    def _forget(self, connection: DoorConnection) -> None:
        self.watch(connection, 0)
        self._connections.discard(connection)
        self._release(connection)

    def _release(self, connection: DoorConnection) -> None:
        count, connection.reserved = connection.reserved, 0
        if count:
            self._parts.memory.release(count)

    def _watch_all(self) -> None:
        if not self._over:
            self._loop.add_reader(self._selector.fileno(), self._turn)

    def _watch_listener(self) -> None:
        if not self._closing:
            self._selector.register(self._listener, selectors.EVENT_READ, None)

    def _stop_listening(self) -> None:
        with suppress(KeyError, ValueError):  # it is not registered while no descriptors are left
            self._selector.unregister(self._listener)
        self._listener.close()


def _refuse(sock: socket.socket, response: bytes) -> None:
    """Responds without waiting, and closes."""
    with sock, suppress(OSError):
        sock.send(response)
        sock.shutdown(socket.SHUT_WR)
        sock.recv(_REFUSED_HEAD_BYTES)  # closing with unread bytes resets the connection


def _cost(connection: DoorConnection) -> float:
    return _FOREIGN_SHARE if connection.state is ConnectionState.FOREIGN else 1.0


def _since(connection: DoorConnection) -> float:
    return connection.since
