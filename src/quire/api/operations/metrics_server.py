"""The port on which `quire worker` serves its metrics: GET /metrics, and nothing else but /health/live.

A plain accept loop instead of the web framework: a worker that is idle costs nothing more, and starts no slower.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from quire.api.operations.metrics_page import CONTENT_TYPE, MetricsPage
from quire.errors import SettingsError
from quire.settings import ApiKey, Settings

_LOG = logging.getLogger(__name__)
_HEAD_S = 5.0
_LONGEST_HEAD = 16_384


@asynccontextmanager
async def metrics_server(settings: Settings, page: MetricsPage) -> AsyncIterator[int | None]:
    """Serves until the block ends; yields the port, None if METRICS_PORT is 0.

    Raises SettingsError if the address can't be listened on, or is open to others while there are no API keys.
    """
    metrics = settings.metrics
    if not metrics.port:
        yield None
        return
    settings.check_metrics_exposure()
    handler = _Handler(page, settings.auth.api_keys)
    try:
        server = await asyncio.start_server(handler.serve, metrics.host, metrics.port, limit=_LONGEST_HEAD)
    except OSError as error:
        raise SettingsError(
            f"METRICS_PORT {metrics.port} of {metrics.host} can't be listened on ({error.strerror}). "
            "Each worker of a host needs a port of its own."
        ) from error
    port: int = server.sockets[0].getsockname()[1]
    _LOG.info("metrics are served", extra={"address": f"http://{metrics.host}:{port}/metrics", "port": port})
    try:
        yield port
    finally:
        server.close()
        await server.wait_closed()


class _Handler:
    def __init__(self, page: MetricsPage, keys: tuple[ApiKey, ...]) -> None:
        self._page = page
        self._keys = keys

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request and closes the connection."""
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(await self._answer(head))
            await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def _answer(self, head: bytes) -> bytes:
        first, *lines = head.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", b"Only GET is served here.\n")
        if path == "/health/live":
            return _response("200 OK", b'{"status":"ok"}', "application/json")
        if path != "/metrics":
            return _response("404 Not Found", b"Only /metrics is served here.\n")
        if not self._allowed(lines):
            return _response("401 Unauthorized", b"An API key is needed: send `Authorization: Bearer KEY`.\n")
        return _response("200 OK", b"" if method == "HEAD" else await self._page.render(), CONTENT_TYPE)

    def _allowed(self, lines: list[str]) -> bool:
        if not self._keys:
            return True
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)
        }
        scheme, _, key = headers.get("authorization", "").partition(" ")
        given = key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        return any(hmac.compare_digest(given.encode(), one.key.encode()) for one in self._keys)


def _response(status: str, body: bytes, kind: str = "text/plain; charset=utf-8") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
