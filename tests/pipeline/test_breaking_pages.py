"""A page that crashes, hangs or balloons its reader costs that page, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quire.domain.job import JobStatus, UnitKind
from quire.domain.page import PageSource
from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.running import at_rest, convert, markdown, pages, uncaged

from . import breaking

READ_CHUNK = "quire.reading.local_reader.read_chunk"


@pytest.mark.parametrize(
    ("reader", "code", "env"),
    [
        (breaking.crash, "page_crashed", {}),
        (breaking.hang, "page_timeout", {"READER_PAGE_TIMEOUT": "1s", "READER_CHUNK_PAGES": "2"}),
        (breaking.balloon, "page_memory", {"READER_MEMORY_MB": "256"}),
    ],
    ids=["crash", "hang", "balloon"],
)
async def test_only_the_bad_page_fails_when_it_breaks_its_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: object, code: str, env: dict[str, Any]
) -> None:
    monkeypatch.setattr(READ_CHUNK, reader)
    async with uncaged(tmp_path, **env) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 8))
        assert (job.status, job.pages_completed, job.pages_failed) == (JobStatus.COMPLETED, 7, 1)
        records = await pages(one, job)
        bad = records.pop(breaking.BAD)
        assert (bad.status, (bad.error or {})["code"], bad.reasons) == (JobStatus.FAILED, code, (code,))
        assert all(record.status is JobStatus.COMPLETED for record in records.values())
        text = await markdown(one, job)
        assert markers_in(text) == [marker(1, number) for number in range(1, 9) if number != breaking.BAD]
        assert f"*Page {breaking.BAD} could not be read: " in text
        assert (job.result or {})["metadata"]["failed_pages"] == [breaking.BAD]
        await at_rest(one)
        assert (await one.parts.queues.depth(UnitKind.READ))["dead"] == 0, "trying again would not help"


async def test_the_bare_text_stands_in_when_only_the_careful_reader_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(READ_CHUNK, breaking.crash_unless_quick)
    async with uncaged(tmp_path) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 6))
        assert (job.status, job.pages_completed) == (JobStatus.COMPLETED, 6)
        records = await pages(one, job)
        assert records[breaking.BAD].source is PageSource.MUPDF_FALLBACK
        assert "page_crashed" in records[breaking.BAD].reasons
        assert markers_in(await markdown(one, job)) == [marker(1, number) for number in range(1, 7)]
        assert (job.result or {})["metadata"]["fallback_pages"] == [breaking.BAD]


async def test_no_page_is_blamed_when_the_reader_processes_could_not_be_kept_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(READ_CHUNK, breaking.lose_the_fork_server)
    async with uncaged(tmp_path) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 4))
        assert (job.status, job.pages_completed, job.pages_failed) == (JobStatus.COMPLETED, 4, 0)
        assert {record.source for record in (await pages(one, job)).values()} == {PageSource.LOCAL}
        assert {record.attempts for record in (await pages(one, job)).values()} == {2}


async def test_the_document_fails_with_a_reason_when_no_page_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(READ_CHUNK, breaking.crash)
    async with uncaged(tmp_path) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 3), pages=str(breaking.BAD))
        assert job.status is JobStatus.FAILED
        assert "could not be read" in (job.error or {})["error"]
        assert "ended unexpectedly" in (job.error or {})["error"]
