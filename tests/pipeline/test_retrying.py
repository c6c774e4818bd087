"""Redoing: only what was asked for, once, whoever asks how often."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from quire.bootstrap import Runtime
from quire.coordination.connection import pairs
from quire.coordination.job_records import Claim
from quire.domain.job import JobStatus, JobType, UnitKind
from quire.domain.page import PageSource
from quire.errors import QuireError
from quire.pipeline.parts import Parts
from quire.pipeline.stages.read_stage import PageReader
from quire.pipeline.worker import STAGES
from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.running import (
    at_rest,
    convert,
    job_of,
    markdown,
    over,
    pages,
    quire,
    uncaged,
    upload,
    worker,
)
from tests.support.waiting import until

from . import breaking

READ_CHUNK = "quire.reading.local_reader.read_chunk"


def block_writes(one: Runtime, folder: Path) -> Path:
    """Puts a file where the object store wants a folder: every write fails until it is taken away."""
    incoming = folder / "data/objects/.incoming"
    if incoming.is_dir():
        incoming.rmdir()
    incoming.parent.mkdir(parents=True, exist_ok=True)
    incoming.touch()
    return incoming


async def test_one_page_and_the_merge_are_redone_when_a_page_is_retried(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 20))
        before, text = await pages(one, job), await markdown(one, job)
        assert await one.engine.retry(job, f"{job.id}-p7") == "started"
        again = await over(one, job.id)
        assert (again.status, again.epoch, again.pages_completed) == (JobStatus.COMPLETED, 2, 20)
        after = await pages(one, again)
        changed = [n for n in before if before[n].started_at != after[n].started_at]
        assert changed == [7]
        assert await markdown(one, again) == text
        await at_rest(one)
        assert len(list((tmp_path / "data/objects/jobs" / job.id).glob("result-*"))) == 1


async def test_only_the_merge_is_redone_when_a_merge_is_retried(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 5))
        before, text = await pages(one, job), await markdown(one, job)
        assert await one.engine.retry(job, f"{job.id}-merge") == "started"
        again = await over(one, job.id)
        after = await pages(one, again)
        assert {n: record.started_at for n, record in after.items()} == {
            n: record.started_at for n, record in before.items()
        }
        assert await markdown(one, again) == text
        assert again.children[JobType.MERGE].status is JobStatus.COMPLETED


async def test_only_bad_pages_are_redone_when_a_document_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(READ_CHUNK, breaking.crash)
    async with uncaged(tmp_path) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 8))
        before = await pages(one, job)
        assert before[breaking.BAD].status is JobStatus.FAILED
        monkeypatch.undo()
        assert await one.engine.retry(job, job.id) == "started"
        again = await over(one, job.id)
        after = await pages(one, again)
        assert (again.pages_completed, again.pages_failed) == (8, 0)
        assert [n for n in before if before[n].started_at != after[n].started_at] == [breaking.BAD]
        assert markers_in(await markdown(one, again)) == [marker(1, number) for number in range(1, 9)]
        assert await one.engine.retry(again, job.id) == "nothing"


async def test_everything_that_is_missing_is_read_when_a_cancelled_document_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(READ_CHUNK, breaking.linger)
    async with uncaged(tmp_path, READER_CHUNK_PAGES="4") as one:
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 60))

        async def begun() -> bool:
            return (await job_of(one, accepted.job_id)).pages_completed > 0

        await until(begun, "some pages are read")
        await one.engine.cancel(await job_of(one, accepted.job_id))
        monkeypatch.undo()
        await at_rest(one)  # a chunk that is stored after the merge is deleted with the job's other objects
        job = await job_of(one, accepted.job_id)
        assert 0 < job.pages_completed < 60
        assert await one.engine.retry(job, job.id) == "started"
        again = await over(one, job.id)
        assert (again.status, again.pages_completed) == (JobStatus.COMPLETED, 60)
        assert markers_in(await markdown(one, again)) == [marker(1, number) for number in range(1, 61)]
        await at_rest(one)
        assert not list((tmp_path / "data/objects/jobs" / job.id).glob("e[0-9]*"))


async def test_a_document_starts_anew_when_it_failed_before_it_had_pages(tmp_path: Path) -> None:
    """What was wrong is mended, as when a missing file comes back."""
    document = marked_pdf(tmp_path / "a.pdf", 3)
    async with quire(tmp_path, FILES_BASE=str(tmp_path)) as one:
        accepted = await upload(one, document)
        job = await over(one, accepted.job_id)
        [original] = (tmp_path / "data/objects/jobs" / job.id).glob("original-*")
        content = original.read_bytes()
        original.unlink()
        assert await one.engine.retry(job, f"{job.id}-split") == "started"
        failed = await over(one, job.id)
        assert (failed.status, (failed.error or {})["code"]) == (JobStatus.FAILED, "not_found")
        original.write_bytes(content)
        assert await one.engine.retry(failed, job.id) == "started"
        again = await over(one, job.id)
        assert (again.status, again.epoch, again.error) == (JobStatus.COMPLETED, 3, None)
        assert len(markers_in(await markdown(one, again))) == 3


async def test_one_retry_starts_when_several_ask_at_once(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 30))
        for epoch in range(2, 7):
            answers = await asyncio.gather(
                *(one.engine.retry(job, f"{job.id}-p{number}") for number in (5, 5, 6, 7))
            )
            assert sorted(answers) == ["running", "running", "running", "started"]
            job = await over(one, job.id)
            assert (job.status, job.epoch, job.pages_completed) == (JobStatus.COMPLETED, epoch, 30)
        assert markers_in(await markdown(one, job)) == [marker(1, number) for number in range(1, 31)]


async def test_nothing_is_harmed_when_a_retry_comes_with_an_old_view_of_the_job(tmp_path: Path) -> None:
    """Two people look at the same finished job; the first one's retry is over when the second asks."""
    async with quire(tmp_path) as one:
        old = await convert(one, marked_pdf(tmp_path / "a.pdf", 10))
        records = await pages(one, old)
        assert await one.engine.retry(old, f"{old.id}-p2") == "started"
        new = await over(one, old.id)
        await one.parts.jobs.restore_pages(old.id, records.values())
        assert await one.parts.jobs.retry(old, "pages", [3]) == "running"
        job = await job_of(one, old.id)
        assert (job.status, job.epoch) == (JobStatus.COMPLETED, new.epoch)
        assert await one.engine.retry(job, f"{job.id}-p3") == "started"
        assert (await over(one, job.id)).pages_completed == 10


async def test_the_same_key_starts_one_retry_when_repeated(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 2))
        assert await one.engine.retry(job, f"{job.id}-p1", key="k1") == "started"
        job = await over(one, job.id)
        assert await one.engine.retry(job, f"{job.id}-p1", key="k1") == "repeated"
        assert (await job_of(one, job.id)).epoch == 2


async def test_units_wait_when_the_object_store_was_away(tmp_path: Path) -> None:
    document = marked_pdf(tmp_path / "a.pdf", 20)
    async with quire(tmp_path, kinds=None, JOB_MAX_ATTEMPTS="1") as one:
        accepted = await upload(one, document)
        blocked = block_writes(one, tmp_path)
        async with worker(one, STAGES):

            async def waits() -> bool:
                work = pairs(await one.connection.command("HGETALL", f"job:{{{accepted.job_id}}}:work"))
                entries = [json.loads(entry) for entry in work.values()]
                assert not any(entry["f"] for entry in entries), "no attempt is counted"
                return any(entry["nb"] for entry in entries)

            await until(waits, "a unit waits for the object store")
            blocked.unlink()
            job = await over(one, accepted.job_id)
        assert (job.status, job.pages_completed, job.pages_failed) == (JobStatus.COMPLETED, 20, 0)
        depths = [await one.parts.queues.depth(kind) for kind in UnitKind]
        assert not any(depth["dead"] for depth in depths)


async def test_a_unit_is_given_up_with_a_dead_letter_when_it_fails_each_time(tmp_path: Path) -> None:
    async def failing(claim: Claim, parts: Parts) -> None:
        raise QuireError("The reader does not answer.", retryable=True)

    document = marked_pdf(tmp_path / "a.pdf", 3)
    async with quire(tmp_path, kinds=None, JOB_MAX_ATTEMPTS="3") as one:
        accepted = await upload(one, document)
        async with worker(one, {**STAGES, UnitKind.READ: failing}):
            job = await over(one, accepted.job_id)
            assert (job.status, job.pages_failed) == (JobStatus.FAILED, 3)
            [letter] = await one.parts.queues.dead_letters(UnitKind.READ)
            assert (letter.job_id, letter.unit) == (job.id, "c0-2")
            assert "reader" in letter.reason
            records = await pages(one, job)
            assert {(record.error or {})["code"] for record in records.values()} == {QuireError.code}
            assert {record.attempts for record in records.values()} == {3}
        # Mended, and asked for again, it is read after all.
        async with worker(one, STAGES):
            assert await one.engine.retry(job, job.id) == "started"
            assert (await over(one, job.id)).pages_completed == 3


async def test_a_page_keeps_its_local_text_when_its_better_reader_can_not_be_had(tmp_path: Path) -> None:
    """Its text was stored with its chunk; the reader that the page waits for fails each time."""

    async def read_and_put_off(claim: Claim, parts: Parts) -> None:
        """As for a page with a text layer that AI should look at too."""
        waiting = _WaitingReader(claim, parts)
        await waiting.chunk()

    class _WaitingReader(PageReader):
        def _waits(self, page: object) -> bool:
            return True

    async def unreachable(claim: Claim, parts: Parts) -> None:
        raise QuireError("The reader does not answer.", retryable=True)

    async with quire(tmp_path, kinds=None) as one:
        stages = {**STAGES, UnitKind.READ: read_and_put_off, UnitKind.PAGE: unreachable}
        async with worker(one, stages):
            job = await convert(one, marked_pdf(tmp_path / "a.pdf", 3))
        assert (job.status, job.pages_completed, job.pages_failed) == (JobStatus.COMPLETED, 3, 0)
        records = await pages(one, job)
        assert {record.source for record in records.values()} == {PageSource.MUPDF_FALLBACK}
        assert all(QuireError.code in record.reasons for record in records.values())
        assert markers_in(await markdown(one, job)) == [marker(1, number) for number in range(1, 4)]
        assert (await one.parts.queues.depth(UnitKind.PAGE))["dead"] == 3


async def test_unit_has_a_dead_letter_when_it_was_started_too_often(tmp_path: Path) -> None:
    """Its workers died each time, which is written into its record as their deaths would."""
    async with quire(tmp_path, kinds=None) as one:
        job_id = (await upload(one, marked_pdf(tmp_path / "a.pdf", 1))).job_id
        key = f"job:{{{job_id}}}:work"
        [(unit, entry)] = pairs(await one.connection.command("HGETALL", key)).items()
        await one.connection.command("HSET", key, unit, json.dumps({**json.loads(entry), "s": 50}))
        async with worker(one, STAGES):
            ended = await over(one, job_id)
        assert ended.status is JobStatus.FAILED
        [letter] = await one.parts.queues.dead_letters(UnitKind.SPLIT)
        assert (letter.job_id, "too often" in letter.reason) == (job_id, True)
