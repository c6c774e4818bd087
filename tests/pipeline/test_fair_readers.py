"""One team's worst files do not make another team wait, and each of them still ends with a reason."""

from __future__ import annotations

from pathlib import Path

from quire.domain.job import JobStatus
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
