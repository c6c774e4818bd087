"""Connections that come to the complete HTTP server from the door, with what was already read of them."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Arrival(HttpToolsProtocol):
    def __init__(self, data: bytes, **options: Any) -> None:
        super().__init__(**options)
        self._data = data

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        data, self._data = self._data, b""
        self.data_received(data)
