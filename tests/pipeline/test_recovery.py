"""Redis loses jobs; the object plane has a journal of them, from which they are found again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quire.bootstrap import Runtime
from quire.coordination import keys
from quire.domain.job import JobStatus, MainJob, UnitKind
from quire.pipeline.upkeep.job_journal import JobRecovery, RecoveryReport, write_finished
from tests.support.marked_documents import marked_pdf
from tests.support.running import TEAM, convert, job_of, markdown, over, quire, upload
from tests.support.waiting import until


async def recover(one: Runtime, *, dry_run: bool = False) -> RecoveryReport:
    return await JobRecovery(one.parts, one.connection).run(dry_run=dry_run, check_results=True)


async def lose_everything(one: Runtime) -> None:
    await one.connection.command("FLUSHALL")
    await one.parts.queues.ensure_groups(UnitKind)


async def finished(one: Runtime, document: Path | bytes) -> MainJob:
    """A converted document whose end is in the journal."""
    job = await convert(one, document)

    async def is_journaled() -> bool:
        return await one.parts.objects.size(f"jobs/{job.id}/finished.json") is not None

    await until(is_journaled, "the end is in the journal")
    return job


async def test_finished_jobs_are_found_again_when_redis_has_lost_them(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await finished(one, marked_pdf(tmp_path / "a.pdf", 3).read_bytes())
        text = await markdown(one, job)
    async with quire(tmp_path, kinds=None) as one:
        await lose_everything(one)
        assert (await recover(one, dry_run=True)).finished == 1
        assert await one.engine.newest(TEAM, 10, None) == []
        report = await recover(one)
        assert (report.finished, report.restarted, report.unreadable) == (1, 0, 0)
        assert [found.id for found in await one.engine.newest(TEAM, 10, None)] == [job.id]
        again = await job_of(one, job.id)
        assert (again.status, again.total_pages) == (JobStatus.COMPLETED, 3)
        assert await markdown(one, again) == text
        assert (await recover(one)).is_clean


async def test_accepted_jobs_are_started_again_when_redis_has_lost_them(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as idle:
        accepted = await upload(idle, marked_pdf(tmp_path / "a.pdf", 2).read_bytes())
        await lose_everything(idle)
        assert (await recover(idle)).restarted == 1
    async with quire(tmp_path) as one:
        job = await over(one, accepted.job_id)
        assert (job.status, job.pages_completed) == (JobStatus.COMPLETED, 2)


async def test_cancelled_jobs_stay_cancelled_when_they_are_found_again(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as idle:
        accepted = await upload(idle, marked_pdf(tmp_path / "a.pdf", 2).read_bytes())
        await idle.engine.cancel(await job_of(idle, accepted.job_id))
        await lose_everything(idle)
        assert (await recover(idle)).finished == 1
        assert (await job_of(idle, accepted.job_id)).status is JobStatus.CANCELLED


async def test_a_job_starts_again_when_the_journal_has_an_end_of_a_run_that_goes_on(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as idle:
        job_id = (await upload(idle, marked_pdf(tmp_path / "a.pdf", 2).read_bytes())).job_id
        await write_finished(idle.parts, job_id)
        key = f"jobs/{job_id}/finished.json"
        assert await idle.parts.objects.size(key) is None, "it has not ended"
        await idle.parts.objects.put(key, json.dumps(await idle.parts.jobs.fields(job_id)).encode())
        await lose_everything(idle)
        report = await recover(idle)
        assert (report.restarted, report.finished, report.expired) == (1, 0, 0)
        assert (await job_of(idle, job_id)).status is JobStatus.QUEUED


async def test_the_journal_has_the_last_end_when_an_earlier_one_was_written_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with quire(tmp_path, kinds=None) as idle:
        job_id = (await upload(idle, marked_pdf(tmp_path / "a.pdf", 2).read_bytes())).job_id
        await idle.parts.jobs.cancel(job_id)
        key, real, stalled = f"jobs/{job_id}/finished.json", idle.parts.objects.put, False

        async def put(name: str, data: bytes) -> None:
            nonlocal stalled
            if name == key and not stalled:
                stalled = True
                assert await idle.engine.retry(await job_of(idle, job_id), job_id) == "started"
                await idle.engine.cancel(await job_of(idle, job_id))
            await real(name, data)

        monkeypatch.setattr(idle.parts.objects, "put", put)
        await write_finished(idle.parts, job_id)
        assert json.loads(await idle.parts.objects.get(key))["epoch"] == "2"


async def test_a_job_starts_again_when_it_was_retried_before_redis_lost_it(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as idle:
        job_id = (await upload(idle, marked_pdf(tmp_path / "a.pdf", 2).read_bytes())).job_id
        await idle.engine.cancel(await job_of(idle, job_id))
        cancelled = await job_of(idle, job_id)
        assert await idle.parts.objects.size(f"jobs/{job_id}/finished.json") is not None
        assert await idle.engine.retry(cancelled, job_id, key="k1") == "started"
        await idle.engine.cancel(await job_of(idle, job_id))
        assert await idle.engine.retry(await job_of(idle, job_id), job_id, key="k1") == "repeated"
        assert await idle.parts.objects.size(f"jobs/{job_id}/finished.json") is not None, "it ended again"
        assert await idle.engine.retry(await job_of(idle, job_id), job_id, key="k2") == "started"
        await lose_everything(idle)
        report = await recover(idle)
        assert (report.restarted, report.finished) == (1, 0)


async def test_missing_result_is_counted_when_its_object_is_gone(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await finished(one, marked_pdf(tmp_path / "a.pdf", 1).read_bytes())
        assert (await recover(one)).is_clean
        await one.parts.objects.delete((job.result or {})["key"])
        assert (await recover(one)).unreadable == 1


async def test_jobs_are_there_at_once_when_the_queues_file_was_torn(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await finished(one, marked_pdf(tmp_path / "a.pdf", 1).read_bytes())
    (log,) = (tmp_path / "data" / "coordination" / "appendonlydir").glob("*.incr.aof")
    log.write_bytes(bytes(4096))  # nothing of it is left
    async with quire(tmp_path) as one:
        assert (await over(one, job.id)).status is JobStatus.COMPLETED


async def test_job_does_not_count_as_waiting_when_it_ended_while_the_journal_was_read(tmp_path: Path) -> None:
    """The journal still says that it runs, so the sweeper is to look at it; a new document has room meanwhile."""
    async with quire(tmp_path, kinds=None) as idle:
        accepted = await upload(idle, marked_pdf(tmp_path / "a.pdf", 1).read_bytes())
        await idle.parts.jobs.cancel(accepted.job_id)
        await recover(idle)
        assert await idle.connection.command("ZCARD", keys.ACTIVE) == 1
        assert await idle.parts.jobs.count_unfinished() == 0
