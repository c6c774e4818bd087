"""Leases of AI calls whose holder is dead: they are released, and nothing else is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from quire.coordination import keys
from quire.coordination.ai_admission import Admission, Ask, Backoff, Busy, CallOutcome, Lease, Target
from quire.coordination.ai_leases import AiLeases, new_lease_id
from quire.coordination.connection import RedisConnection
from quire.coordination.liveness import WorkerId, Workers
from tests.support.clocks import MovableClock, ShiftedClock

TARGET = Target("one", "large:2", rpm=600, tpm=60_000, max_inflight=2)
OTHER = Target("two", "small", max_inflight=2)
DEAD, ALIVE = "elsewhere.7.1.dead", "elsewhere.8.1.alive"


class Holders:
    """Two workers on other hosts; the heartbeat of one of them has expired."""

    def __init__(self, connection: RedisConnection, clock: ShiftedClock) -> None:
        self.connection = connection
        self.workers = Workers(connection, clock, ttl_s=60)
        self.time = MovableClock()
        self.leases = AiLeases(connection, self.workers, self.time)

    def admission(self, holder: str = "") -> Admission:
        return Admission(self.connection, backoff=Backoff(30, 30), clock=self.time, holder=holder)

    async def lose(self, holder: str) -> None:
        await self.connection.command("DEL", keys.worker(holder))

    async def take(self, holder: str, target: Target = TARGET) -> Lease:
        lease = await self.admission(holder).admit([Ask(target, 100)])
        assert isinstance(lease, Lease), lease
        return lease

    async def in_flight(self, target: Target = TARGET) -> int:
        return (await self.admission().states([target]))[0].in_flight


@pytest.fixture
async def holders(connection: RedisConnection, clock: ShiftedClock) -> Holders:
    found = Holders(connection, clock)
    for holder in (DEAD, ALIVE):
        await found.workers.beat(holder)
    return found


async def test_only_its_leases_are_released_when_a_worker_is_dead(holders: Holders) -> None:
    await holders.take(DEAD)
    await holders.take(ALIVE)
    await holders.take(DEAD, OTHER)
    await holders.take(DEAD, OTHER)
    assert await holders.leases.release_dead() == 0, "its heartbeat is still there"
    await holders.lose(DEAD)
    assert await holders.leases.release_dead() == 3
    assert (await holders.in_flight(), await holders.in_flight(OTHER)) == (1, 0)
    assert await holders.leases.release_dead() == 0
    await holders.take(ALIVE)
    refused = await holders.admission().admit([Ask(TARGET, 100)])
    assert isinstance(refused, Busy), "the lease of the worker that is alive still counts"


async def test_what_was_reserved_stays_spent_when_leases_are_released(holders: Holders) -> None:
    await holders.take(DEAD)
    await holders.lose(DEAD)
    await holders.leases.release_dead()
    [state] = await holders.admission().states([TARGET])
    assert round(state.rpm_used) == 1
    assert round(state.tpm_used) == 100


async def test_nothing_is_counted_twice_when_a_paused_worker_settles_a_released_lease(
    holders: Holders,
) -> None:
    admission = holders.admission()
    lease = await holders.take(DEAD)
    await holders.lose(DEAD)
    await holders.leases.release_dead()
    others = [await holders.take(ALIVE), await holders.take(ALIVE)]
    before = (await admission.states([TARGET]))[0]
    settled = await admission.settle(lease, CallOutcome.OK, tokens=10)
    assert not settled.counted
    after = (await admission.states([TARGET]))[0]
    assert (after.in_flight, after.cap) == (before.in_flight, before.cap) == (2, 2)
    assert round(after.tpm_used) == 300, "its tokens are not refunded a second time"
    for one in others:
        assert (await admission.settle(one, CallOutcome.OK, tokens=10)).counted
    assert await holders.in_flight() == 0


@pytest.mark.parametrize("outcome", [CallOutcome.FAILED, CallOutcome.AUTH])
async def test_another_call_is_the_probe_when_the_one_that_probed_is_dead(
    holders: Holders, outcome: CallOutcome
) -> None:
    """A model's own breaker, and that of its provider."""
    dying = holders.admission(DEAD)
    first = await dying.admit([Ask(TARGET, 100)])
    assert isinstance(first, Lease)
    await dying.settle(first, outcome, code="server")
    holders.time.time += 31
    probe = await dying.admit([Ask(TARGET, 100)])
    assert isinstance(probe, Lease)
    assert probe.probe
    assert isinstance(await dying.admit([Ask(TARGET, 100)]), Busy)
    await holders.lose(DEAD)
    assert await holders.leases.release_dead() == 1
    second = await dying.admit([Ask(TARGET, 100)])
    assert isinstance(second, Lease)
    assert second.probe


async def test_leases_of_an_earlier_version_are_left_alone_when_workers_die(holders: Holders) -> None:
    """They name no holder. In a rolling upgrade both kinds are in one set."""
    old = await holders.take("")
    assert "/" not in old.id
    new = await holders.take(DEAD)
    await holders.lose(DEAD)
    assert await holders.leases.release_dead() == 1
    admission = holders.admission()
    assert (await admission.settle(old, CallOutcome.OK)).counted
    assert not (await admission.settle(new, CallOutcome.OK)).counted
    assert await holders.in_flight() == 0


async def test_leases_stay_when_their_holder_was_never_a_worker(holders: Holders) -> None:
    """Such as `quire serve` beside workers, or a worker that has left and ends its last call."""
    await holders.take("elsewhere.9.1.serve")
    await holders.take(ALIVE)
    await holders.workers.leave(ALIVE)
    assert await holders.leases.release_dead() == 0
    assert await holders.in_flight() == 2


async def test_leases_are_released_when_the_process_has_ended_on_this_machine(holders: Holders) -> None:
    """Also of a process without heartbeats."""
    code = "from quire.coordination.liveness import WorkerId; print(WorkerId.of_this_process())"
    ended = subprocess.check_output([sys.executable, "-c", code], text=True)  # noqa: ASYNC221 - short
    await holders.take(ended.strip())
    await holders.take(str(WorkerId.of_this_process()))
    assert await holders.leases.release_dead() == 1
    assert await holders.in_flight() == 1


def test_lease_ids_begin_at_random_when_they_have_a_holder() -> None:
    """`admit.lua` extends the life of a model's keys with one lease of eight, by the first character."""
    firsts = {new_lease_id(DEAD)[0] for _ in range(500)}
    assert len(firsts) == 16
