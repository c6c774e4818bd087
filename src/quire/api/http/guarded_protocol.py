"""uvicorn's protocol with limits on callers: the size and time of a head, the rate of a body, and a reader that stalls.

It takes over connections of which the front door has read the first bytes.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from quire.api.http.connection_limits import MAX_HEAD_BYTES, ConnectionLimits, Seat, refusal
from quire.api.http.turn_queue import TurnQueue

_LINGER_S = 1.0  # closing with unread bytes resets the connection, and the caller would not see the response
_STALLED_READER_S = 60.0
WEBSOCKET_PATH = b"/v1/status/ws/"


class _HeadTooLargeError(Exception):
    pass


class GuardedProtocol(HttpToolsProtocol):
    """A connection of which `data` has already been read; it occupies `seat` until it is closed.

    `departures` spreads the ends of requests whose callers left together over turns of the event loop.
    """

    def __init__(
        self, data: bytes, seat: Seat, limits: ConnectionLimits, departures: TurnQueue, **options: Any
    ) -> None:
        super().__init__(**options)
        self._data = data
        self._seat = seat
        self._limits = limits
        self._departures = departures
        self._awaits_head = True
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._body_bytes = 0
        self._body_was_paused = False
        self._body_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._refused = False
        self._upgraded = False

    def close(self) -> None:
        """Closes the connection at once: another caller needs its place."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        data, self._data = self._data, b""
        self.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._body_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._seat.leave()
        self._departures.call(partial(super().connection_lost, exc))

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._awaits_head:
            self._head_bytes += len(data)
        else:
            self._body_bytes += len(data)
        super().data_received(data)
        if self._refused or self._upgraded or self.transport.is_closing():
            return
        if not self._awaits_head:
            if self._body_timer is None and self._limits.min_body_rate_bytes:
                self._watch_body()
        elif self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, "head_too_large", _HEAD_TEXT)
        elif self._head_timer is None and self._is_without_request():
            self._head_timer = self.loop.call_later(self._limits.header_timeout_s, self._head_overdue)
            self._seat.waits(self)

    def _should_upgrade_to_ws(self) -> bool:
        """Only where there is something to follow: an upgrade to anything else is answered as a plain request."""
        return self.url.startswith(WEBSOCKET_PATH)

    def handle_websocket_upgrade(self) -> None:
        """The seat goes to the protocol that takes over."""
        from quire.api.http.guarded_websocket import GuardedWebSocket  # heavy, and seldom used

        self._upgraded = True
        self.ws_protocol_class = partial(GuardedWebSocket, self._seat)  # type: ignore[assignment]
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["quire.vouch"] = self._seat.vouch  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MAX_HEAD_BYTES:
            raise _HeadTooLargeError
        self._awaits_head = False
        self._body_bytes = 0
        self._seat.is_busy()
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._awaits_head = True
        self._head_bytes = 0
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._awaits_head and self._is_without_request() and not self.transport.is_closing():
            self._seat.waits(self)

    def send_400_response(self, msg: str) -> None:
        """Answers what the parser refused, in the shape of all errors."""
        size = len(self.url if self.headers is not None else b"") + sum(
            len(name) + len(value) + 4 for name, value in self.headers or ()
        )
        if self._awaits_head and size > MAX_HEAD_BYTES:
            self._refuse(431, "head_too_large", _HEAD_TEXT)
        else:
            self._refuse(400, "bad_request", "The request is not valid HTTP.")

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(_STALLED_READER_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _is_without_request(self) -> bool:
        return not self.pipeline and (self.cycle is None or self.cycle.response_complete)

    def _head_overdue(self) -> None:
        self._head_timer = None
        self._refuse(
            408,
            "request_timeout",
            f"The head of the request was not complete within {self._limits.header_timeout_s:g} seconds.",
        )

    def _watch_body(self) -> None:
        self._body_bytes = 0
        self._body_was_paused = self.flow.read_paused
        self._body_timer = self.loop.call_later(self._limits.body_window_s, self._check_body)

    def _check_body(self) -> None:
        """Refuses a body that came too slowly, unless the service itself did not read it."""
        self._body_timer = None
        if self._awaits_head or self.transport.is_closing():
            return
        ours = self._body_was_paused or self.flow.read_paused or self.cycle.waiting_for_100_continue
        rate = self._limits.min_body_rate_bytes
        if not ours and self._body_bytes < rate * self._limits.body_window_s:
            self._refuse(
                408,
                "request_timeout",
                f"The body arrived more slowly than {rate} bytes a second. Send it again over a faster connection.",
            )
        else:
            self._watch_body()

    def _refuse(self, status: int, code: str, text: str) -> None:
        """Responds, unless a response has begun, and closes."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        if self.pipeline or (not self._is_without_request() and self.cycle.response_started):
            self.transport.abort()
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = (
                True  # the endpoint gets no more of the body and its response is dropped
            )
            self.cycle.message_event.set()
        self.flow.resume_reading()
        self.transport.write(refusal(status, code, text))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.abort)


_HEAD_TEXT = f"The head of the request is larger than {MAX_HEAD_BYTES >> 10} kB."
