"""Many documents at once: none starves, none is done twice, none sees another team's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quire.domain.job import JobStatus, chunk_places
from quire.errors import MissingError, OverloadedError, StateConflictError
from tests.support.marked_documents import marked_pdf
from tests.support.running import TEAM, job_of, over, quire, upload
from tests.support.waiting import until


async def test_a_short_document_is_done_first_when_a_long_one_was_there_before_it(tmp_path: Path) -> None:
    """Both are in the queue before a worker starts, so the order doesn't depend on the machine's speed."""
    async with quire(tmp_path, kinds=None) as one:
        first = await upload(one, marked_pdf(tmp_path / "long.pdf", 3000))
        second = await upload(one, marked_pdf(tmp_path / "short.pdf", 1, seed=2))
    async with quire(tmp_path) as one:
        done = await over(one, second.job_id)
        assert done.status is JobStatus.COMPLETED
        still = await job_of(one, first.job_id)
        assert (still.status, still.total_pages) == (JobStatus.PROCESSING, 3000)
        await one.engine.cancel(still)


async def test_a_document_never_has_more_pages_out_than_its_window_when_read(tmp_path: Path) -> None:
    window, chunk = 24, 8
    env: dict[str, Any] = {"PAGES_IN_QUEUE_PER_DOCUMENT": str(window), "READER_CHUNK_PAGES": str(chunk)}
    async with quire(tmp_path, **env) as one:
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 400))
        seen = 0

        async def ended() -> bool:
            nonlocal seen
            work = await one.parts.jobs.working(accepted.job_id)
            places = [chunk_places(unit) for unit in work if unit.startswith("c")]
            out = sum(last - first + 1 for first, last in places)
            assert out <= window
            seen = max(seen, out)
            return (await job_of(one, accepted.job_id)).status.terminal

        await until(ended, "the document is done")
        assert seen == window
        assert (await job_of(one, accepted.job_id)).pages_completed == 400


async def test_the_same_job_answers_when_the_same_document_comes_again(tmp_path: Path) -> None:
    document = marked_pdf(tmp_path / "a.pdf", 2)
    async with quire(tmp_path) as one:
        first = await upload(one, document)
        running = await upload(one, document)
        await over(one, first.job_id)
        done = await upload(one, document)
        assert not first.deduplicated
        assert (running.job_id, running.deduplicated) == (first.job_id, True)
        assert (done.job_id, done.status, done.deduplicated) == (first.job_id, JobStatus.COMPLETED, True)
        others = [
            await upload(one, document, force=True),
            await upload(one, document, pages="1"),
            await upload(one, document, team="another"),
        ]
        assert len({first.job_id, *(other.job_id for other in others)}) == 4
        assert not any(other.deduplicated for other in others)
        assert len(list((tmp_path / "data/objects/jobs" / first.job_id).glob("original-*"))) == 1


async def test_one_job_is_made_when_the_same_document_comes_many_times_at_once(tmp_path: Path) -> None:
    document = marked_pdf(tmp_path / "a.pdf", 2)
    async with quire(tmp_path, kinds=None) as one:
        answers = await asyncio.gather(*(upload(one, document) for _ in range(12)))
        assert len({answer.job_id for answer in answers}) == 1
        assert [answer.deduplicated for answer in answers].count(False) == 1
        assert len(list((tmp_path / "data/objects/jobs").rglob("original-*"))) == 1


async def test_a_new_job_is_made_when_the_earlier_one_failed_or_was_lost(tmp_path: Path) -> None:
    document = marked_pdf(tmp_path / "a.pdf", 2)
    async with quire(tmp_path, kinds=None) as one:
        first = await upload(one, document)
        await one.engine.cancel(await job_of(one, first.job_id))
        second = await upload(one, document)
        assert (second.deduplicated, second.job_id != first.job_id) == (False, True)
        # Somebody died between answering for the document and making its job.
        await one.connection.command("DEL", f"job:{{{second.job_id}}}")
        third = await upload(one, document)
        assert (third.deduplicated, third.job_id != second.job_id) == (False, True)
        assert (await upload(one, document)).job_id == third.job_id


async def test_a_key_makes_one_job_when_a_request_is_repeated(tmp_path: Path) -> None:
    document, other = marked_pdf(tmp_path / "a.pdf", 2), marked_pdf(tmp_path / "b.pdf", 2, seed=2)
    async with quire(tmp_path) as one:
        answers = await asyncio.gather(*(upload(one, document, key="k") for _ in range(5)))
        assert len({answer.job_id for answer in answers}) == 1
        assert [answer.deduplicated for answer in answers].count(False) == 1
        with pytest.raises(StateConflictError):
            await upload(one, other, key="k")
        kept = list((tmp_path / "data/objects/jobs" / answers[0].job_id).glob("original-*"))
        assert len(kept) == 1, "nothing stays of what was refused"
        assert (await upload(one, document, key="k", team="another")).job_id != answers[0].job_id
        job = await over(one, answers[0].job_id)
        assert (job.status, job.pages_completed) == (JobStatus.COMPLETED, 2)
        assert (await upload(one, document, key="k")).status is JobStatus.COMPLETED


async def test_a_deadline_is_kept_when_the_request_is_repeated_meanwhile(tmp_path: Path) -> None:
    """A repeated request must not put off the look at a job that somebody promised."""
    document = marked_pdf(tmp_path / "a.pdf", 2)
    async with quire(tmp_path, kinds=None) as one:
        accepted = await upload(one, document, key="k", timeout_s=5.0)
        due = int(one.parts.clock.now() * 1000) + 5000
        await one.connection.command("ZADD", "jobs:active", due, accepted.job_id)
        await upload(one, document, key="k", timeout_s=5.0)

        async def by_then() -> bool:
            return (
                float(await one.connection.command("ZSCORE", "jobs:active", accepted.job_id)) <= due + 10_000
            )

        assert await by_then()


async def test_a_team_sees_only_its_own_jobs_when_it_asks(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 1))
        with pytest.raises(MissingError):
            await one.engine.job("another", accepted.job_id)
        assert await one.engine.newest("another", 10, None) == []
        assert [job.id for job in await one.engine.newest(TEAM, 10, None)] == [accepted.job_id]


async def test_no_more_documents_are_taken_when_too_many_wait(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None, QUEUE_MAX_DOCUMENTS="2") as one:
        for seed in (1, 2):
            await one.engine.intake.check_room()
            await upload(one, marked_pdf(tmp_path / f"{seed}.pdf", 1, seed=seed))
        with pytest.raises(OverloadedError) as caught:
            await one.engine.intake.check_room()
        assert caught.value.retryable
