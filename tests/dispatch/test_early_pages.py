"""Pages without text are read by OCR while AI does not answer, once, and AI's answer wins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quire.bootstrap import Runtime
from quire.coordination.ai_admission import CallOutcome, Lease, Target
from quire.coordination.connection import RedisConnection
from quire.coordination.early_pages import OcrRight
from quire.coordination.job_records import Claim, NewJob, PageOutcome
from quire.coordination.job_store import JobStore
from quire.coordination.streams import Hint, Queues
from quire.domain.job import JobOptions, JobStatus, MainJob, PageRecord, UnitKind, new_job_id
from quire.domain.page import PageSource
from quire.domain.page_view import page_view
from quire.pipeline.early_text_policy import early_text_delay_s
from quire.pipeline.stages.read_stage import PageReader
from quire.settings import load
from quire.simulator.simulator_thread import RunningSimulator
from tests.dispatch.conftest import Bench
from tests.support.clocks import MovableClock, ShiftedClock
from tests.support.marked_documents import scanned_pdf
from tests.support.running import at_rest, job_of, markdown, over, pages, quire, upload
from tests.support.waiting import scaled, until

HANG = {"rules": [{"fault": "hang"}]}


@pytest.fixture
def ocr_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the pages that OCR read in this process."""
    calls: list[int] = []
    real = PageReader._ocr

    async def counted(self: PageReader, number: int) -> Any:
        calls.append(number)
        return await real(self, number)

    monkeypatch.setattr(PageReader, "_ocr", counted)
    return calls


async def provisional(one: Runtime, job_id: str) -> tuple[MainJob, PageRecord]:
    """The job and its only page, once that has a text while AI still reads it."""

    async def has_text() -> bool:
        found = await pages(one, await job_of(one, job_id))
        return bool(found and page_view(job_id, found[1])["provisional"])

    await until(has_text, "the early text")
    job = await job_of(one, job_id)
    return job, (await pages(one, job))[1]


async def test_scan_is_usable_while_ai_hangs_and_is_read_by_ocr_once(
    tmp_path: Path, sim: RunningSimulator, ocr_calls: list[int]
) -> None:
    env = {
        "OPENAI_BASE_URL": sim.openai_url,
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_PRIMARY_MODEL": "a1",
        "OPENAI_SECONDARY_MODEL": "a1",
        "SECONDARY_ENGINE": "none",
        "REQUEST_TIMEOUT": scaled(4),
        "JOB_MAX_ATTEMPTS": "40",  # that many calls hang before OCR is late on a busy machine
        "RETRY_BACKOFF_FACTOR": "1",
        "BREAKER_BASE_BACKOFF": "20ms",
        "BREAKER_MAX_BACKOFF": "20ms",
        "AI_EARLY_TEXT": "10ms",
    }
    clock = ShiftedClock()
    async with quire(tmp_path, clock=clock, **env) as one:
        sim.play(HANG)
        first = (await upload(one, scanned_pdf("HARBOUR"))).job_id
        job, page = await provisional(one, first)
        assert job.status is JobStatus.PROCESSING
        assert (page.source, page.status.terminal) == (PageSource.OCR, False)
        shown = await one.engine.partial_result(job)
        text = b"".join([piece async for piece in shown.stream(one.parts.objects)]).decode()
        assert "HARBOUR" in text
        assert shown.metadata()["pages_pending"] == [1]

        sim.play({"rules": [{"fault": "server_error"}]})
        ended = await over(one, first)
        page = (await pages(one, ended))[1]
        assert (ended.status, page.status, page.source) == (
            JobStatus.COMPLETED,
            JobStatus.COMPLETED,
            PageSource.OCR,
        )
        assert "server" in page.reasons
        # Only the level of its heading is settled over the whole document, at the end.
        assert (await markdown(one, ended)).lstrip("#") == text.lstrip("#")
        assert ocr_calls == [1]

        sim.play(HANG)
        second = (await upload(one, scanned_pdf("MINUTE"))).job_id
        await provisional(one, second)
        sim.play({})
        ended = await over(one, second)
        page = (await pages(one, ended))[1]
        assert (page.source, page.model, ocr_calls) == (PageSource.AI, "a1", [1, 1])
        assert await markdown(one, ended) != text

        sim.play(HANG)
        third = (await upload(one, scanned_pdf("WINDMILL"), timeout_s=600.0)).job_id
        await provisional(one, third)
        clock.shift_s += 700
        ended = await over(one, third)
        page = (await pages(one, ended))[1]
        assert (page.source, page.reasons[-1], ended.timed_out) == (PageSource.OCR, "deadline", True)
        assert "WINDMILL" in await markdown(one, ended)
        assert ocr_calls == [1, 1, 1]
        sim.play({})
        assert await one.engine.retry(ended, third) == "started", "AI had no time for its page"
        page = (await pages(one, await over(one, third)))[1]
        assert (page.source, "deadline" in page.reasons) == (PageSource.AI, False)
        await at_rest(one)


async def test_ocr_is_not_due_when_a_model_answers(make: Callable[..., Bench]) -> None:
    admission = make().dispatcher.admission
    target, other = Target("openai", "a1"), Target("anthropic", "b1")
    assert await admission.since_answer_s([target, other]) == float("inf")
    lease = Lease("x", 0, target, 0, 0, probe=False)
    await admission.settle(lease, CallOutcome.FAILED, code="server")
    assert await admission.since_answer_s([target, other]) == float("inf")
    await admission.settle(lease, CallOutcome.OK)
    assert await admission.since_answer_s([other, target]) < 3_000
    assert await admission.since_answer_s([other]) == float("inf")


@pytest.mark.parametrize(
    ("given", "since_s", "expected"),
    [
        ({}, float("inf"), 8.0),
        ({"AI_EARLY_TEXT": "0"}, float("inf"), None),
        ({"JOB_MAX_ATTEMPTS": "1"}, float("inf"), 1.5),
        ({"JOB_MAX_ATTEMPTS": "1"}, 5.0, 8.0),
        ({"JOB_MAX_ATTEMPTS": "1", "AI_EARLY_TEXT": "500ms"}, float("inf"), 0.5),
    ],
)
def test_delay_of_early_text_follows_the_settings(
    given: dict[str, str], since_s: float, expected: float | None
) -> None:
    assert early_text_delay_s(load(given), since_s) == expected


async def claimed(jobs: JobStore, job_id: str, unit: str, token: str) -> Claim:
    found = await jobs.claim(Hint(job_id, unit, 1), "worker", token)
    assert isinstance(found, Claim), found
    return found


async def test_one_unit_at_a_time_has_the_right_to_read_a_page(redis_url: str) -> None:
    connection, clock = RedisConnection.open(redis_url), MovableClock()
    await connection.command("FLUSHALL")
    queues = Queues(connection, clock)
    await queues.ensure_groups(UnitKind)
    jobs, job_id = JobStore(connection, queues, clock, 3600), new_job_id()
    await jobs.create(NewJob(job_id, "team", JobOptions(), {"kind": "upload"}, "a.pdf", content_ref="x"))
    await jobs.split_done(await claimed(jobs, job_id, "split", "s"), 1, 16, 64, {"ranges": "1"})
    chunk = await claimed(jobs, job_id, "c0-0", "c")
    await jobs.early.issue(chunk, 5.0)
    await jobs.early.issue(chunk, 5.0)
    await jobs.pages_done(chunk, [PageOutcome(PageRecord(number=1, status=JobStatus.QUEUED, ref="k"))])
    assert (await queues.depth(UnitKind.EARLY))["delayed"] == 1
    clock.time += 6

    page, early = await claimed(jobs, job_id, "p1", "p"), await claimed(jobs, job_id, "early", "e")
    assert await jobs.early.take(early, 1) is OcrRight.TAKEN
    assert await jobs.early.take(page, 1) is OcrRight.HELD
    await jobs.early.give_back(early, 1)
    assert await jobs.early.take(page, 1) is OcrRight.TAKEN
    await jobs.park(page, clock.now(), failed=False)  # or its worker dies
    assert await jobs.early.take(early, 1) is OcrRight.TAKEN
    assert await jobs.early.take(page, 1) is OcrRight.GONE

    read = PageRecord(number=1, status=JobStatus.QUEUED, source=PageSource.OCR, ref="o", words=3)
    assert await jobs.early.keep(early, read)
    again = await claimed(jobs, job_id, "p1", "q")
    found = await jobs.early.take(again, 1)
    assert isinstance(found, PageRecord)
    assert (found.ref, found.words, found.status) == ("o", 3, JobStatus.QUEUED)
    done = PageRecord(number=1, status=JobStatus.COMPLETED, source=PageSource.AI, ref="a", words=4)
    await jobs.pages_done(again, [PageOutcome(done)])
    assert not await jobs.early.keep(early, read)
    await connection.close()
