"""Who is alive, who is surely dead, and who keeps house."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.coordination.liveness import WorkerId, Workers
from tests.support.clocks import ShiftedClock

_OTHER = """
import sys
from quire.coordination.liveness import WorkerId
print(WorkerId.of_this_process(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def workers(connection: RedisConnection, clock: ShiftedClock) -> Workers:
    return Workers(connection, clock, ttl_s=60)


class Other:
    """Another process on this machine, with a worker's id."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.id = self._process.stdout.readline().decode().strip()

    def kill(self, *, reap: bool = True) -> None:
        self._process.kill()
        if reap:
            self._process.communicate()
        else:
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture
def other() -> Iterator[Other]:
    process = Other()
    yield process
    process.kill()


async def test_a_worker_is_alive_when_it_beats(workers: Workers) -> None:
    worker = str(WorkerId.of_this_process())
    assert not await workers.alive(worker)
    await workers.beat(worker)
    assert await workers.alive(worker)
    assert list(await workers.heartbeats()) == [worker]
    await workers.leave(worker)
    assert not await workers.alive(worker)
    assert await workers.heartbeats() == {}


@pytest.mark.parametrize("reap", [True, False], ids=["reaped", "zombie"])
async def test_a_worker_is_dead_at_once_when_its_process_was_killed(
    workers: Workers, other: Other, reap: bool
) -> None:
    await workers.beat(other.id)
    assert await workers.alive(other.id)
    other.kill(reap=reap)
    assert not await workers.alive(other.id), "the heartbeat is still there, the process is not"


async def test_a_worker_of_another_machine_is_alive_when_its_heartbeat_is(workers: Workers) -> None:
    here = WorkerId.of_this_process()
    elsewhere = WorkerId("anothermachine", 999_999_999, here.started, "n")
    await workers.beat(str(elsewhere))
    assert not elsewhere.is_known_dead()
    assert await workers.alive(str(elsewhere))


def test_a_process_with_the_same_number_is_another_one_when_it_started_later() -> None:
    here = WorkerId.of_this_process()
    assert not here.is_known_dead()
    assert WorkerId(here.machine, here.pid, str(int(here.started) - 1), here.nonce).is_known_dead()
    assert WorkerId.parse(str(here)) == here


async def test_silent_workers_are_forgotten_when_long_gone(workers: Workers, clock: ShiftedClock) -> None:
    await workers.beat("machine.1.2.old")
    clock.shift_s += 601
    await workers.beat("machine.1.2.new")
    await workers.trim_expired()
    assert list(await workers.heartbeats()) == ["machine.1.2.new"]


async def test_one_process_keeps_house_when_several_want_to(workers: Workers) -> None:
    """Also where none of them has a heartbeat, as processes without workers don't."""
    first, second = str(WorkerId.of_this_process()), str(WorkerId.of_this_process())
    assert await workers.hold_housekeeping(first, 60)
    assert not await workers.hold_housekeeping(second, 60)
    assert await workers.hold_housekeeping(first, 60)
    assert not await workers.hold_housekeeping(second, 60)


async def test_another_keeps_house_at_once_when_the_holder_leaves(workers: Workers) -> None:
    first, second = str(WorkerId.of_this_process()), str(WorkerId.of_this_process())
    assert await workers.hold_housekeeping(first, 60)
    await workers.release_housekeeping(second)
    assert not await workers.hold_housekeeping(second, 60)
    await workers.release_housekeeping(first)
    assert await workers.hold_housekeeping(second, 60)


async def test_another_keeps_house_at_once_when_the_holder_was_killed(workers: Workers, other: Other) -> None:
    mine = str(WorkerId.of_this_process())
    await workers.beat(other.id)
    assert await workers.hold_housekeeping(other.id, 60)
    assert not await workers.hold_housekeeping(mine, 60)
    other.kill()
    assert await workers.hold_housekeeping(mine, 60)
    assert not await workers.hold_housekeeping(other.id, 60)


async def test_the_house_is_free_when_its_lock_runs_out(
    workers: Workers, connection: RedisConnection
) -> None:
    """A holder on another machine can only be known by its time."""
    assert await workers.hold_housekeeping("elsewhere.1.2.n", 60)
    assert not await workers.hold_housekeeping("here.1.2.n", 60)
    await connection.command("PEXPIRE", keys.HOUSEKEEPER, 0)
    assert await workers.hold_housekeeping("here.1.2.n", 60)
