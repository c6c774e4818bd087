"""Office files and pictures through the whole pipeline: page by page, as PDFs are."""

from __future__ import annotations

from pathlib import Path

import pytest

from quire.domain.job import JobStatus
from quire.domain.page import PageClass, PageSource
from tests.support.marked_documents import heic_of
from tests.support.office_files import docx, p, pptx, shape
from tests.support.running import convert, markdown, page_texts, pages, quire


async def test_slides_that_were_asked_for_are_read_when_a_range_is_given(tmp_path: Path) -> None:
    talk = pptx([shape(f"Slide {n}", "title") for n in range(1, 8)])
    async with quire(tmp_path) as one:
        job = await convert(one, talk, pages="2-3,6")
        assert (job.status, job.total_pages, job.info["page_count"]) == (JobStatus.COMPLETED, 3, 7)
        assert await page_texts(one, job) == ["# Slide 2", "# Slide 3", "# Slide 6"]
        for record in (await pages(one, job)).values():
            assert (record.source, record.reader, record.page_class) == (
                PageSource.LOCAL,
                "pptx",
                PageClass.TEXT_ONLY,
            )


async def test_every_page_is_there_when_a_long_document_is_read_in_chunks(tmp_path: Path) -> None:
    body = "".join(p(f"Part {n}", "Heading1") + p("Words of a paragraph. " * 60) * 8 for n in range(60))
    async with quire(tmp_path, READER_PROCESSES="2", READER_CHUNK_PAGES="4") as one:
        job = await convert(one, docx(body))
        assert job.total_pages > 20
        text = await markdown(one, job)
        assert [line for line in text.splitlines() if line.startswith("# ")] == [
            f"# Part {n}" for n in range(60)
        ]


@pytest.mark.parametrize("archive_mb", ["1MB"])
async def test_document_fails_in_words_when_it_unpacks_to_more_than_allowed(
    tmp_path: Path, archive_mb: str
) -> None:
    async with quire(tmp_path, MAX_ARCHIVE_MB=archive_mb) as one:
        job = await convert(one, docx(p("x" * 2_000_000)))
        assert job.status is JobStatus.FAILED
        assert (job.error or {})["code"] == "too_large"
        assert "MAX_ARCHIVE_MB" in (job.error or {})["error"]


async def test_photograph_is_read_by_ocr_when_it_is_heic(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, heic_of("Harbour tide tables"))
        assert job.status is JobStatus.COMPLETED
        assert "tide tables" in await markdown(one, job)
