"""Reports about documents and workers: log lines (accepted, finished, deadline reached, started, stopped), events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quire.domain.job import JobStatus, MainJob, UnitKind
from tests.support.environment import ROOT
from tests.support.running import at_rest, convert, job_of, pages, quire, upload
from tests.support.waiting import eventually, until

TEXT = ROOT / "samples" / "text.pdf"


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[Any]:
    return [record for record in caplog.records if record.getMessage() == event]


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="quire")


async def test_document_has_one_line_when_accepted_and_one_when_finished(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, TEXT)
        await at_rest(one)
    (accepted,) = lines(caplog, "job accepted")
    (finished,) = lines(caplog, "job finished")
    assert (accepted.job_id, accepted.team) == (job.id, "team")
    assert accepted.bytes == TEXT.stat().st_size
    assert (finished.job_id, finished.status, finished.type) == (job.id, "completed", "main")
    assert finished.pages_by_source == {"local": job.total_pages}
    assert finished.duration_s > 0
    assert (finished.cost_usd, finished.tokens_used) == (0.0, 0)
    assert finished.levelno == logging.INFO


async def test_line_is_a_warning_with_the_code_when_a_document_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, b"%PDF-1.4\nnothing more")
        await at_rest(one)
    assert job.status is JobStatus.FAILED
    (finished,) = lines(caplog, "job finished")
    assert finished.levelno == logging.WARNING
    assert finished.error_class == (job.error or {})["code"]


async def test_cancelled_document_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with quire(tmp_path, kinds=None) as one:
        accepted = await upload(one, TEXT)
        for _ in range(2):
            await one.parts.jobs.cancel(accepted.job_id)
    (finished,) = lines(caplog, "job finished")
    assert finished.status == "cancelled"


async def test_worker_is_reported_when_it_starts_and_stops(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with quire(tmp_path, kinds=[UnitKind.SPLIT]) as one:
        worker = one.worker
        assert worker is not None
        await until(worker._beaten.is_set, "the worker runs")
    (started,) = lines(caplog, "worker started")
    (stopped,) = lines(caplog, "worker stopped")
    assert started.worker == stopped.worker == one.worker_id
    assert started.queues == ["split"]


async def test_the_end_is_sent_as_it_was_recorded_when_the_job_ends_between_two_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with quire(tmp_path, kinds=None) as one:
        job = await job_of(one, (await upload(one, b"%PDF-1.7 waits for a worker")).job_id)
        first = await anext(one.engine.events(job, ""))
        assert first is not None
        read = one.parts.jobs.get

        async def cancelled_first(job_id: str) -> MainJob | None:
            monkeypatch.setattr(one.parts.jobs, "get", read)
            await one.engine.cancel(job)
            return await read(job_id)

        monkeypatch.setattr(one.parts.jobs, "get", cancelled_first)
        rest = [event async for event in one.engine.events(job, first.id)]
        assert [(event.type, event.data["status"]) for event in rest if event] == [("status", "cancelled")]


async def test_events_and_records_say_how_well_pages_were_read_when_one_is_garbage(
    tmp_path: Path, make_pdf: Callable[..., bytes]
) -> None:
    garbage = "\n".join(["xqzvk wjqxz kvbqx zzgkv qxjwv bvkqz xwqjk vzxqk"] * 12)
    plain = "The harbour office paid for the repairs because the old bridge was no longer safe."
    kinds = [kind for kind in UnitKind if kind is not UnitKind.MERGE]  # the end of a job deletes its events
    async with quire(tmp_path, kinds=kinds, OCR_MODE="quick") as one:
        job = await job_of(one, (await upload(one, make_pdf(plain, garbage))).job_id)

        async def told() -> dict[int, Any] | None:
            events, _ = await one.engine.events_source.after(job.id, "")
            found = {page["number"]: page for event in events for page in event.data.get("pages", ())}
            return found if [page["status"] for page in found.values()] == ["completed"] * 2 else None

        seen = await eventually(told, "both pages are read")
        records = await pages(one, await job_of(one, job.id))
    graded = [("good", 1.0), ("low", 0.0)]
    assert [(seen[number]["grade"], seen[number]["confidence"]) for number in (1, 2)] == graded
    assert [(page.grade, page.confidence) for page in records.values()] == graded
