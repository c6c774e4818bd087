"""One team's worst files do not make another team wait, and each of them still ends with a reason."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from quire.coordination.streams import Hint
from quire.domain.job import JobStatus, UnitKind
from quire.pipeline.overtaking import Overtaking
from tests.support.clocks import MovableClock
from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.running import convert, markdown, over, pages, quire, upload
from tests.support.slow_documents import nested_forms
from tests.support.waiting import until


async def test_small_documents_are_done_when_another_teams_worst_files_hold_the_readers(
    tmp_path: Path,
) -> None:
    async with quire(tmp_path, READER_PAGE_TIMEOUT="1h", JOB_MAX_ATTEMPTS="1") as one:
        hostile = [await upload(one, nested_forms(seed), team="greedy") for seed in range(10)]

        async def are_being_read() -> bool:
            found = [await one.engine.job("greedy", job.job_id) for job in hostile]
            return sum(job.total_pages > 0 for job in found) >= 2

        await until(are_being_read, "the worst files are being read")
        for seed in range(3):
            small = await convert(one, marked_pdf(tmp_path / f"{seed}.pdf", 2, seed=seed))
            assert small.status is JobStatus.COMPLETED
            assert markers_in(await markdown(one, small)) == [marker(seed, 1), marker(seed, 2)]
        note = await convert(one, b"# A note\n\nOne line.\n")
        assert note.status is JobStatus.COMPLETED
        for job in hostile:
            found = await one.engine.job("greedy", job.job_id)
            assert not found.status.terminal
            await one.engine.cancel(found)


async def test_page_says_that_time_ran_out_when_it_was_tried_as_often_as_set(tmp_path: Path) -> None:
    async with quire(tmp_path, READER_PAGE_TIMEOUT="300ms", JOB_MAX_ATTEMPTS="2") as one:
        job = await over(one, (await upload(one, nested_forms())).job_id)
        assert job.status is JobStatus.FAILED
        page = (await pages(one, job))[1]
        assert (page.error or {})["code"] == "page_timeout"
        assert "Time ran out" in (page.error or {})["error"]
        assert "tried 2 times" in (page.error or {})["error"]


async def test_page_is_tried_once_and_briefly_when_its_document_has_used_its_budget(tmp_path: Path) -> None:
    env = {"READER_PAGE_TIMEOUT": "1s", "READER_DOCUMENT_BUDGET": "1s", "JOB_MAX_ATTEMPTS": "50"}
    async with quire(tmp_path, **env) as one:
        job = await over(one, (await upload(one, nested_forms())).job_id)
        page = (await pages(one, job))[1]
        assert (page.error or {})["code"] == "page_timeout"
        assert "tried" not in (page.error or {})["error"]


class CountingClock(MovableClock):
    """Stands still, and counts how often it was asked."""

    asked = 0

    def monotonic(self) -> float:
        self.asked += 1
        return super().monotonic()


async def test_queue_is_looked_at_again_when_a_unit_of_another_team_has_ended(tmp_path: Path) -> None:
    clock, stopping, handled = CountingClock(), asyncio.Event(), list[str]()

    async def handle(hint: Hint) -> None:
        handled.append(hint.job_id)

    async with quire(tmp_path, kinds=None) as one:
        await one.parts.queues.ensure_groups(UnitKind)
        parts = replace(one.parts, clock=clock)
        fairness = Overtaking(parts, {UnitKind.SPLIT: 2}, lambda _: ["greedy", "greedy"], handle)
        fairness.wake()
        looking = asyncio.create_task(fairness.run(stopping))
        # The first look is over when the clock is asked again. It found nothing, so the next one is not due.
        await until(lambda: clock.asked >= 2, "the first look")
        job = await upload(one, b"# A note\n\nOne line.\n", team="polite")
        fairness.unit_ended("polite")
        await until(lambda: handled == [job.job_id], "the unit overtakes")
        stopping.set()
        await looking
