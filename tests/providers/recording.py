"""A server that keeps what it is sent, headers and all, and answers `{}`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Recorded:
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    data: Any


@asynccontextmanager
async def recording_server(redirect_to: str | None = None) -> AsyncIterator[tuple[str, list[Recorded]]]:
    seen: list[Recorded] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        data = json.loads(await request.read())
        seen.append(Recorded(request.path, dict(request.query), dict(request.headers), data))
        if redirect_to is not None:
            return web.Response(status=307, headers={"Location": redirect_to + request.path})
        return web.Response(body=b"{}", content_type="application/json")

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", seen
    finally:
        await runner.cleanup()
