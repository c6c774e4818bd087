"""The same jobs on a cluster, where every script must stay within one slot."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import Claim, NewJob, PageOutcome
from quire.coordination.job_store import JobStore
from quire.coordination.liveness import Workers
from quire.coordination.streams import Hint, Queues
from quire.domain.job import JobOptions, JobStatus, PageRecord, UnitKind, new_job_id
from quire.domain.page import PageSource
from tests.support.clocks import ShiftedClock
from tests.support.coordination_servers import cluster
from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.running import at_rest, convert, markdown, quire
from tests.support.waiting import DEADLINE_S


@pytest.fixture(scope="module")
def cluster_url() -> Iterator[str]:
    with cluster() as url:
        yield url


async def test_a_job_goes_through_all_its_states_when_on_a_cluster(cluster_url: str) -> None:
    connection, clock = RedisConnection.open(cluster_url), ShiftedClock()
    queues = Queues(connection, clock)
    jobs = JobStore(connection, queues, clock, ttl_s=3600)
    try:
        await queues.ensure_groups(UnitKind)
        job_id = new_job_id()
        new = NewJob(
            job_id, "team", JobOptions(), {"kind": "upload"}, "a.pdf", content_ref=f"jobs/{job_id}/o"
        )
        assert await jobs.create(new) is None
        assert (await jobs.create(new)) is not None

        async def claim(kind: UnitKind) -> Claim:
            [hint] = await queues.read(kind, "worker", 1, 0)
            taken = await jobs.claim(hint, "worker", f"token-{hint.unit}")
            assert isinstance(taken, Claim)
            await queues.done(hint)
            return taken

        await jobs.split_done(await claim(UnitKind.SPLIT), 3, 2, 2, {"ranges": "1-3"})
        chunk = await claim(UnitKind.READ)
        assert await jobs.lost.check_claims([chunk]) == [True]
        done = PageRecord(1, JobStatus.COMPLETED, source=PageSource.LOCAL, ref="o")
        assert (
            await jobs.pages_done(chunk, [PageOutcome(done), PageOutcome(PageRecord(2, JobStatus.QUEUED))])
            == 2
        )
        page = await claim(UnitKind.PAGE)
        assert await jobs.park(page, clock.now(), failed=True)
        assert await queues.move_all_due() == math.inf
        page = await claim(UnitKind.PAGE)
        assert page.failures == 1
        await jobs.pages_done(page, [PageOutcome(PageRecord(2, JobStatus.COMPLETED, ref="o"))])
        last = await claim(UnitKind.READ)
        await jobs.pages_done(last, [PageOutcome(PageRecord(3, JobStatus.FAILED))])
        assert await jobs.merged(await claim(UnitKind.MERGE), {"key": "k", "pages_key": "p", "metadata": {}})
        job = await jobs.get(job_id)
        assert job is not None
        assert (job.status, job.pages_completed, job.pages_failed) == (JobStatus.COMPLETED, 2, 1)
        assert [one.id for one in await jobs.newest("team", 10, None)] == [job_id]
        assert await connection.command("ZCARD", keys.ACTIVE) == await jobs.count_unfinished() == 0
    finally:
        await connection.close()


async def test_entries_of_the_dead_are_taken_over_when_on_a_cluster(cluster_url: str) -> None:
    connection, clock = RedisConnection.open(cluster_url), ShiftedClock()
    queues, workers = Queues(connection, clock), Workers(connection, clock, ttl_s=60)
    try:
        await queues.ensure_groups(UnitKind)
        job_id = new_job_id()
        jobs = JobStore(connection, queues, clock, ttl_s=3600)
        await jobs.create(
            NewJob(job_id, "other", JobOptions(), {"kind": "upload"}, "a.pdf", content_ref="jobs/x/o")
        )
        assert len(await queues.read(UnitKind.SPLIT, "dead", 1, 0)) == 1
        assert len(await queues.take_over(UnitKind.SPLIT, "dead")) == 1
        await queues.forget_consumer(UnitKind.SPLIT, "dead")
        assert "dead" not in await queues.consumers(UnitKind.SPLIT)
        [hint] = await queues.read(UnitKind.SPLIT, "alive", 1, 0)
        assert hint.job_id == job_id
        await queues.done(hint)
        await jobs.cancel(job_id)
        assert await workers.hold_housekeeping("a.1.2.n", 60)
        assert not await workers.hold_housekeeping("b.1.2.n", 60)
        await workers.release_housekeeping("a.1.2.n")
    finally:
        await connection.close()


async def test_who_waits_is_woken_when_the_subscription_is_the_first_thing_asked_of_a_cluster(
    cluster_url: str,
) -> None:
    connection = RedisConnection.open(cluster_url)
    channel = keys.JobKeys.of("a-job").events
    try:
        async with connection.subscription() as pubsub:
            await pubsub.subscribe(channel)
            await connection.command("PUBLISH", channel, "1-1")
            async with asyncio.timeout(DEADLINE_S):
                while (message := await pubsub.get_message(timeout=1)) is None or message[
                    "type"
                ] != "message":
                    continue
        assert message["channel"] == channel
    finally:
        await connection.close()


async def test_a_document_is_converted_when_everything_runs_on_a_cluster(
    cluster_url: str, tmp_path: Path
) -> None:
    document = marked_pdf(tmp_path / "a.pdf", 40, seed=5)
    async with quire(tmp_path, REDIS_URL=cluster_url) as one:
        job = await convert(one, document)
        assert job.status is JobStatus.COMPLETED
        assert markers_in(await markdown(one, job)) == [marker(5, number) for number in range(1, 41)]
        await at_rest(one)


async def test_a_waiting_worker_is_woken_when_on_a_cluster(
    cluster_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quire.coordination.work_signals._READ_ANYWAY_S", 100 * DEADLINE_S)
    connection, clock = RedisConnection.open(cluster_url), ShiftedClock()
    queues = Queues(connection, clock)
    signals = queues.signals("worker")
    listening = asyncio.create_task(signals.run())
    try:
        async with asyncio.timeout(DEADLINE_S):
            waits = [asyncio.create_task(signals.wait(kind)) for kind in (UnitKind.MERGE, UnitKind.READ)]
            await queues.put([Hint(new_job_id(), "merge", 1), Hint(new_job_id(), "c0-1", 1)])
            await asyncio.gather(*waits)
    finally:
        listening.cancel()
        await connection.close()
