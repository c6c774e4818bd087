"""Servers on loopback for downloads and callbacks, resolvers for their names, and a part that is kept in memory."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from quire.links import LinkPolicy, Lookup
from tests.support.waiting import DEADLINE_S

LENIENT = LinkPolicy(
    allow_private=True, max_redirects=3, timeout_s=DEADLINE_S, max_bytes=1_000_000, stall_s=10
)
"""A policy under which tests reach their own servers."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Received(bytearray):
    """A part that is kept in memory."""

    validator = ""

    @property
    def size(self) -> int:
        return len(self)

    async def write(self, chunk: bytes) -> None:
        self.extend(chunk)

    async def restart(self, validator: str) -> None:
        self.clear()
        self.validator = validator


def bound_together(first: str, *others: str) -> list[socket.socket]:
    """Sockets at the same port of several addresses: a port that is taken at one of them is left for another port."""
    while True:
        sockets = [socket.socket()]
        try:
            sockets[0].bind((first, 0))
            for host in others:
                sockets.append(socket.socket())
                sockets[-1].bind((host, sockets[0].getsockname()[1]))
        except OSError as error:
            for one in sockets:
                one.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return sockets


@asynccontextmanager
async def serving(handler: Handler, *hosts: str) -> AsyncIterator[int]:
    """A real server that answers everything with the handler, at one port of all these addresses; gives the port."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    try:
        for bound in bound_together(*hosts or ("127.0.0.1",)):
            await web.SockSite(runner, bound).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def saying(answer: bytes, *, then_close: bool = True) -> AsyncIterator[int]:
    """A server that sends exactly these bytes, for answers that no decent server gives."""
    held: list[asyncio.StreamWriter] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        held.append(writer)
        if then_close:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        for writer in held:
            writer.close()
        server.close()


def answering(*answers: list[str]) -> tuple[Lookup, list[str]]:
    """A resolver that gives each answer once and then repeats the last, and the names it was asked for."""
    asked: list[str] = []

    async def lookup(host: str, _port: int) -> list[str]:
        asked.append(host)
        return answers[min(len(asked), len(answers)) - 1]

    return lookup, asked
