"""uvicorn's WebSocket protocol, for a connection that has a place in the connection table."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from quire.api.http.connection_limits import Seat


class GuardedWebSocket(WebSocketsSansIOProtocol):
    """It occupies `seat` until it is closed. A caller that stalls is noticed by its missing pong."""

    def __init__(self, seat: Seat, **options: Any) -> None:
        super().__init__(**options)
        self._seat = seat

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):  # a handshake that was refused has none
            self.scope["quire.vouch"] = self._seat.vouch  # type: ignore[typeddict-unknown-key]

    def connection_lost(self, exc: Exception | None) -> None:
        self._seat.leave()
        super().connection_lost(exc)
