"""A web server on loopback that serves documents to the service and receives its callbacks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


class Site:
    """A web server on loopback that serves what tests put there, after as many failures as they want."""

    def __init__(self) -> None:
        self.url = ""
        self.files: dict[str, bytes] = {}
        self.failures: dict[str, int] = {}
        self.posts: list[tuple[dict[str, str], bytes]] = []

    async def answer(self, request: web.Request) -> web.Response:
        left = self.failures.get(request.path, 0)
        if left:
            self.failures[request.path] = left - 1
            return web.Response(status=503)
        if request.method in ("POST", "PUT"):
            self.posts.append((dict(request.headers), await request.read()))
            return web.Response()
        if request.path not in self.files:
            return web.Response(status=404)
        return web.Response(body=self.files[request.path], content_type="application/pdf")


@asynccontextmanager
async def running_site() -> AsyncIterator[Site]:
    one = Site()
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", one.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    place = web.TCPSite(runner, "127.0.0.1", 0)
    await place.start()
    one.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield one
    finally:
        await runner.cleanup()
