"""One plain server for all tests of the queue; each gets it empty."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from quire.coordination.connection import RedisConnection
from quire.coordination.streams import Queues
from quire.domain.job import UnitKind
from tests.support.clocks import ShiftedClock
from tests.support.coordination_servers import plain_server


@pytest.fixture(scope="package")
def shared_server() -> Iterator[str]:
    with plain_server() as (url, _port):
        yield url


@pytest.fixture
async def connection(shared_server: str) -> AsyncIterator[RedisConnection]:
    opened = RedisConnection.open(shared_server)
    await opened.command("FLUSHALL")
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
async def queues(connection: RedisConnection, clock: ShiftedClock) -> Queues:
    made = Queues(connection, clock)
    await made.ensure_groups(UnitKind)
    return made
