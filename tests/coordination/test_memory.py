"""What finished jobs leave in Redis: little, the same for short and long documents, and only for a time."""

from __future__ import annotations

from pathlib import Path

from quire.bootstrap import Runtime
from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import NewJob
from quire.coordination.job_store import JobStore
from quire.coordination.keys import QUEUES
from quire.coordination.streams import Queues
from quire.domain.job import JobOptions, JobStatus, UnitKind, new_job_id
from tests.support.clocks import ShiftedClock
from tests.support.marked_documents import marked_pdf
from tests.support.running import at_rest, convert, quire, upload

_BOUNDED = {keys.ACTIVE, keys.ORDER, keys.EXPIRY, keys.WORKERS, *map(keys.work_signal, UnitKind)} | {
    name for queue in QUEUES.values() for name in (*queue.streams, queue.delayed, queue.dlq)
}
"""Without a TTL, but trimmed (streams), of at most eight members (signals), or emptied as jobs end (sorted sets)."""


async def all_keys(connection: RedisConnection) -> list[str]:
    found: list[str] = []
    cursor = "0"
    while True:
        cursor, some = await connection.command("SCAN", cursor, "COUNT", 1000)
        found += some
        if str(cursor) == "0":
            return sorted(found)


async def lasting(connection: RedisConnection) -> list[str]:
    names = await all_keys(connection)
    lives = await connection.commands([("PTTL", name) for name in names])
    return [name for name, life in zip(names, lives, strict=True) if life == -1]


async def job_bytes(one: Runtime, job_id: str) -> tuple[int, int]:
    """How many keys the job has, and how many bytes they take."""
    names = [name for name in await all_keys(one.connection) if job_id in name]
    sizes = await one.connection.commands([("MEMORY", "USAGE", name) for name in names])
    return len(names), sum(sizes)


async def test_every_key_goes_or_is_bounded_when_jobs_are_over(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        done = await convert(one, marked_pdf(tmp_path / "a.pdf", 20))
        failed = await convert(one, b"%PDF-1.7 nothing else")
        assert (done.status, failed.status) == (JobStatus.COMPLETED, JobStatus.FAILED)
        await at_rest(one)
        assert set(await lasting(one.connection)) <= _BOUNDED
        # A retry brings keys back, and takes them away again.
        assert await one.engine.retry(done, f"{done.id}-p3") == "started"
        await at_rest(one)
        assert set(await lasting(one.connection)) <= _BOUNDED


async def test_every_key_goes_or_is_bounded_when_a_job_is_running_or_cancelled(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 3))
        assert set(await lasting(one.connection)) <= _BOUNDED
        job = await one.engine.job("team", accepted.job_id)
        await one.engine.cancel(job)
        # Long after its end its events are gone; a retry makes them anew.
        await one.connection.command("DEL", keys.JobKeys.of(job.id).events)
        job = await one.engine.job("team", accepted.job_id)
        assert await one.engine.retry(job, job.id) == "started"
        assert set(await lasting(one.connection)) <= _BOUNDED


async def test_a_long_document_leaves_as_little_as_a_short_one_when_finished(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        short = await convert(one, marked_pdf(tmp_path / "short.pdf", 3))
        long = await convert(one, marked_pdf(tmp_path / "long.pdf", 300))
        await at_rest(one)
        short_keys, short_bytes = await job_bytes(one, short.id)
        long_keys, long_bytes = await job_bytes(one, long.id)
        assert short_keys == long_keys <= 3
        assert abs(long_bytes - short_bytes) < 500
        assert long_bytes < 16_000  # what the allocator rounds up to differs from run to run


async def test_the_index_of_a_team_is_trimmed_when_its_jobs_are_old(connection: RedisConnection) -> None:
    clock = ShiftedClock()
    jobs = JobStore(connection, Queues(connection, clock), clock, ttl_s=60)
    new = [
        NewJob(new_job_id(), "team", JobOptions(), {"kind": "upload"}, "", content_ref="o") for _ in range(3)
    ]
    await jobs.create(new[0])
    clock.shift_s += 61
    await jobs.create(new[1])
    await jobs.create(new[2])
    found = await connection.command("ZRANGE", keys.index("team"), 0, -1)
    assert set(found) == {new[1].id, new[2].id}


async def test_a_retried_job_is_looked_after_when_the_end_before_it_is_noticed_late(
    connection: RedisConnection, queues: Queues, clock: ShiftedClock
) -> None:
    """Whoever ended the job takes it off the list a moment later; by then somebody may have retried it."""
    jobs = JobStore(connection, queues, clock, ttl_s=3600)
    new = NewJob(new_job_id(), "team", JobOptions(), {"kind": "upload"}, "", content_ref="o")
    await jobs.create(new)
    clock.shift_s += 1
    over_at = clock.now()
    await jobs.cancel(new.id)
    assert await connection.command("ZCARD", keys.ACTIVE) == await jobs.count_unfinished() == 0
    clock.shift_s += 1
    job = await jobs.get(new.id)
    assert job is not None
    assert await jobs.retry(job, "all", first="split") == "started"
    await jobs.stop_sweeping(new.id, over_at)
    assert await connection.command("ZCARD", keys.ACTIVE) == await jobs.count_unfinished() == 1
