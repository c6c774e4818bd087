"""Cancelled, or out of time: work in hand stops at once, and what is there is used."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from quire.bootstrap import Runtime
from quire.coordination.job_records import Claim
from quire.coordination.keys import JobKeys
from quire.domain.job import JobOptions, JobStatus, MainJob, UnitKind
from quire.domain.page import PageSource
from quire.pipeline.intake.upload_intake import Submission
from quire.pipeline.parts import Parts
from quire.pipeline.stages.read_stage import PageReader
from quire.pipeline.worker import STAGES
from tests.support.clocks import ShiftedClock
from tests.support.environment import ROOT
from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.running import (
    TEAM,
    at_rest,
    convert,
    job_of,
    left_in_queues,
    markdown,
    over,
    pages,
    quire,
    uncaged,
    upload,
    worker,
)
from tests.support.waiting import DEADLINE_S, until

from . import breaking

READ_CHUNK = "quire.reading.local_reader.read_chunk"
RECOGNISE = "quire.reading.local_reader.recognise_page"
SAMPLES = ROOT / "samples"


def sleeping(document: Path) -> list[int]:
    """The children that sleep over the document for ever."""
    return [int(path.suffixes[-2][1:]) for path in document.parent.glob(f"{document.name}.*.pid")]


def running(pids: list[int]) -> list[int]:
    return [
        pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    ]


async def begin(one: Runtime, document: Path, timeout_s: float | None = None) -> str:
    """Submits a document that is read where it lies, so that its readers leave their marks beside it."""
    options = JobOptions(timeout_s=timeout_s)
    return (await one.engine.intake.accept_path(Submission(TEAM, options), document)).job_id


async def assert_nothing_is_left(one: Runtime, job: MainJob) -> None:
    await at_rest(one)
    assert await one.parts.jobs.working(job.id) == {}
    assert await one.connection.command("EXISTS", JobKeys.of(job.id).work, JobKeys.of(job.id).slow) == 0
    for kind in UnitKind:
        assert not any((await one.parts.queues.consumers(kind)).values())


async def test_children_are_stopped_when_a_running_document_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(READ_CHUNK, breaking.hang_unless_quick)
    document = marked_pdf(tmp_path / "a.pdf", 40)
    async with uncaged(tmp_path, READER_PROCESSES="2", READER_PAGE_TIMEOUT="10m") as one:
        job_id = await begin(one, document)
        await until(lambda: len(sleeping(document)) == 2, "two children at work")
        assert await one.engine.cancel(await job_of(one, job_id)) is JobStatus.CANCELLED
        await until(lambda: not running(sleeping(document)), "the children have ended")
        job = await job_of(one, job_id)
        assert (job.status, job.pages_completed, job.error) == (JobStatus.CANCELLED, 0, None)
        await assert_nothing_is_left(one, job)
        assert {page.status for page in await one.engine.pages(job)} == {JobStatus.CANCELLED}
        # The worker is as good as before.
        monkeypatch.undo()
        assert (await convert(one, marked_pdf(tmp_path / "b.pdf", 2))).status is JobStatus.COMPLETED


async def test_a_late_result_only_counts_as_late_when_the_job_was_cancelled(tmp_path: Path) -> None:
    gate, inside = asyncio.Event(), asyncio.Event()

    async def read_when_told(claim: Claim, parts: Parts) -> None:
        claim.outcome_write.begun = True  # as if its outcome were on its way to the server
        inside.set()
        await gate.wait()
        await PageReader(claim, parts).chunk()

    async with quire(tmp_path, kinds=None) as one, worker(one, {**STAGES, UnitKind.READ: read_when_told}):
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 5))
        async with asyncio.timeout(DEADLINE_S):
            await inside.wait()
        await one.engine.cancel(await job_of(one, accepted.job_id))
        gate.set()

        async def counted() -> bool:
            return (await job_of(one, accepted.job_id)).late_results == 5

        await until(counted, "five late pages counted")
        job = await job_of(one, accepted.job_id)
        assert (job.status, job.pages_completed) == (JobStatus.CANCELLED, 0)
        await assert_nothing_is_left(one, job)


async def test_a_queued_document_is_not_begun_when_it_was_cancelled(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 5))
        await one.engine.cancel(await job_of(one, accepted.job_id))
        async with worker(one, STAGES):
            await at_rest(one)
        job = await job_of(one, accepted.job_id)
        assert (job.status, job.total_pages, job.started_at) == (JobStatus.CANCELLED, 0, None)
        assert await one.engine.cancel(job) is JobStatus.CANCELLED


async def test_pages_get_their_bare_text_when_time_is_up_in_the_middle_of_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(READ_CHUNK, breaking.hang_unless_quick)
    document = marked_pdf(tmp_path / "a.pdf", 20)
    async with uncaged(tmp_path, READER_PAGE_TIMEOUT="10m") as one:
        job = await over(one, await begin(one, document, timeout_s=1.0))
        assert (job.status, job.timed_out, job.pages_completed) == (JobStatus.COMPLETED, True, 20)
        assert (job.result or {})["metadata"]["timeout_occurred"] is True
        assert markers_in(await markdown(one, job)) == [marker(1, number) for number in range(1, 21)]
        sources = {record.source for record in (await pages(one, job)).values()}
        assert sources == {PageSource.MUPDF_TIMEOUT_FALLBACK}
        await until(lambda: not running(sleeping(document)), "the readers have been stopped")
        await assert_nothing_is_left(one, job)


async def test_scans_keep_what_they_have_when_time_is_up_before_ocr_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RECOGNISE, breaking.hanging_ocr)
    document = tmp_path / "mixed.pdf"
    document.write_bytes((SAMPLES / "mixed.pdf").read_bytes())
    clock = ShiftedClock()
    patient = {"OCR_PAGE_TIMEOUT": "20m", "WORKER_TTL": "1h"}  # the document's time is up first
    async with uncaged(tmp_path, clock=clock, READER_PROCESSES="2", OCR_MODE="quick", **patient) as one:
        job_id = await begin(one, document, timeout_s=600.0)

        async def only_ocr_is_left() -> bool:
            return bool(sleeping(document)) and (await job_of(one, job_id)).pages_completed == 4

        await until(only_ocr_is_left, "the pages with text are read, and OCR hangs")
        clock.shift_s = 601.0
        job = await over(one, job_id)
        assert (job.status, job.timed_out) == (JobStatus.COMPLETED, True)
        records = await pages(one, job)
        sources = [record.source for record in records.values()]
        assert PageSource.MUPDF_TIMEOUT_FALLBACK in sources
        assert PageSource.LOCAL in sources
        waited = [n for n, record in records.items() if record.source is PageSource.MUPDF_TIMEOUT_FALLBACK]
        assert (job.result or {})["metadata"]["fallback_pages"] == waited
        await until(lambda: not running(sleeping(document)), "OCR has been stopped")
        await assert_nothing_is_left(one, job)
        # They did not come from their best route, so a retry reads them, and only them, again.
        monkeypatch.undo()
        assert await one.engine.retry(job, job.id) == "started"
        again = await over(one, job.id)
        assert (again.status, again.timed_out) == (JobStatus.COMPLETED, False)
        redone = await pages(one, again)
        assert {redone[number].source for number in waited} == {PageSource.OCR}
        untouched = [number for number in records if number not in waited]
        assert all(redone[number].completed_at == records[number].completed_at for number in untouched)


async def test_units_are_handed_back_when_the_worker_is_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(READ_CHUNK, breaking.hang_unless_quick)
    document = marked_pdf(tmp_path / "a.pdf", 20)
    async with uncaged(tmp_path, kinds=None, READER_PAGE_TIMEOUT="10m") as one:
        job_id = await begin(one, document)
        async with worker(one, STAGES):
            await until(lambda: bool(sleeping(document)), "a child at work")
        work = await one.parts.jobs.working(job_id)
        assert work
        assert set(work.values()) == {""}, "nobody holds them any more"
        monkeypatch.undo()
        async with worker(one, STAGES):
            job = await over(one, job_id)
        assert (job.status, job.pages_completed, job.pages_failed) == (JobStatus.COMPLETED, 20, 0)
        await at_rest(one)
        assert await left_in_queues(one) == {}
