"""Shares of the reader processes: by team, then by document; quick work does not wait behind slow work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quire.errors import PageTimeoutError
from quire.reading.pool.child_pool import ChildPool, PoolOptions
from quire.reading.pool.fair_slots import FairSlots, ReaderShare, UsageLedger, sharing
from tests.reading.pool import pool_tasks as tasks
from tests.support.clocks import MovableClock
from tests.support.waiting import DEADLINE_S, until

LONG_S = DEADLINE_S
A1, A2, B1 = ReaderShare("a", "1"), ReaderShare("a", "2"), ReaderShare("b", "1")


async def order(slots: FairSlots, first: ReaderShare, shares: list[ReaderShare]) -> list[ReaderShare]:
    """In which order these get the one slot that `first` holds now, each releasing it at once."""
    served: list[ReaderShare] = []
    await slots.acquire(first)

    async def one(share: ReaderShare) -> None:
        await slots.acquire(share)
        served.append(share)
        slots.release(share)

    waiting = [asyncio.create_task(one(share)) for share in shares]
    await asyncio.sleep(0)
    slots.release(first)
    await asyncio.gather(*waiting)
    return served


async def test_team_that_used_less_is_served_first() -> None:
    ledger = UsageLedger(MovableClock().monotonic)
    ledger.charge(A1, 10)
    assert await order(FairSlots(1, 0, ledger), A1, [A1, A1, A2, B1]) == [B1, A2, A1, A1]


async def test_use_is_forgotten_when_time_passes() -> None:
    clock = MovableClock()
    ledger = UsageLedger(clock.monotonic)
    ledger.charge(A1, 64, wasted=True)
    clock.time += 360
    assert ledger.used_s(A1) == (1.0, 1.0)
    assert ledger.wasted_s(A1) == 64


async def test_team_without_a_slot_gets_an_extra_one_when_all_are_held() -> None:
    slots = FairSlots(2, 1, UsageLedger(MovableClock().monotonic))
    assert [slots.try_acquire(one) for one in (A1, A2, A1, B1, B1)] == [True, True, False, True, False]


async def test_slot_is_not_lost_when_a_waiter_is_cancelled() -> None:
    slots = FairSlots(1, 0, UsageLedger(MovableClock().monotonic))
    await slots.acquire(A1)
    waiting = [asyncio.create_task(slots.acquire(one)) for one in (A2, B1)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    slots.release(A1)
    waiting[1].cancel()  # it has been granted the slot in the same moment
    await asyncio.gather(*waiting, return_exceptions=True)
    assert slots.try_acquire(A1)


@pytest.fixture
async def pool() -> AsyncIterator[ChildPool]:
    opened = ChildPool(PoolOptions(processes=1, memory_bytes=0, preload=()))
    yield opened
    await opened.close()


async def test_quick_work_is_done_when_slow_work_holds_every_process(pool: ChildPool, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    async def slow(number: int) -> int:
        with sharing("greedy", f"document-{number}"):
            return await pool.run(tasks.wait_for, str(gate), timeout_s=LONG_S)

    running = [asyncio.create_task(slow(number)) for number in range(12)]
    await asyncio.sleep(0)
    for number in range(5):
        with sharing("polite", f"note-{number}"):
            assert await pool.run(tasks.echo, number, timeout_s=LONG_S) == number
    assert not any(one.done() for one in running)
    gate.touch()
    await asyncio.gather(*running)


async def test_slow_work_of_another_team_starts_when_one_team_holds_the_slow_lane(
    pool: ChildPool, tmp_path: Path
) -> None:
    gate, mark = tmp_path / "gate", tmp_path / "mark"

    async def slow(number: int) -> int:
        with sharing("greedy", f"document-{number}"):
            return await pool.run(tasks.wait_for, str(gate), timeout_s=LONG_S, slow=True)

    running = [asyncio.create_task(slow(number)) for number in range(3)]
    with sharing("polite", "scan"):
        other = asyncio.create_task(pool.run(tasks.spin, str(mark), timeout_s=LONG_S, slow=True))
    await until(mark.exists, "the other team's task runs")
    other.cancel()
    gate.touch()
    await asyncio.gather(*running)


async def test_time_is_cpu_time_when_the_host_is_busy(pool: ChildPool) -> None:
    """Two seconds of the wall clock, of which the task needs a twentieth: it is not over its time of one second."""
    assert await pool.run(tasks.work_a_little, 2.0, timeout_s=1.0) > 1.5


async def test_time_is_over_when_the_cpu_was_used(pool: ChildPool) -> None:
    with sharing("a", "1"):
        with pytest.raises(PageTimeoutError, match="Time ran out"):
            await pool.run(tasks.burn, timeout_s=0.6)  # longer than a quick task, by any clock
        assert pool.ledger.wasted_s(ReaderShare("a", "1")) > 0.2
        assert pool.ledger.is_slow(ReaderShare("a", "1"))
        assert await pool.run(tasks.echo, 1, timeout_s=LONG_S) == 1
        assert not pool.ledger.is_slow(ReaderShare("a", "1"))
