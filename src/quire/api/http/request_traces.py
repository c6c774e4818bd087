"""Middleware that makes a span of every request; installed only where traces are on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

if TYPE_CHECKING:
    from quire.telemetry.tracer import Tracer

_NOT_TRACED = ("/health", "/metrics")
_WITHOUT_ROUTE = "/parse"
"""Served without the router."""


class RequestTraces:
    """Continues the caller's trace where the request has a `traceparent` (W3C Trace Context)."""

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(_NOT_TRACED):
            await self._app(scope, receive, send)
            return
        with self._tracer.request(scope["method"], Headers(scope=scope).get("traceparent", "")) as span:

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            try:
                await self._app(scope, receive, sending)
            finally:
                shortcut = scope["path"] if scope["path"] == _WITHOUT_ROUTE else "(none)"
                route = str(getattr(scope.get("route"), "path", shortcut))
                span.update_name(f"{scope['method']} {route}")
                span.set_attribute("http.route", route)
