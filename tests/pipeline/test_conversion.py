"""Documents of every sort, through the whole pipeline."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from quire.domain.job import JobSecrets, JobStatus, JobType
from quire.domain.page import PageClass, PageSource
from quire.errors import RequestError, StateConflictError
from quire.rendering.page_markdown import render_markdown
from tests.support.environment import ROOT
from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.running import at_rest, convert, job_of, markdown, over, page_texts, pages, quire, upload
from tests.support.waiting import until

SAMPLES = ROOT / "samples"


async def test_every_page_is_there_once_and_in_order_when_converted(tmp_path: Path) -> None:
    document = marked_pdf(tmp_path / "a.pdf", 150)
    async with quire(tmp_path, READER_PROCESSES="2") as one:
        job = await convert(one, document)
        assert (job.status, job.total_pages, job.pages_completed, job.progress) == (
            JobStatus.COMPLETED,
            *(150, 150, 100),
        )
        texts = await page_texts(one, job)
        assert [markers_in(text) for text in texts] == [[marker(1, number)] for number in range(1, 151)]
        records = await pages(one, job)
        assert sorted(records) == list(range(1, 151))
        assert {record.source for record in records.values()} == {PageSource.LOCAL}
        assert {record.page_class for record in records.values()} == {PageClass.TEXT_ONLY}
        assert all(
            job.children[kind].status is JobStatus.COMPLETED for kind in (JobType.SPLIT, JobType.MERGE)
        )
        record, place = await one.engine.page_result(job, 77)
        assert not isinstance(place, bytes)
        alone = b"".join([piece async for piece in one.engine.text(place)]).decode()
        assert (record.number, alone) == (77, texts[76])
        await at_rest(one)
        kept = sorted(
            path.name.split("-")[0] for path in (tmp_path / "data/objects/jobs" / job.id).rglob("*")
        )
        journal = ["accepted.json", "finished.json"]
        assert sorted(kept) == sorted(["elements", "original", "pages", "result", *journal]), (
            "what only the work needed is gone"
        )


async def test_elements_of_every_page_render_to_its_markdown(tmp_path: Path) -> None:
    document = marked_pdf(tmp_path / "a.pdf", 40)
    async with quire(tmp_path, READER_PROCESSES="2") as one:
        job = await convert(one, document)
        texts = await page_texts(one, job)
        for number, text in enumerate(texts, 1):
            page = await one.engine.page_elements(job, number)
            assert (page.number, render_markdown(page.elements)) == (number, text)
            assert page.width > 0
            assert all(element.box for element in page.elements)
        assert await one.engine.retry(job, f"{job.id}-p7") == "started"
        again = await over(one, job.id)
        for number in (1, 7, 40):
            page = await one.engine.page_elements(again, number)
            assert render_markdown(page.elements) == texts[number - 1]
        await at_rest(one)
        assert len(list((tmp_path / "data/objects/jobs" / job.id).glob("elements-*"))) == 1


async def test_only_the_chosen_pages_are_read_when_some_are_asked_for(tmp_path: Path) -> None:
    document = marked_pdf(tmp_path / "a.pdf", 60)
    async with quire(tmp_path) as one:
        job = await convert(one, document, pages="2-4,30,58-")
        wanted = [2, 3, 4, 30, 58, 59, 60]
        assert markers_in(await markdown(one, job)) == [marker(1, number) for number in wanted]
        assert sorted(await pages(one, job)) == wanted
        none = await convert(one, document, pages="61-70")
        assert none.status is JobStatus.FAILED
        assert none.error is not None
        assert (none.error["code"], "60" in none.error["error"]) == ("bad_request", True)
        with pytest.raises(RequestError):
            await upload(one, document, pages="4-2")


async def test_a_document_is_refused_when_it_has_more_pages_than_allowed(tmp_path: Path) -> None:
    document = marked_pdf(tmp_path / "a.pdf", 12)
    async with quire(tmp_path, MAX_PAGES="10") as one:
        job = await convert(one, document)
        assert (job.status, (job.error or {})["code"]) == (JobStatus.FAILED, "too_many_pages")
        assert (await convert(one, document, pages="1-10")).status is JobStatus.COMPLETED


@pytest.mark.parametrize(
    ("password", "status", "code"),
    [
        ("open sesame", JobStatus.COMPLETED, None),
        ("wrong", JobStatus.FAILED, "password_wrong"),
        (None, JobStatus.FAILED, "password_required"),
    ],
)
async def test_an_encrypted_document_is_read_only_when_the_password_is_right(
    tmp_path: Path, password: str | None, status: JobStatus, code: str | None
) -> None:
    document = marked_pdf(tmp_path / "a.pdf", 3, password="open sesame")
    async with quire(tmp_path) as one:
        job = await convert(one, document, secrets=JobSecrets(password=password))
        assert job.status is status
        assert (job.error or {}).get("code") == code
        if status is JobStatus.COMPLETED:
            assert len(markers_in(await markdown(one, job))) == 3
        else:
            assert job.children[JobType.SPLIT].status is JobStatus.FAILED
            with pytest.raises(StateConflictError):
                await one.engine.result(job)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"%PDF-1.7\nthis is all there is", "damaged_document"),
        (b"MZ\x90\x00" + bytes(500), "unsupported_type"),
        (b"\x7fELF" + bytes(500), "unsupported_type"),
    ],
    ids=["damaged", "program", "binary"],
)
async def test_a_document_fails_with_a_reason_when_it_can_not_be_read(
    tmp_path: Path, content: bytes, code: str
) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, content)
        assert job.status is JobStatus.FAILED
        assert job.error is not None
        assert job.error["code"] == code
        assert not job.error["retryable"]
        await at_rest(one)


async def test_an_upload_is_refused_when_it_is_empty(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        with pytest.raises(RequestError, match="empty"):
            await upload(one, b"")
        assert not list((tmp_path / "data/objects").rglob("original-*"))


async def test_a_scan_is_read_by_ocr_when_it_is_installed(tmp_path: Path) -> None:
    async with quire(tmp_path, READER_PROCESSES="2") as one:
        job = await convert(one, SAMPLES / "scan.pdf")
        assert job.status is JobStatus.COMPLETED
        records = await pages(one, job)
        assert {record.source for record in records.values()} == {PageSource.OCR}
        assert {record.reader for record in records.values()} == {"tesseract"}
        assert all(record.words > 20 and (record.confidence or 0) > 0.5 for record in records.values())


async def test_only_the_scans_fail_with_a_reason_when_ocr_is_switched_off(tmp_path: Path) -> None:
    async with quire(tmp_path, OCR_ENABLED="0") as one:
        mixed = await convert(one, SAMPLES / "mixed.pdf")
        records = await pages(one, mixed)
        scans = [number for number, record in records.items() if record.page_class is PageClass.SCANNED]
        assert scans
        assert mixed.status is JobStatus.COMPLETED
        for number, record in records.items():
            assert record.status is (JobStatus.FAILED if number in scans else JobStatus.COMPLETED)
        assert mixed.pages_failed == len(scans)
        text = await markdown(one, mixed)
        assert all(f"*Page {number} " in text for number in scans)
        assert "OCR" in (records[scans[0]].error or {})["error"]
        only_scans = await convert(one, SAMPLES / "scan.pdf")
        assert only_scans.status is JobStatus.FAILED
        assert "OCR" in (only_scans.error or {})["error"]


async def test_a_job_tells_how_each_page_stands_when_nobody_works(tmp_path: Path) -> None:
    document = marked_pdf(tmp_path / "a.pdf", 3)
    async with quire(tmp_path, kinds=None) as one:
        accepted = await upload(one, document)
        job = await job_of(one, accepted.job_id)
        assert (job.status, job.progress) == (JobStatus.QUEUED, 0)
        assert await one.engine.pages(job) == []
        assert await one.parts.jobs.working(job.id) == {"split": ""}


async def test_pages_are_there_when_the_job_completes_while_they_are_asked_for(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 300))

        async def split() -> bool:
            return bool((await job_of(one, accepted.job_id)).total_pages)

        await until(split, "its pages are known")
        before = await job_of(one, accepted.job_id)
        assert before.status is not JobStatus.COMPLETED
        await over(one, accepted.job_id)
        # Whoever has read the job just before its end now asks for its pages.
        assert {page.status for page in await one.engine.pages(before)} == {JobStatus.COMPLETED}
        record, _ = await one.engine.page_result(before, 300)
        assert record.status is JobStatus.COMPLETED


async def test_everything_is_private_when_the_data_folder_is_open_to_others(
    tmp_path: Path, make_pdf: Callable[..., bytes]
) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    usual = os.umask(0o022)
    try:
        async with quire(tmp_path) as one:
            await convert(one, make_pdf("private words"))
            await at_rest(one)
            found = {
                str(path): path.lstat().st_mode & 0o077
                for place, folders, names in os.walk(tmp_path / "data")
                for path in (Path(place, name) for name in (*folders, *names))
                if path.exists()
            }
    finally:
        os.umask(usual)
    assert any("coordination" in path for path in found)
    assert any("scratch" in path for path in found)
    assert [path for path, for_others in found.items() if for_others] == []
