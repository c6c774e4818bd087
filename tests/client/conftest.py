"""One real service for all of it, and a wire in front of it that can be cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest

from quire.client import AsyncQuire, Quire, Retrying
from tests.support.client_fixtures import KEY
from tests.support.serving import Server

QUICK = Retrying(attempts=6, base_s=0.01, longest_wait_s=15.0)


@pytest.fixture
def service(client_service: Server) -> Server:
    return client_service


@pytest.fixture
def quire(service: Server) -> Iterator[Quire]:
    with Quire(service.url, KEY) as one:
        yield one


@pytest.fixture
async def aquire(service: Server) -> AsyncIterator[AsyncQuire]:
    async with AsyncQuire(service.url, KEY) as one:
        yield one


class Wire:
    """Carries bytes to the service. `cuts` answers are not let through: the connection breaks at their first byte,
    when the service has long done what it was asked."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rpartition(":")[2])
        self.url = ""
        self.cuts = 0
        self.connections = 0
        self.cut_after: int | None = None

    async def __aenter__(self) -> Wire:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        self.connections += 1
        far, on = await asyncio.open_connection("127.0.0.1", self._port)
        up = asyncio.create_task(self._pump(near, on))
        try:
            passed = 0
            while piece := await far.read(1 << 16):
                if self.cuts and (self.cut_after is None or passed >= self.cut_after):
                    self.cuts -= 1
                    return
                passed += len(piece)
                back.write(piece)
                await back.drain()
        except OSError:
            pass
        finally:
            up.cancel()
            for end in (back, on):
                end.transport.abort() if end is back else end.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(1 << 16):
                writer.write(piece)
                await writer.drain()
            writer.write_eof()


@pytest.fixture
async def wire(service: Server) -> AsyncIterator[Wire]:
    async with Wire(service.url) as one:
        yield one
