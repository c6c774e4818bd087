"""Middleware around every request: its id, its line in the access log, and default response headers."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets

import structlog.contextvars
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quire.api.http.error_responses import error_response, unexpected_response
from quire.clock import Clock
from quire.errors import OverloadedError

_LOG = logging.getLogger(__name__)
_ACCESS = logging.getLogger("quire.access")
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CLIENT_GONE = 499
_STOPPING = "The service is stopping. Try again shortly."

DEFAULT_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Set on every response that does not set them itself."""


class RequestLog:
    """Gives each request an id, logs it without query string or body, and answers exceptions that no handler caught."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = id_for(Headers(scope=scope).get("x-request-id", ""))
        scope.setdefault("state", {})["request_id"] = request_id
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self._logged(scope, receive, send, request_id)

    async def _logged(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        began = self._clock.monotonic()
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                for name, value in DEFAULT_HEADERS.items():
                    headers.setdefault(name, value)
                if scope["app"].state.services.draining.is_set():
                    headers["Connection"] = "close"  # the caller's next request goes to another process
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            # The service ends and this request took too long. Nothing is above us but the server itself, which
            # would answer 500 for it.
            if not status:
                await error_response(Request(scope), OverloadedError(_STOPPING, retry_after_s=1))(
                    scope, receive, sending
                )
        except Exception:
            _LOG.exception("request failed unexpectedly")
            if not status:
                await unexpected_response(Request(scope))(scope, receive, sending)
            # Else the answer is half sent: the server cuts the connection, which is the only way left to say so.
        finally:
            path = str(getattr(scope.get("route"), "path", "(none)"))
            log_request(scope["method"], path, status, self._clock.monotonic() - began)


def id_for(given: str) -> str:
    """The id that a request came with, if it is well-formed, else a new one."""
    return given if given and _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


def log_request(method: str, path: str, status: int, seconds: float) -> None:
    """The request's line in the log; status 0 means that the caller had disconnected."""
    # Probes come every few seconds and would hide everything else.
    level = logging.DEBUG if path.startswith("/health") and status == 200 else logging.INFO
    if _ACCESS.isEnabledFor(level):
        _ACCESS.log(
            level,
            "request",
            extra={
                "method": method,
                "path": path,
                "status": status or _CLIENT_GONE,
                "duration_ms": round(seconds * 1000, 1),
            },
        )
