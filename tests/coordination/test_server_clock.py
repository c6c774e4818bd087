"""A host whose clock is off: deadlines are on the clock of the coordination server."""

from __future__ import annotations

import time

import pytest

from quire.coordination.connection import RedisConnection
from quire.coordination.server_clock import ServerClock, clock_issue, synchronise
from tests.support.clocks import ShiftedClock
from tests.support.waiting import until


@pytest.mark.parametrize(("off_s", "word"), [(-300.0, "behind"), (300.0, "ahead of")])
async def test_times_are_the_servers_when_the_hosts_clock_is_off(
    connection: RedisConnection, off_s: float, word: str
) -> None:
    clock = ServerClock(lambda: time.time() + off_s)

    async def measured() -> bool:  # an answer that comes too late is not used
        await synchronise(clock, connection)
        return clock.offset_s != 0.0

    await until(measured, "the distance of the clocks")
    assert abs(clock.now() - time.time()) < 60
    assert f"5 minutes {word} the coordination server's" in (clock_issue(clock) or "")


async def test_nothing_is_corrected_when_the_clock_is_right(connection: RedisConnection) -> None:
    clock = ServerClock()
    await synchronise(clock, connection)
    assert clock.offset_s == 0.0
    assert clock_issue(clock) is None


async def test_the_last_distance_is_kept_when_the_server_is_away() -> None:
    clock = ServerClock()
    clock.offset_s = 7.0
    away = RedisConnection.open("redis://127.0.0.1:1/0")
    await synchronise(clock, away)
    await away.close()
    assert clock.offset_s == 7.0


async def test_a_clock_of_a_test_is_left_alone(connection: RedisConnection) -> None:
    clock = ShiftedClock()
    await synchronise(clock, connection)
    assert clock.shift_s == 0.0
    assert clock_issue(clock) is None


def test_time_goes_on_when_the_hosts_clock_is_set() -> None:
    system, steady = [1000.0], [5.0]
    clock = ServerClock(lambda: system[0], lambda: steady[0])
    system[0], steady[0] = 1310.0, 15.0
    assert clock.now() == 1010.0
    system[0] = 1010.5
    assert clock.now() == 1010.5
