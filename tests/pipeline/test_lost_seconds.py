"""The coordination server loses its last seconds, or everything, while the fleet runs: what was accepted is kept."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from quire.bootstrap import Runtime
from quire.coordination import keys
from quire.coordination.answer_index import AnswerIndex
from quire.coordination.batch_callbacks import BatchCallbacks
from quire.coordination.job_records import NewJob
from quire.coordination.recovered_jobs import RecoveredJobs
from quire.coordination.server_mark import ServerMark
from quire.dispatch.answer_cache import AnswerCache, CachedAnswer
from quire.domain.document_batch import BatchItem, DocumentBatch
from quire.domain.job import JobOptions, JobSecrets, JobStatus, UnitKind, job_id_for_key, new_job_id
from quire.errors import CoordinationError, MissingError
from quire.objects.object_store import ObjectStore
from quire.pipeline.document_batches import DocumentBatches
from quire.pipeline.object_keys import elements_ref
from quire.pipeline.upkeep.batch_notifier import BatchNotifier
from quire.pipeline.upkeep.job_journal import JobRecovery, write_accepted
from quire.pipeline.upkeep.reconciler import Reconciler
from tests.support.clocks import ShiftedClock
from tests.support.coordination_servers import ask, free_port, says, spawn_server
from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.running import TEAM, at_rest, convert, job_of, markdown, over, quire, uncaged, upload
from tests.support.waiting import DEADLINE_S, until, wait_until

from . import breaking

READ_CHUNK = "quire.reading.local_reader.read_chunk"


class Forgetful:
    """A server that has after `lose` what it had at `keep`."""

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self._process = spawn_server(self.port, self._home)
        wait_until(lambda: says(self.port, b"PONG", "PING"))

    def keep(self) -> None:
        assert b"OK" in ask(self.port, "SAVE")

    def lose(self) -> None:
        self.kill()
        self.start()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(DEADLINE_S)


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[Forgetful]:
    home = tmp_path / "server"
    home.mkdir()
    server = Forgetful(home)
    yield server
    server.kill()


async def lose_everything(one: Runtime) -> None:
    await one.connection.command("FLUSHALL")


async def test_a_lost_job_is_worth_another_try_when_it_was_not_put_back_yet(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 1))
        batch = DocumentBatch(TEAM, 0.0, (BatchItem("a.pdf", accepted.job_id),))
        batches = DocumentBatches(one.parts)
        await lose_everything(one)
        with pytest.raises(CoordinationError) as refused:
            await job_of(one, accepted.job_id)
        assert refused.value.retryable
        with pytest.raises(CoordinationError):
            await job_of(one, f"{accepted.job_id}-p1")
        with pytest.raises(CoordinationError):
            await batches.progress(batch)
        with pytest.raises(MissingError):
            await job_of(one, new_job_id())
        await Reconciler(one.parts, one.connection).reconcile()
        assert (await job_of(one, accepted.job_id)).status is JobStatus.QUEUED
        assert (await batches.progress(batch)).count("queued") == 1


async def test_the_same_document_is_recognised_when_its_job_was_put_back(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        document = marked_pdf(tmp_path / "a.pdf", 1)
        cancelled = (await upload(one, document)).job_id
        await one.engine.cancel(await job_of(one, cancelled))
        first = (await upload(one, document)).job_id
        assert first != cancelled
        await lose_everything(one)
        await Reconciler(one.parts, one.connection).reconcile()
        again = await upload(one, document)
        assert (again.job_id, again.deduplicated) == (first, True)


async def test_a_later_job_stays_registered_when_an_earlier_one_is_put_back(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        document = marked_pdf(tmp_path / "a.pdf", 1)
        first = (await upload(one, document)).job_id
        await lose_everything(one)
        later = (await upload(one, document)).job_id
        assert later != first
        await Reconciler(one.parts, one.connection).reconcile()
        assert (await upload(one, document)).job_id == later


async def test_every_document_ends_when_the_server_forgets_its_last_seconds(
    tmp_path: Path, forgetful: Forgetful, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some are unknown afterwards, some are held by a worker that has finished them, some have lost their chunks."""
    monkeypatch.setattr(READ_CHUNK, breaking.linger)
    clock = ShiftedClock()
    async with uncaged(tmp_path, clock=clock, REDIS_URL=forgetful.url, READER_CHUNK_PAGES="4") as one:
        before = (await upload(one, marked_pdf(tmp_path / "a.pdf", 40, seed=1))).job_id

        async def begun() -> bool:
            return (await job_of(one, before)).pages_completed >= 8

        await until(begun, "some pages are read")
        forgetful.keep()
        after = (await upload(one, marked_pdf(tmp_path / "b.pdf", 4, seed=2))).job_id
        for job_id in (before, after):
            assert (await over(one, job_id)).status is JobStatus.COMPLETED

            async def journaled(job_id: str = job_id) -> bool:
                return await one.parts.objects.size(f"jobs/{job_id}/finished.json") is not None

            await until(journaled, "the end is in the journal")
        forgetful.lose()
        assert (await job_of(one, before)).status is JobStatus.PROCESSING
        report = await Reconciler(one.parts, one.connection).reconcile()
        assert report is not None
        assert report.finished == 1, "the one that was accepted later"
        assert (await job_of(one, after)).status is JobStatus.COMPLETED

        async def ended() -> bool:
            clock.shift_s += 5
            return (await job_of(one, before)).status.terminal

        await until(ended, "the document that had been finished")
        job = await job_of(one, before)
        assert (job.status, job.pages_completed, job.pages_failed) == (JobStatus.COMPLETED, 40, 0)
        assert markers_in(await markdown(one, job)) == [marker(1, number) for number in range(1, 41)]
        await at_rest(one)


async def test_all_jobs_are_put_back_when_a_running_server_is_flushed(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=[kind for kind in UnitKind if kind is not UnitKind.MERGE]) as one:
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 2))
        reconciler = Reconciler(one.parts, one.connection)
        assert await reconciler.reconcile() is not None
        assert await reconciler.reconcile() is None, "nothing was lost since"
        await lose_everything(one)
        report = await reconciler.reconcile()
        assert report is not None
        assert report.restarted == 1
    async with quire(tmp_path) as one:
        assert (await over(one, accepted.job_id)).pages_completed == 2
        await at_rest(one)


async def test_nothing_is_compared_when_the_embedded_server_was_stopped_with_all_its_data(
    tmp_path: Path,
) -> None:
    """A comparison lists the whole object plane."""
    async with quire(tmp_path, kinds=None) as one:
        assert await Reconciler(one.parts, one.connection).reconcile() is not None
    async with quire(tmp_path, kinds=None) as one:
        assert await Reconciler(one.parts, one.connection).reconcile() is None
        pid = re.search(r"process_id:(\d+)", await one.connection.command("INFO", "server"))
        assert pid is not None
        os.kill(int(pid[1]), signal.SIGKILL)

        async def is_back() -> bool:
            with suppress(CoordinationError):
                return bool(await ServerMark(one.connection).is_missing())
            return False

        await until(is_back, "the server was started again")
    async with quire(tmp_path, kinds=None) as one:
        assert await Reconciler(one.parts, one.connection).reconcile() is not None, (
            "no run was compared since"
        )


async def test_a_callback_of_a_batch_is_due_when_its_entry_was_lost(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        batches, pending = DocumentBatches(one.parts), BatchCallbacks(one.connection, one.parts.clock)
        due, called, silent = (
            DocumentBatch(TEAM, 0.0, (), sealed="sealed"),
            DocumentBatch(TEAM, 0.0, (), sealed="sealed"),
            DocumentBatch(TEAM, 0.0, ()),
        )
        for batch in (due, called, silent):
            await batches.save(batch)
        await batches.callback_ended(called.id)
        await lose_everything(one)
        assert (await JobRecovery(one.parts, one.connection).run()).callbacks == 1
        assert await pending.due(20) == [due.id]
        expiry = await one.connection.command("ZRANGE", keys.EXPIRY, 0, -1)
        assert {due.id, called.id, silent.id} <= set(expiry)


async def test_a_delivered_callback_of_a_batch_stays_delivered_when_its_entry_was_lost(
    tmp_path: Path,
) -> None:
    async with quire(tmp_path, kinds=None) as one:
        batch = DocumentBatch(TEAM, 0.0, ())
        sealed = replace(batch, sealed=one.parts.sealer.seal(batch.id, JobSecrets(callback_url="gopher://x")))
        await DocumentBatches(one.parts).save(sealed)
        pending = BatchCallbacks(one.connection, one.parts.clock)
        await pending.add(batch.id, 0)
        await BatchNotifier(one.engine, pending).check(
            batch.id
        )  # the address is refused, which ends the callback
        assert await one.connection.command("ZCARD", keys.BATCH_CALLBACKS) == 0
        await lose_everything(one)
        assert (await JobRecovery(one.parts, one.connection).run()).callbacks == 0


async def test_the_comparison_is_repeated_when_data_is_lost_during_it(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        mark = ServerMark(one.connection)
        assert await mark.is_missing()
        await mark.begin()
        await lose_everything(one)
        assert not await mark.complete()
        assert await mark.is_missing()


async def test_pages_are_read_again_when_a_merge_finds_their_chunks_gone(tmp_path: Path) -> None:
    document = marked_pdf(tmp_path / "a.pdf", 6, seed=3)
    kinds = [kind for kind in UnitKind if kind is not UnitKind.MERGE]
    async with quire(tmp_path, kinds=kinds, READER_CHUNK_PAGES="2") as one:
        accepted = await upload(one, document)

        async def is_merge_due() -> bool:
            return "merge" in await one.parts.jobs.working(accepted.job_id)

        await until(is_merge_due, "the merge waits")
        records = await one.parts.jobs.pages(accepted.job_id)
        await one.parts.objects.delete(records[3].ref or "")
    async with quire(tmp_path) as one:
        job = await over(one, accepted.job_id)
        assert (job.status, job.pages_completed, job.pages_failed) == (JobStatus.COMPLETED, 6, 0)
        assert markers_in(await markdown(one, job)) == [marker(3, number) for number in range(1, 7)]
        await at_rest(one)


async def test_the_job_fails_when_texts_are_gone_after_each_reading(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=[kind for kind in UnitKind if kind is not UnitKind.MERGE]) as one:
        job_id = (await upload(one, marked_pdf(tmp_path / "a.pdf", 2))).job_id

        async def is_merge_due() -> bool:
            return "merge" in await one.parts.jobs.working(job_id)

        await until(is_merge_due, "the merge waits")
        await one.parts.objects.delete((await one.parts.jobs.pages(job_id))[1].ref or "")
        await one.connection.command("HSET", f"job:{{{job_id}}}", "rereads", 3)
    async with quire(tmp_path) as one:
        job = await over(one, job_id)
        assert job.status is JobStatus.FAILED
        assert "Check the object store" in (job.error or {})["error"]


async def test_pages_are_read_again_when_only_their_elements_are_gone(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 2, seed=5))
    async with quire(tmp_path, kinds=None) as one:
        assert await one.engine.retry(job, f"{job.id}-merge") == "started"
        elements = elements_ref((job.result or {})["key"])
        assert await one.parts.objects.size(elements)
        await one.parts.objects.delete(elements)
    async with quire(tmp_path) as one:
        again = await over(one, job.id)
        assert (again.status, again.pages_completed) == (JobStatus.COMPLETED, 2)
        assert markers_in(await markdown(one, again)) == [marker(5, 1), marker(5, 2)]
        assert await one.parts.objects.size(elements_ref((again.result or {})["key"]))


async def test_stored_answers_are_found_again_when_their_index_was_lost(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        cache = AnswerCache(AnswerIndex(one.connection), one.parts.objects, one.parts.jobs, 3600)
        await cache.keep("abc", CachedAnswer("the text", 0.9))
        await lose_everything(one)
        assert await cache.find(["abc"]) is None
        assert (await JobRecovery(one.parts, one.connection).run()).answers == 1
        assert await cache.find(["abc"]) == (0, CachedAnswer("the text", 0.9))


async def test_a_stored_answer_is_found_when_its_worker_dies_right_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with quire(tmp_path, kinds=None) as one:
        objects = one.parts.objects
        put = objects.put

        async def put_and_die(key: str, data: bytes) -> None:
            await put(key, data)
            raise asyncio.CancelledError

        cache = AnswerCache(AnswerIndex(one.connection), objects, one.parts.jobs, 3600)
        monkeypatch.setattr(objects, "put", put_and_die)
        with pytest.raises(asyncio.CancelledError):
            await cache.keep("abc", CachedAnswer("the text", 0.9))
        assert await cache.find(["abc"]) == (0, CachedAnswer("the text", 0.9))


async def test_a_restored_answer_has_its_owners_and_its_expiry(tmp_path: Path) -> None:
    clock = ShiftedClock()
    async with quire(tmp_path, kinds=None, clock=clock, AI_CACHE_TTL="1h") as one:
        index = AnswerIndex(one.connection)
        cache = AnswerCache(index, one.parts.objects, one.parts.jobs, 3600)
        await cache.keep("abc", CachedAnswer("the text", 0.9), "first-job")
        assert await cache.find(["abc"], "second-job") is not None
        clock.shift_s += 3000
        await lose_everything(one)
        assert (await JobRecovery(one.parts, one.connection).run()).answers == 1
        assert await index.of("first-job") == await index.of("second-job") == ["abc"]
        assert await one.connection.command("PTTL", keys.ai_answer("abc")) <= 600_000
        await lose_everything(one)
        clock.shift_s += 601
        assert (await JobRecovery(one.parts, one.connection).run()).answers == 0

        async def is_deleted() -> bool:
            return not await one.parts.objects.keys("jobs/answer-abc/")

        await until(is_deleted, "the housekeeper deletes what has expired")


async def test_no_answer_is_restored_when_results_are_not_kept(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None, RETAIN_RESULTS="0") as one:
        await one.parts.objects.put("jobs/answer-abc/answer", b"{}")  # of an earlier version
        assert (await JobRecovery(one.parts, one.connection).run()).answers == 0
        assert await AnswerIndex(one.connection).find(["abc"]) == [None]


async def test_a_job_is_its_own_when_a_recovery_created_it_first(tmp_path: Path) -> None:
    """Else its caller would take it for a twin and delete the document."""
    async with quire(tmp_path, kinds=None) as one:
        job_id = new_job_id()
        ref = f"jobs/{job_id}/original-x"
        await one.parts.objects.put(ref, b"%PDF")
        new = NewJob(job_id, "team", JobOptions(), {"kind": "upload"}, "a.pdf", content_ref=ref)
        await write_accepted(one.parts.objects, new, "this-call")
        assert (await JobRecovery(one.parts, one.connection).run()).restarted == 1
        assert await one.parts.jobs.create(new, "this-call") is None
        assert await one.parts.jobs.create(new, "another") is not None


@pytest.mark.parametrize("is_random", [True, False])
async def test_an_accepted_job_is_journaled_by_one_write_when_its_id_is_random(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_random: bool
) -> None:
    job_id = new_job_id() if is_random else job_id_for_key("team", "key")
    objects = ObjectStore.open(str(tmp_path / "objects"), tmp_path / "scratch")
    real, asked = objects.size, list[str]()

    async def counted(key: str) -> int | None:
        asked.append(key)
        return await real(key)

    monkeypatch.setattr(objects, "size", counted)
    new = NewJob(job_id, "team", JobOptions(), {"kind": "upload"}, "a.pdf", content_ref="x")
    await write_accepted(objects, new, "first")
    assert len(asked) == (0 if is_random else 1)
    assert b'"call": "first"' in await objects.get(f"jobs/{job_id}/accepted.json")


async def test_a_deleted_job_stays_deleted_when_its_journal_is_still_there(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 1))
        assert await one.parts.jobs.remove(job, "") == "removed"
        report = await JobRecovery(one.parts, one.connection).run()
        assert (report.finished, report.restarted) == (0, 0)
        known = RecoveredJobs(one.connection, one.parts.queues, one.parts.clock, 60)
        assert await known.known([job.id]) == {job.id}
