"""The queues: entries once to one consumer, later ones in their time, those of the dead to others."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from quire.coordination.connection import RedisConnection
from quire.coordination.keys import QUEUES
from quire.coordination.streams import Hint, PriorityShares, Queues
from quire.domain.job import JobPriority, UnitKind
from tests.support.clocks import ShiftedClock
from tests.support.waiting import DEADLINE_S

JOB = "00000000-0000-4000-8000-000000000001"


def hints(count: int) -> list[Hint]:
    return [Hint(JOB, f"c{n}-{n}", 1) for n in range(count)]


async def read(queues: Queues, consumer: str, count: int = 100) -> list[Hint]:
    return await queues.read(UnitKind.READ, consumer, count, 0)


async def test_each_entry_goes_to_one_consumer_when_two_read(queues: Queues) -> None:
    await queues.put(hints(10))
    first, second = await read(queues, "one", 6), await read(queues, "two", 6)
    assert [hint.unit for hint in (*first, *second)] == [hint.unit for hint in hints(10)]
    assert await queues.consumers(UnitKind.READ) == {"one": 6, "two": 4}


async def test_nothing_is_left_when_entries_are_done(queues: Queues, connection: RedisConnection) -> None:
    await queues.put(hints(3))
    for hint in await read(queues, "one"):
        await queues.done(hint)
    assert await queues.depth(UnitKind.READ) == {"waiting": 0, "delayed": 0, "dead": 0}
    assert await queues.consumers(UnitKind.READ) == {"one": 0}
    assert await connection.command("XLEN", QUEUES[UnitKind.READ].stream) == 0


async def test_a_page_entry_carries_its_reference_and_key_when_queued(
    queues: Queues, connection: RedisConnection
) -> None:
    await queues.put([Hint(JOB, "p12", 3, content_ref="jobs/x/original")])
    [[_, fields]] = await connection.command("XRANGE", QUEUES[UnitKind.PAGE].stream, "-", "+")
    found = fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=True))
    assert found["content_ref"] == "jobs/x/original#page=12"
    assert found["idempotency_key"] == f"doc:{JOB}:page:12:v3"
    [hint] = await queues.read(UnitKind.PAGE, "one", 1, 0)
    assert (hint.unit, hint.epoch, hint.content_ref) == ("p12", 3, "jobs/x/original")


async def test_a_waiting_reader_is_served_when_an_entry_comes(queues: Queues) -> None:
    reading = asyncio.create_task(queues.read(UnitKind.MERGE, "one", 1, DEADLINE_S))
    await queues.put([Hint(JOB, "merge", 1)])
    async with asyncio.timeout(DEADLINE_S):
        assert [hint.unit for hint in await reading] == ["merge"]


async def test_reading_makes_the_group_anew_when_the_server_has_lost_everything(
    queues: Queues, connection: RedisConnection
) -> None:
    await connection.command("FLUSHALL")
    assert await read(queues, "one") == []
    await queues.put(hints(1))
    assert len(await read(queues, "one")) == 1


async def test_delayed_entries_move_once_when_their_time_has_come(
    queues: Queues, clock: ShiftedClock
) -> None:
    now = clock.now()
    for hint, wait_s in zip(hints(3), (-1, 30, 60), strict=True):
        await queues.put_later(hint, now + wait_s)
    assert await queues.move_all_due() <= 30
    assert await queues.move_all_due() <= 30
    clock.shift_s += 31
    assert await queues.move_all_due() <= 29
    assert [hint.unit for hint in await read(queues, "one")] == ["c0-0", "c1-1"]
    assert (await queues.depth(UnitKind.READ))["delayed"] == 1
    clock.shift_s += 30
    assert await queues.move_all_due() == math.inf


async def test_housekeeper_is_called_when_an_entry_is_put_among_the_delayed_ones(
    queues: Queues, clock: ShiftedClock
) -> None:
    async with asyncio.timeout(DEADLINE_S):
        calling = asyncio.create_task(queues.wait_for_delayed(300))
        await asyncio.sleep(0)
        await queues.put_later(hints(1)[0], clock.now())
        await calling
        await queues.put_later(hints(1)[0], clock.now())
        await queues.wait_for_delayed(300)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await queues.wait_for_delayed(300)


async def test_a_delayed_page_keeps_its_reference_when_moved(queues: Queues, clock: ShiftedClock) -> None:
    await queues.put_later(Hint(JOB, "p7", 2, content_ref="jobs/x/original"), clock.now())
    await queues.move_all_due()
    [hint] = await queues.read(UnitKind.PAGE, "one", 1, 0)
    assert (hint.unit, hint.epoch, hint.content_ref) == ("p7", 2, "jobs/x/original")


async def test_entries_go_to_others_when_their_consumer_is_dead(queues: Queues) -> None:
    await queues.put(hints(5))
    taken = await read(queues, "dead", 4)
    await queues.done(taken[0])
    assert len(await queues.take_over(UnitKind.READ, "dead")) == 3
    assert (await queues.consumers(UnitKind.READ))["dead"] == 0
    assert {hint.unit for hint in await read(queues, "alive")} == {"c1-1", "c2-2", "c3-3", "c4-4"}
    await queues.forget_consumer(UnitKind.READ, "dead")
    assert await queues.consumers(UnitKind.READ) == {"alive": 4}


async def test_entries_that_were_lost_on_the_way_are_found_when_asked_for(
    queues: Queues, connection: RedisConnection
) -> None:
    await queues.put(hints(3))
    given = await read(queues, "one")
    assert [hint.entry_id for hint in await queues.in_hand(UnitKind.READ, "one")] == [
        hint.entry_id for hint in given
    ]
    queue = QUEUES[UnitKind.READ]
    await connection.command("XDEL", queue.stream, given[0].entry_id or "")  # done, but the ack was lost
    assert [hint.unit for hint in await queues.in_hand(UnitKind.READ, "one")] == ["c1-1", "c2-2"]
    assert (await queues.consumers(UnitKind.READ))["one"] == 2


async def test_dead_letters_are_trimmed_when_there_are_too_many(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quire.coordination.streams._DEAD_LETTERS_KEPT", 100)
    for hint in hints(300):
        await queues.add_dead_letter(hint, f"reason {hint.unit}")
    depth = await queues.depth(UnitKind.READ)
    assert 100 <= depth["dead"] <= 220  # trimmed by whole nodes of the stream
    newest = await queues.dead_letters(UnitKind.READ, 2)
    assert [letter.unit for letter in newest] == ["c299-299", "c298-298"]
    assert newest[0].reason == "reason c299-299"


async def test_a_dead_letter_goes_when_it_is_taken_out(queues: Queues) -> None:
    await queues.add_dead_letter(hints(1)[0], "why")
    [letter] = await queues.dead_letters(UnitKind.READ)
    assert await queues.dead_letter(UnitKind.READ, letter.entry_id) == letter
    await queues.remove_dead_letter(letter)
    assert await queues.dead_letter(UnitKind.READ, letter.entry_id) is None


def of_priority(priority: JobPriority, count: int) -> list[Hint]:
    return [Hint(JOB, f"c{n}-{n}", 1, priority=priority) for n in range(count)]


async def test_every_priority_gets_its_share_when_all_of_them_wait(queues: Queues) -> None:
    for priority in JobPriority:
        await queues.put(of_priority(priority, 60))
    shares, read_so_far = PriorityShares(), Counter[JobPriority]()
    for _ in range(50):
        [hint] = await queues.read_shares(UnitKind.READ, "one", shares.next(1))
        read_so_far[hint.priority] += 1
        await queues.done(hint)
    assert read_so_far == {JobPriority.HIGH: 30, JobPriority.NORMAL: 15, JobPriority.LOW: 5}
    assert (await queues.depth(UnitKind.READ))["waiting"] == 130


async def test_a_share_goes_to_the_others_when_its_priority_has_nothing_waiting(queues: Queues) -> None:
    await queues.put(of_priority(JobPriority.LOW, 6))
    await queues.put(of_priority(JobPriority.NORMAL, 2))
    found = await queues.read_shares(UnitKind.READ, "one", PriorityShares().next(5))
    assert Counter(hint.priority for hint in found) == {JobPriority.NORMAL: 2, JobPriority.LOW: 3}
    assert len(await queues.read_shares(UnitKind.READ, "one", PriorityShares().next(9))) == 3
    assert await queues.read_shares(UnitKind.READ, "one", PriorityShares().next(9)) == []
    assert len(await queues.in_hand(UnitKind.READ, "one")) == 8


async def test_entries_of_low_priority_are_queued_again_when_more_arrive_than_were_asked_for(
    queues: Queues,
) -> None:
    for priority in JobPriority:
        await queues.put(of_priority(priority, 2))
    found = await queues.read(UnitKind.READ, "one", 2, 0)
    assert [hint.priority for hint in found] == [JobPriority.HIGH] * 2
    assert len(await queues.in_hand(UnitKind.READ, "one")) == 2
    assert (await queues.depth(UnitKind.READ))["waiting"] == 6
    left = await queues.read(UnitKind.READ, "two", 9, 0)
    assert Counter(hint.priority for hint in left) == {JobPriority.NORMAL: 2, JobPriority.LOW: 2}


async def test_entries_keep_their_priority_when_their_consumer_is_dead_or_they_are_delayed(
    queues: Queues, clock: ShiftedClock
) -> None:
    await queues.put(of_priority(JobPriority.HIGH, 1))
    await queues.read(UnitKind.READ, "dead", 1, 0)
    [moved] = await queues.take_over(UnitKind.READ, "dead")
    assert moved.priority is JobPriority.HIGH
    await queues.put_later(of_priority(JobPriority.LOW, 1)[0], clock.now())
    await queues.move_all_due()
    found = await queues.read(UnitKind.READ, "one", 5, 0)
    assert [hint.priority for hint in found] == [JobPriority.HIGH, JobPriority.LOW]


async def test_normal_entries_are_in_the_stream_of_the_protocol_when_others_have_priority(
    queues: Queues, connection: RedisConnection
) -> None:
    await queues.put([Hint(JOB, "p1", 1), Hint(JOB, "p2", 1, priority=JobPriority.HIGH)])
    rows = await connection.command("XRANGE", "jobs:ai:pages", "-", "+")
    assert [dict(zip(row[1][::2], row[1][1::2], strict=True))["unit"] for row in rows] == ["p1"]


async def test_how_far_a_stream_was_delivered_is_known_when_entries_wait(queues: Queues) -> None:
    assert await queues.delivered_until(UnitKind.READ, JobPriority.NORMAL) == math.inf
    await queues.put(hints(2))
    assert await queues.delivered_until(UnitKind.READ, JobPriority.NORMAL) == 0
    [first] = await read(queues, "one", 1)
    at_ms = int((first.entry_id or "").partition("-")[0])
    assert await queues.delivered_until(UnitKind.READ, JobPriority.NORMAL) == at_ms / 1000
    await read(queues, "one", 1)
    assert await queues.delivered_until(UnitKind.READ, JobPriority.NORMAL) == math.inf


async def test_a_consumer_stays_when_it_has_read_again_before_it_is_forgotten(queues: Queues) -> None:
    await queues.put(hints(1))
    [hint] = await read(queues, "one")
    await queues.forget_consumer(UnitKind.READ, "one")
    assert [one.unit for one in await queues.in_hand(UnitKind.READ, "one")] == [hint.unit]
    await queues.done(hint)
    await queues.forget_consumer(UnitKind.READ, "one")
    assert await queues.consumers(UnitKind.READ) == {}


async def test_a_unit_is_counted_once_when_it_is_delayed_and_when_its_time_has_come(
    queues: Queues, connection: RedisConnection, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The depth is read after each round trip, as another process may."""
    depths: list[int] = []
    send = connection.commands

    async def observed(commands: Iterable[tuple[Any, ...]]) -> list[Any]:
        answers = await send(commands)
        stream = await connection.command("XLEN", QUEUES[UnitKind.PAGE].stream)
        depths.append(int(stream) + int(await connection.command("ZCARD", QUEUES[UnitKind.PAGE].delayed)))
        return answers

    await queues.put([Hint("job", "p1", 1)])
    [entry] = await queues.read_shares(UnitKind.PAGE, "worker", {JobPriority.NORMAL: 1})
    monkeypatch.setattr(connection, "commands", observed)
    await queues.put_later(entry, clock.now() + 60)
    clock.shift_s += 61
    await queues.move_all_due()
    assert set(depths) == {1}
    assert len(await queues.read_shares(UnitKind.PAGE, "worker", {JobPriority.NORMAL: 5})) == 1
