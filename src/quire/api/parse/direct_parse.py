"""Runs the endpoint of `POST /parse` for the front door, with the application's ids, headers and log."""

from __future__ import annotations

import asyncio
import logging

from fastapi import FastAPI, Request, Response
from starlette.types import Receive, Scope
from structlog.contextvars import bind_contextvars

from quire.api.http.error_responses import error_response, unexpected_response
from quire.api.http.request_log import DEFAULT_HEADERS, id_for, log_request
from quire.api.parse.parse_routes import parse
from quire.clock import Clock
from quire.errors import OverloadedError

_LOG = logging.getLogger(__name__)
_PATH = "/parse"
_REQUEST_ID = b"x-request-id"
_DEFAULT_LINES = b"".join(f"{name.lower()}: {value}\r\n".encode() for name, value in DEFAULT_HEADERS.items())


class DirectParse:
    def __init__(self, app: FastAPI, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def serve(self, scope: Scope, receive: Receive) -> tuple[int, bytes, bytes]:
        """Returns a status, header lines and a body. Raises only when cancelled twice."""
        began = self._clock.monotonic()
        given = next((value for name, value in scope["headers"] if name == _REQUEST_ID), b"")
        request_id = id_for(given.decode("latin-1"))
        bind_contextvars(request_id=request_id)  # of this task only
        scope["app"] = self._app
        scope["state"] = {"request_id": request_id}
        request = Request(scope, receive)
        response = await self._traced(request)
        lines = [b"%s: %s\r\n" % pair for pair in response.raw_headers]
        log_request("POST", _PATH, response.status_code, self._clock.monotonic() - began)
        head = b"".join((_DEFAULT_LINES, b"x-request-id: ", request_id.encode(), b"\r\n", *lines))
        return response.status_code, head, bytes(response.body)

    async def _traced(self, request: Request) -> Response:
        tracer = self._app.state.services.runtime.parts.tracer
        if tracer is None:
            return await self._response(request)
        with tracer.request("POST", request.headers.get("traceparent", "")) as span:
            span.update_name(f"POST {_PATH}")
            response = await self._response(request)
            span.set_attribute("http.route", _PATH)
            span.set_attribute("http.response.status_code", response.status_code)
            return response

    async def _response(self, request: Request) -> Response:
        try:
            return await parse(request)
        except asyncio.CancelledError:
            # The service is stopping and this request took too long.
            busy = OverloadedError("The service is stopping. Try again shortly.", retry_after_s=1)
            return error_response(request, busy)
        except Exception:
            _LOG.exception("request failed unexpectedly")
            return unexpected_response(request)
