"""Events: whoever waits is woken, whoever comes back goes on where it was."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from quire.coordination import job_events
from quire.coordination.connection import RedisConnection
from quire.coordination.job_events import Events, JobEvent
from quire.coordination.job_records import NewJob
from quire.coordination.job_store import JobStore
from quire.coordination.keys import JobKeys
from quire.coordination.streams import Queues
from quire.domain.job import JobOptions, new_job_id
from tests.support.clocks import ShiftedClock
from tests.support.waiting import DEADLINE_S, until


@pytest.fixture
def jobs(connection: RedisConnection, queues: Queues, clock: ShiftedClock) -> JobStore:
    return JobStore(connection, queues, clock, ttl_s=86_400)


@pytest.fixture
async def events(connection: RedisConnection) -> AsyncIterator[Events]:
    found = Events(connection)
    running = asyncio.create_task(found.run())
    yield found
    running.cancel()
    await asyncio.wait({running}, timeout=DEADLINE_S)
    assert running.cancelled(), "the subscription goes on after it was cancelled"


async def make(jobs: JobStore) -> str:
    job_id = new_job_id()
    await jobs.create(
        NewJob(job_id, "team", JobOptions(), {"kind": "upload"}, "a.pdf", content_ref="jobs/x/o")
    )
    return job_id


async def add(connection: RedisConnection, job_id: str, number: int) -> None:
    await connection.command("XADD", JobKeys.of(job_id).events, "*", "t", "pages", "d", f'{{"n":{number}}}')


async def subscribers(connection: RedisConnection, channel: str) -> int:
    answer = await connection.command("PUBSUB", "NUMSUB", channel)
    return int(answer[1] if isinstance(answer[0], str) else answer[0][1])


def numbers(found: list[JobEvent]) -> list[int]:
    return [event.data["n"] for event in found if event.type == "pages"]


async def test_events_go_on_after_the_last_one_seen_when_resumed(
    events: Events, jobs: JobStore, connection: RedisConnection
) -> None:
    job_id = await make(jobs)
    for number in range(6):
        await add(connection, job_id, number)
    everything, missed = await events.after(job_id, "")
    assert (everything[0].type, numbers(everything), missed) == ("status", [0, 1, 2, 3, 4, 5], False)
    rest, missed = await events.after(job_id, everything[3].id)
    assert (numbers(rest), missed) == ([3, 4, 5], False)
    assert await events.after(job_id, everything[-1].id) == ([], False)


async def test_events_are_known_to_be_missing_when_the_history_was_trimmed(
    events: Events, jobs: JobStore, connection: RedisConnection
) -> None:
    job_id = await make(jobs)
    for number in range(6):
        await add(connection, job_id, number)
    everything, _ = await events.after(job_id, "")
    await connection.command("XTRIM", JobKeys.of(job_id).events, "MAXLEN", 2)
    rest, missed = await events.after(job_id, everything[1].id)
    assert (numbers(rest), missed) == ([4, 5], True)
    _, missed = await events.after(job_id, everything[-1].id)
    assert not missed
    await connection.command("DEL", JobKeys.of(job_id).events)
    assert await events.after(job_id, everything[-1].id) == ([], True)


async def test_a_waiter_is_woken_when_its_job_changes(
    events: Events, jobs: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the fallback wake-up out of reach, so that only the subscription can do it."""
    monkeypatch.setattr("quire.coordination.job_events._WAKE_ANYWAY_S", 3600.0)
    job_id, other_id = await make(jobs), await make(jobs)
    async with asyncio.timeout(DEADLINE_S), events.waiter(job_id) as waiter, events.waiter(other_id) as other:
        await waiter.wait(3600)  # once the subscription stands: something may have happened before it did
        await other.wait(3600)
        waiting = asyncio.create_task(waiter.wait(3600))
        waiting_elsewhere = asyncio.create_task(other.wait(3600))
        await jobs.cancel(job_id)
        await waiting
        assert not waiting_elsewhere.done()
        await jobs.cancel(other_id)
        await waiting_elsewhere


async def test_a_waiter_is_woken_when_the_subscription_was_cut(
    events: Events, jobs: JobStore, connection: RedisConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quire.coordination.job_events._WAKE_ANYWAY_S", 3600.0)
    job_id = await make(jobs)
    async with asyncio.timeout(DEADLINE_S), events.waiter(job_id) as waiter:
        await waiter.wait(3600)
        channel = JobKeys.of(job_id).events
        assert await subscribers(connection, channel) == 1
        await connection.command("CLIENT", "KILL", "TYPE", "pubsub")
        while not await subscribers(connection, channel):  # noqa: ASYNC110 - the server announces nothing
            await asyncio.sleep(0.01)
        changed = asyncio.create_task(waiter.wait(3600))
        await jobs.cancel(job_id)
        await changed


async def test_the_subscription_stops_when_cancelled_in_the_middle_of_a_message(
    connection: RedisConnection, jobs: JobStore
) -> None:
    """Cancelled at every step of handling one, it must never swallow that."""
    job_id = await make(jobs)
    for steps in range(12):
        events = Events(connection)
        running = asyncio.create_task(events.run())
        async with asyncio.timeout(DEADLINE_S):
            async with events.waiter(job_id) as waiter:
                await waiter.wait(DEADLINE_S)
                for _ in range(3):
                    await asyncio.sleep(0)
            for _ in range(steps):
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait({running})
        assert running.cancelled()


async def test_one_read_serves_all_when_hundreds_follow_the_same_job(
    events: Events, jobs: JobStore, connection: RedisConnection
) -> None:
    job_id = await make(jobs)
    last = (await events.after(job_id, ""))[0][-1].id
    await add(connection, job_id, 7)
    await connection.command("CONFIG", "RESETSTAT")
    found = await asyncio.gather(*(events.after(job_id, last) for _ in range(300)))
    assert all(numbers(some) == [7] for some, _ in found)
    about = await connection.command("INFO", "commandstats")
    calls = about["cmdstat_xrange"]["calls"] if isinstance(about, dict) else _calls(str(about))
    assert calls == 2


def _calls(about: str) -> int:
    (line,) = (one for one in about.splitlines() if one.startswith("cmdstat_xrange:"))
    return int(line.partition("calls=")[2].partition(",")[0])


async def test_every_waiter_is_woken_when_there_are_more_than_are_woken_at_once(
    events: Events, jobs: JobStore, connection: RedisConnection
) -> None:
    job_id = await make(jobs)
    channel = JobKeys.of(job_id).events

    async def follow() -> list[int]:
        async with events.waiter(job_id) as waiter:
            last = ""
            while True:
                found, _ = await events.after(job_id, last)
                if numbers(found):
                    return numbers(found)
                last = found[-1].id if found else last
                await waiter.wait(DEADLINE_S)

    following = [asyncio.create_task(follow()) for _ in range(230)]

    async def is_subscribed() -> bool:
        return await subscribers(connection, channel) > 0

    await until(is_subscribed)
    await add(connection, job_id, 1)
    await connection.command("PUBLISH", channel, "1")
    async with asyncio.timeout(DEADLINE_S):
        assert await asyncio.gather(*following) == [[1]] * 230


async def test_other_work_is_done_between_waiters_when_thousands_are_woken() -> None:
    """2,000 followers that were woken in one turn of the event loop once stopped all others for seconds."""
    flags = [asyncio.Event() for _ in range(2000)]
    job_events._set_some(flags)
    woken = [sum(flag.is_set() for flag in flags)]
    async with asyncio.timeout(DEADLINE_S):
        while woken[-1] < len(flags):
            await asyncio.sleep(0)
            woken.append(sum(flag.is_set() for flag in flags))
    steps = {later - earlier for earlier, later in itertools.pairwise([0, *woken])}
    assert max(steps) == job_events._WOKEN_AT_ONCE
