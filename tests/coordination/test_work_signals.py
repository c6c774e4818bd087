"""Signals: an entry wakes one waiting worker, and no entry waits while a worker has room for it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial

import pytest

from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.coordination.streams import Hint, Queues
from quire.coordination.work_signals import WorkSignals
from quire.domain.job import UnitKind
from quire.pipeline.entry_reader import EntryReader
from quire.pipeline.unreceived_entries import UnreceivedEntries
from tests.support.clocks import ShiftedClock
from tests.support.waiting import DEADLINE_S, until

JOB = "00000000-0000-4000-8000-000000000001"


def chunks(count: int) -> list[Hint]:
    return [Hint(JOB, f"c{n}-{n}", 1) for n in range(count)]


@asynccontextmanager
async def listening(queues: Queues, name: str) -> AsyncIterator[WorkSignals]:
    signals = queues.signals(name)
    running = asyncio.create_task(signals.run())
    try:
        yield signals
    finally:
        running.cancel()
        await asyncio.wait({running})


@contextmanager
def patient() -> Iterator[None]:
    """Waits that no signal ends fail: they must not be ended by reading anyway."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quire.coordination.work_signals._READ_ANYWAY_S", 100 * DEADLINE_S)
        yield


async def blocked(connection: RedisConnection, count: int) -> None:
    """Returns when this many connections wait on the server."""

    async def are_blocked() -> bool:
        return f"blocked_clients:{count}\r" in await connection.command("INFO", "clients")

    await until(are_blocked)


async def test_one_worker_wakes_when_two_wait_for_one_entry(
    queues: Queues, connection: RedisConnection
) -> None:
    with patient():
        async with listening(queues, "one") as one, listening(queues, "two") as two:
            waits = {asyncio.create_task(each.wait(UnitKind.READ)) for each in (one, two)}
            await blocked(connection, 2)
            await queues.put(chunks(1))
            async with asyncio.timeout(DEADLINE_S):
                done, waiting = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            await blocked(connection, 1)
            assert (len(done), len(waiting)) == (1, 1)
            for task in waiting:
                task.cancel()


async def test_a_worker_wakes_when_it_began_to_wait_for_a_second_queue_later(
    queues: Queues, connection: RedisConnection
) -> None:
    with patient():
        async with listening(queues, "one") as one:
            first = asyncio.create_task(one.wait(UnitKind.READ))
            await blocked(connection, 1)
            second = asyncio.create_task(one.wait(UnitKind.MERGE))
            await queues.put([Hint(JOB, "merge", 1)])
            async with asyncio.timeout(DEADLINE_S):
                await second
            assert not first.done()
            await queues.put(chunks(1))
            async with asyncio.timeout(DEADLINE_S):
                await first


async def test_a_worker_wakes_when_the_entry_was_queued_before(queues: Queues) -> None:
    await queues.put(chunks(1))
    with patient():
        async with listening(queues, "one") as one, asyncio.timeout(DEADLINE_S):
            await one.wait(UnitKind.READ)


async def test_a_signal_is_small_when_many_entries_are_queued(
    queues: Queues, connection: RedisConnection
) -> None:
    await queues.put(chunks(100))
    assert await connection.command("ZCARD", keys.work_signal(UnitKind.READ)) == 8


async def test_every_entry_is_read_when_more_workers_than_signals_have_room_for_one(
    queues: Queues, clock: ShiftedClock
) -> None:
    stopping = asyncio.Event()
    names = [f"worker-{n}" for n in range(12)]
    readers = [
        EntryReader(queues, name, [UnitKind.READ], UnreceivedEntries(queues, name, clock), stopping)
        for name in names
    ]
    with patient():
        running = [asyncio.create_task(one.run()) for one in readers]
        reading = [asyncio.create_task(one.next(UnitKind.READ, 1)) for one in readers]
        await asyncio.sleep(0)
        await queues.put(chunks(12))
        async with asyncio.timeout(DEADLINE_S):
            found = await asyncio.gather(*reading)
        for task in running:
            task.cancel()
    assert sorted(hint.unit for hints in found for hint in hints) == sorted(one.unit for one in chunks(12))


async def test_another_worker_reads_the_entry_when_the_worker_that_was_woken_leaves(
    queues: Queues, clock: ShiftedClock
) -> None:
    leaving = EntryReader(
        queues, "one", [UnitKind.READ], UnreceivedEntries(queues, "one", clock), asyncio.Event()
    )
    with patient():
        async with listening(queues, "one") as one, asyncio.timeout(DEADLINE_S):
            await queues.put(chunks(1))
            await one.wait(UnitKind.READ)
        await leaving.leave()
        async with listening(queues, "two") as two, asyncio.timeout(DEADLINE_S):
            await two.wait(UnitKind.READ)


async def test_commands_of_one_call_keep_their_order_when_many_are_sent_at_once(
    connection: RedisConnection,
) -> None:
    calls = [connection.commands([("RPUSH", f"k{n}", "a"), ("RPUSH", f"k{n}", "b")]) for n in range(300)]
    await asyncio.gather(connection.ping(), *calls)
    found = await connection.commands([("LRANGE", f"k{n}", 0, -1) for n in range(300)])
    assert found == [["a", "b"]] * 300


async def test_signals_of_a_busy_process_are_sent_together(
    queues: Queues, connection: RedisConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quire.coordination.work_signals._APART_S", 100 * DEADLINE_S)
    await connection.command("CONFIG", "RESETSTAT")
    for chunk in chunks(20):
        await queues.put([chunk])
    assert await _signals_sent(connection) == 1


async def test_no_entry_is_left_without_a_signal_when_it_comes_soon_after_another(
    queues: Queues, connection: RedisConnection
) -> None:
    await queues.put(chunks(1))
    await connection.command("DEL", keys.work_signal(UnitKind.READ))  # a worker has taken it
    await queues.put(chunks(1))
    await until(partial(connection.any_exists, [keys.work_signal(UnitKind.READ)]))


async def _signals_sent(connection: RedisConnection) -> int:
    found = re.search(r"cmdstat_zadd:calls=(\d+)", await connection.command("INFO", "commandstats"))
    return int(found[1]) if found else 0


async def test_a_waiting_reader_gets_a_unit_when_its_own_process_offers_one(
    queues: Queues, clock: ShiftedClock
) -> None:
    stopping = asyncio.Event()
    await queues.ensure_groups([UnitKind.READ])
    unreceived = UnreceivedEntries(queues, "one", clock)
    reader = EntryReader(queues, "one", [UnitKind.READ], unreceived, stopping)
    first, second = chunks(2)
    with patient():
        reading = asyncio.create_task(reader.next(UnitKind.READ, 2))
        await until(lambda: reader.offer(first))
        assert not reader.offer(second), "it no longer waits"
        assert await reading == [first]
        reading = asyncio.create_task(reader.next(UnitKind.READ, 2))
        await until(lambda: reader.offer(second))
        stopping.set()
        found = await reading
    assert not reader.offer(first), "it has stopped"
    await reader.leave()
    assert [second] == found or (await queues.depth(UnitKind.READ))["waiting"] == 1
