"""Connections that come all at once, read a few at a time.

The server reads whatever is there to be read before anything else gets its turn. With thousands of new
connections, each with a body, all of them would be half-way in before the first is served. So each turn of the
event loop begins to read only a few of them; those that have begun are not held up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_EACH_TURN = 8


class Arrivals:
    """The connections of one server that have not been read from yet. Makes the server's protocols."""

    def __init__(self, each_turn: int = _EACH_TURN) -> None:
        self._each_turn = each_turn
        self._waiting: deque[_Protocol] = deque()
        self._scheduled = False

    def protocol(self, **options: Any) -> asyncio.Protocol:
        return _Protocol(self, **options)

    def add(self, connection: _Protocol) -> None:
        self._waiting.append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        for _ in range(min(self._each_turn, len(self._waiting))):
            self._waiting.popleft().begin()
        if self._waiting:
            self._schedule()


class _Protocol(HttpToolsProtocol):
    def __init__(self, arrivals: Arrivals, **options: Any) -> None:
        super().__init__(**options)
        self._arrivals = arrivals

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow.pause_reading()
        self._arrivals.add(self)

    def begin(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()
