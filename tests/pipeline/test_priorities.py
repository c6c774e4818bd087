"""Priority, the age limit of waiting jobs, their position, and one queue entry for each unit."""

from __future__ import annotations

from pathlib import Path

from quire.bootstrap import Runtime
from quire.coordination.housekeeping_records import HousekeepingRecords
from quire.coordination.keys import JobKeys
from quire.domain.job import JobPriority, JobStatus, UnitKind
from quire.pipeline.upkeep.housekeeper import Housekeeper
from tests.support.clocks import ShiftedClock
from tests.support.marked_documents import marked_pdf
from tests.support.running import at_rest, job_of, over, quire, upload
from tests.support.waiting import until


async def test_a_document_of_high_priority_is_read_first_when_many_wait(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as idle:
        normal = [
            (await upload(idle, marked_pdf(tmp_path / f"{n}.pdf", 1, seed=n))).job_id for n in range(40)
        ]
        low = await upload(idle, marked_pdf(tmp_path / "low.pdf", 1, seed=98), priority=JobPriority.LOW)
        high = await upload(idle, marked_pdf(tmp_path / "high.pdf", 1, seed=99), priority=JobPriority.HIGH)
    async with quire(tmp_path) as one:
        done = [await over(one, job_id) for job_id in (*normal, low.job_id, high.job_id)]
        assert {job.status for job in done} == {JobStatus.COMPLETED}
        ends = {job.id: job.completed_at or 0.0 for job in done}
        assert sum(ends[one_id] < ends[high.job_id] for one_id in normal) < 20
        await at_rest(one)


async def test_priority_makes_no_second_job_when_the_same_document_comes_again(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        document = marked_pdf(tmp_path / "a.pdf", 1)
        first = await upload(one, document)
        again = await upload(one, document, priority=JobPriority.HIGH)
        assert (again.job_id, again.deduplicated) == (first.job_id, True)


def _housekeeper(one: Runtime, clock: ShiftedClock) -> Housekeeper:
    return Housekeeper(one.parts, HousekeepingRecords(one.connection, clock), "test")


async def test_a_backlog_has_one_entry_for_each_unit_when_it_waits_long(tmp_path: Path) -> None:
    clock = ShiftedClock()
    async with quire(tmp_path, kinds=None, clock=clock) as idle:
        for n in range(12):
            await upload(idle, marked_pdf(tmp_path / f"{n}.pdf", 1, seed=n))
        housekeeper = _housekeeper(idle, clock)
        for _ in range(5):
            clock.shift_s += 60
            await housekeeper._round()
        assert (await idle.parts.queues.depth(UnitKind.SPLIT))["waiting"] == 12


async def test_a_unit_is_queued_again_once_when_its_entry_was_lost(tmp_path: Path) -> None:
    clock = ShiftedClock()
    async with quire(tmp_path, kinds=None, clock=clock) as idle:
        accepted = await upload(idle, marked_pdf(tmp_path / "a.pdf", 1))
        await idle.connection.command("XTRIM", "jobs:split", "MAXLEN", 0)
        await idle.parts.queues.ensure_groups(UnitKind)
        housekeeper = _housekeeper(idle, clock)
        for _ in range(4):
            clock.shift_s += 60
            await housekeeper._round()
        assert (await idle.parts.queues.depth(UnitKind.SPLIT))["waiting"] == 1
    async with quire(tmp_path) as one:
        assert (await over(one, accepted.job_id)).status is JobStatus.COMPLETED


async def test_a_unit_of_a_dead_worker_has_one_entry_when_it_is_taken_over(tmp_path: Path) -> None:
    clock = ShiftedClock()
    async with quire(tmp_path, kinds=None, clock=clock) as idle:
        await upload(idle, marked_pdf(tmp_path / "a.pdf", 1))
        await upload(idle, marked_pdf(tmp_path / "b.pdf", 1, seed=2))
        await idle.parts.queues.ensure_groups(UnitKind)
        [hint] = await idle.parts.queues.read(UnitKind.SPLIT, "dead", 1, 0)
        await idle.parts.jobs.claim(hint, "dead", "token")
        housekeeper = _housekeeper(idle, clock)
        for _ in range(4):
            clock.shift_s += 60
            await housekeeper._round()
        assert (await idle.parts.queues.depth(UnitKind.SPLIT))["waiting"] == 2
        assert await idle.parts.jobs.working(hint.job_id) == {"split": ""}


async def test_a_job_fails_with_a_reason_when_no_worker_starts_it_in_time(tmp_path: Path) -> None:
    clock = ShiftedClock()
    async with quire(tmp_path, kinds=None, clock=clock, JOB_SLA_MAX_AGE="5m") as idle:
        accepted = await upload(idle, marked_pdf(tmp_path / "a.pdf", 1))
        clock.shift_s += 290
        await _housekeeper(idle, clock)._round()
        assert (await job_of(idle, accepted.job_id)).status is JobStatus.QUEUED
        clock.shift_s += 20
        job = await over(idle, accepted.job_id)
        assert (job.status, (job.error or {})["code"]) == (JobStatus.FAILED, "not_started")
        assert "JOB_SLA_MAX_AGE" in (job.error or {})["error"]
        assert "No worker is running" in (job.error or {})["error"]
        # A retry starts a new wait.
        assert await idle.engine.retry(job, job.id) == "started"
        await _housekeeper(idle, clock)._round()
        assert (await job_of(idle, accepted.job_id)).status is JobStatus.QUEUED
    async with quire(tmp_path, JOB_SLA_MAX_AGE="5m") as one:
        assert (await over(one, accepted.job_id)).status is JobStatus.COMPLETED


async def test_the_position_moves_up_when_documents_ahead_end_or_are_cancelled(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as idle:
        jobs = [
            await job_of(idle, (await upload(idle, marked_pdf(tmp_path / f"{n}.pdf", 1, seed=n))).job_id)
            for n in range(4)
        ]
        assert [await idle.engine.position(job) for job in jobs] == [1, 2, 3, 4]
        await idle.engine.cancel(jobs[0])
        await idle.engine.cancel(jobs[2])
        assert await idle.engine.position(jobs[3]) == 2
        assert await idle.engine.retry(await job_of(idle, jobs[0].id), jobs[0].id) == "started"
        assert await idle.engine.position(await job_of(idle, jobs[0].id)) == 3
    async with quire(tmp_path) as one:
        await at_rest(one)
        assert await one.connection.command("ZCARD", "jobs:order") == 0


async def test_the_position_is_mended_when_the_process_died_after_the_end_of_a_job(tmp_path: Path) -> None:
    clock = ShiftedClock()
    async with quire(tmp_path, kinds=None, clock=clock) as idle:
        accepted = await upload(idle, marked_pdf(tmp_path / "a.pdf", 1))
        await idle.parts.jobs._run("end", accepted.job_id, "cancelled", 1, 60_000, "", "", 0, "")
        assert await idle.parts.jobs.order.position(accepted.job_id) == 1
        clock.shift_s += 60

        async def left() -> bool:
            return await idle.parts.jobs.order.position(accepted.job_id) is None

        await until(left, "the sweeper has removed it")
        assert await idle.connection.command("EXISTS", JobKeys.of(accepted.job_id).work) == 0
