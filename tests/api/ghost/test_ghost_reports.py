"""A dispatcher outside reports pages, whatever the state of their units; the first result wins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from quire.bootstrap import Runtime
from quire.coordination.job_records import Claim, PageOutcome
from quire.coordination.liveness import WorkerId
from quire.coordination.streams import Hint
from quire.domain.job import JobStatus, MainJob, UnitKind
from quire.domain.page import PageSource
from quire.domain.routing import Readers
from quire.errors import MissingError, NotReadyError, RequestError
from quire.pipeline.ghost_service import Ghost
from quire.pipeline.outside_reports import OutsideReports, PageReport
from quire.pipeline.worker import STAGES, Worker, default_slots
from tests.support.running import TEAM, quire, upload
from tests.support.waiting import DEADLINE_S, until

Mixed = Callable[..., bytes]
WORK = (UnitKind.SPLIT, UnitKind.READ, UnitKind.MERGE, UnitKind.EXPORT)
PICTURES = [["first words", "more of them"], ["second words", "and others"], ["third words", "here"]]


@asynccontextmanager
async def outside(
    folder: Path, kinds: tuple[UnitKind, ...] = WORK
) -> AsyncIterator[tuple[Runtime, OutsideReports]]:
    """Quire with AI promised, whose single pages nobody here reads."""
    async with quire(folder, kinds=None) as one:
        parts = replace(one.parts, readers=Readers(ocr=False, ai=True))
        slots = default_slots(4, 1, 1)
        worker = Worker(parts, str(WorkerId.of_this_process()), {kind: slots[kind] for kind in kinds}, STAGES)
        running = asyncio.create_task(worker.run())
        try:
            yield replace(one, parts=parts), OutsideReports(parts)
        finally:
            await worker.drain(0)
            await asyncio.wait({running}, timeout=DEADLINE_S)
            running.cancel()


async def job_of(one: Runtime, job_id: str) -> MainJob:
    return await one.engine.job(TEAM, job_id)


async def waiting(one: Runtime, pdf: bytes, pages: int) -> str:
    """A job so many of whose pages wait for somebody outside."""
    job_id = (await upload(one, pdf)).job_id

    async def waits() -> bool:
        return (await job_of(one, job_id)).slow_pages == pages

    await until(waits)
    return job_id


async def ended(one: Runtime, job_id: str) -> tuple[MainJob, str]:
    job = await one.engine.wait(TEAM, job_id, 30)
    assert job.status is JobStatus.COMPLETED, job
    text = b"".join([piece async for piece in one.engine.text(await one.engine.result(job))])
    return job, text.decode()


def report(number: int, text: str, **more: int) -> PageReport:
    return PageReport(number, text, "other", "model-9", **more)


async def test_reported_pages_make_the_result_when_nobody_here_reads_them(
    tmp_path: Path, make_mixed: Mixed
) -> None:
    async with outside(tmp_path) as (one, reports):
        job_id = await waiting(one, make_mixed("plain text", *PICTURES), 3)
        assert await reports.page_done(job_id, report(2, "AI read two", tokens_out=7))
        assert not await reports.page_done(job_id, report(2, "a second answer", tokens_out=9))
        assert not await reports.page_failed(job_id, 2)
        assert await reports.page_failed(job_id, 3)
        assert await reports.page_done(job_id, report(4, "AI read four"))
        job, text = await ended(one, job_id)
        assert "AI read two" in text
        assert "second words" in text
        assert "AI read four" in text
        assert "first words" not in text
        assert "a second answer" not in text
        pages = await one.engine.pages(job)
        assert [page.source for page in pages] == [
            *(PageSource.LOCAL, PageSource.AI, PageSource.MUPDF_FALLBACK, PageSource.AI)
        ]
        assert (pages[1].provider, pages[1].model, pages[1].tokens_out) == ("other", "model-9", 7)
        assert (job.tokens_out, job.late_results) == (7, 2)
        assert not await reports.page_done(job_id, report(4, "too late"))
        assert await reports.job_done(job_id) == 0
        assert (await job_of(one, job_id)).late_results == 3
        state = await Ghost(one.parts, one.engine).state(await job_of(one, job_id))
        assert (state.tally.ai_pages, state.tally.ai_pages_succeeded) == (3, 2)
        assert (state.tally.mupdf_fallback_count, state.tally.text_only_pages) == (1, 1)


async def test_report_ends_the_unit_when_it_is_parked_or_in_other_hands(
    tmp_path: Path, make_mixed: Mixed
) -> None:
    async with outside(tmp_path) as (one, reports):
        job_id = await waiting(one, make_mixed(*PICTURES), 3)
        jobs, queues = one.parts.jobs, one.parts.queues
        await queues.ensure_groups([UnitKind.PAGE])
        hints: dict[str, Hint] = {}
        while len(hints) < 3:  # they are queued right after they are recorded
            hints |= {hint.unit: hint for hint in await queues.read(UnitKind.PAGE, "somebody", 10, 1)}
        parked = await jobs.claim(hints["p1"], "somebody", "one")
        held = await jobs.claim(hints["p2"], "somebody", "two")
        assert isinstance(parked, Claim)
        assert isinstance(held, Claim)
        assert await jobs.park(parked, one.parts.clock.now() + 1000, failed=True)
        for number in (1, 2, 3):
            assert await reports.page_done(job_id, report(number, f"from outside {number}"))
        assert await jobs.lost.check_claims([held]) == [False]
        late = replace((await jobs.pages(job_id, [2])).get(2) or (await one.engine.pages(held.job))[1])
        assert await jobs.pages_done(held, [PageOutcome(replace(late, status=JobStatus.COMPLETED))]) == 0
        _, text = await ended(one, job_id)
        for number in (1, 2, 3):
            assert f"from outside {number}" in text


async def test_report_counts_when_the_page_was_not_even_read_here(tmp_path: Path, make_mixed: Mixed) -> None:
    """Only the split has been done: the chunks that come later find their pages taken."""
    async with outside(tmp_path, kinds=(UnitKind.SPLIT,)) as (one, reports):
        job_id = (await upload(one, make_mixed("plain", *PICTURES))).job_id

        async def split() -> bool:
            return (await job_of(one, job_id)).total_pages == 4

        await until(split)
        with pytest.raises(NotReadyError):
            await reports.page_failed(job_id, 2)
        assert await reports.page_done(job_id, report(2, "ahead of everybody"))
        assert await reports.job_done(job_id) == 0
        slots = dict.fromkeys((UnitKind.READ, UnitKind.MERGE), 2)
        parts = replace(one.parts, readers=Readers(ocr=False, ai=True))
        worker = Worker(parts, str(WorkerId.of_this_process()), slots, STAGES)
        running = asyncio.create_task(worker.run())
        job, text = await ended(one, job_id)
        await worker.drain(0)
        await running
        assert "ahead of everybody" in text
        assert "first words" not in text
        # The other pages with pictures came after the dispatcher had said that it is done.
        assert [page.source for page in await one.engine.pages(job)] == [
            *(PageSource.LOCAL, PageSource.AI, PageSource.MUPDF_FALLBACK, PageSource.MUPDF_FALLBACK)
        ]
        assert not job.timed_out


async def test_job_ends_with_what_is_there_when_the_dispatcher_is_done(
    tmp_path: Path, make_mixed: Mixed
) -> None:
    async with outside(tmp_path) as (one, reports):
        job_id = await waiting(one, make_mixed("plain", *PICTURES, None), 4)
        assert await reports.page_done(job_id, report(2, "in time"))
        assert await reports.job_done(job_id) == 3
        assert await reports.job_done(job_id) == 0
        job, text = await ended(one, job_id)
        assert "in time" in text
        assert "third words" in text
        assert "Page 5 could not be read" in text
        assert (job.pages_completed, job.pages_failed) == (4, 1)
        assert not job.timed_out


async def test_report_is_only_counted_when_it_was_meant_for_an_earlier_run(
    tmp_path: Path, make_mixed: Mixed
) -> None:
    async with outside(tmp_path) as (one, reports):
        job_id = await waiting(one, make_mixed("plain", PICTURES[0]), 1)
        assert await reports.page_failed(job_id, 2)
        job, _ = await ended(one, job_id)
        assert await one.engine.retry(job, f"{job_id}-p2") == "started"
        assert not await reports.page_done(job_id, report(2, "for the first run", epoch=1))
        assert await reports.page_done(job_id, report(2, "for the second run", epoch=2))
        job, text = await ended(one, job_id)
        assert "for the second run" in text
        assert (job.epoch, job.late_results) == (2, 1)


async def test_report_is_refused_when_it_can_not_be_meant(tmp_path: Path, make_mixed: Mixed) -> None:
    async with outside(tmp_path, kinds=()) as (one, reports):
        job_id = (await upload(one, make_mixed("not opened yet"))).job_id
        for asked in (
            reports.page_done(job_id, report(1, "x")),
            reports.page_failed(job_id, 1),
            reports.job_done(job_id),
        ):
            with pytest.raises(NotReadyError):
                await asked
        with pytest.raises(RequestError):
            await reports.page_done(job_id, report(1, " \n"))
        for unknown in ("nothing", "00000000-0000-0000-0000-000000000000"):
            with pytest.raises(MissingError):
                await reports.page_done(unknown, report(1, "x"))
        assert not list((tmp_path / "data" / "objects").rglob("p1-report-*"))
