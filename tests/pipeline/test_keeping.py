"""What is kept, for how long, and what never is: secrets in the clear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quire.bootstrap import Runtime
from quire.domain.job import JobOptions, JobSecrets, JobStatus, UnitKind
from quire.errors import MissingError
from quire.pipeline.intake.direct_uploads import DirectUploads
from quire.pipeline.intake.sealing import Sealer
from quire.pipeline.intake.upload_intake import Submission
from quire.pipeline.worker import STAGES
from tests.support.clocks import ShiftedClock
from tests.support.coordination_servers import free_port
from tests.support.marked_documents import marked_pdf, markers_in
from tests.support.running import TEAM, at_rest, convert, job_of, markdown, over, quire, upload, worker
from tests.support.stored_files import bytes_below
from tests.support.waiting import until

HOUR_S = 3600.0


@pytest.mark.parametrize(("kept", "kept_s", "longer_s"), [("2h", 2 * HOUR_S, HOUR_S), ("10m", 600, 600)])
async def test_the_objects_of_a_job_are_deleted_when_its_time_is_up(
    tmp_path: Path, kept: str, kept_s: float, longer_s: float
) -> None:
    """They outlive the record by as long again, an hour at most."""
    clock = ShiftedClock()
    async with quire(tmp_path, clock=clock, JOB_TTL=kept) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 3))
        await at_rest(one)
        folder = tmp_path / "data/objects/jobs" / job.id
        clock.shift_s += kept_s
        younger = await convert(one, marked_pdf(tmp_path / "b.pdf", 3, seed=2))
        assert folder.exists(), "objects outlive the record, so that none points to nothing"
        clock.shift_s += longer_s
        await until(lambda: not folder.exists(), "the objects are deleted")
        assert (tmp_path / "data/objects/jobs" / younger.id).exists()
        with pytest.raises(MissingError):
            await markdown(one, job)


async def test_nothing_is_deleted_when_a_document_waits_longer_than_results_are_kept(tmp_path: Path) -> None:
    """It was accepted, so it is read, however long the queue is; its time begins with its end."""
    clock = ShiftedClock()
    async with quire(tmp_path, kinds=None, clock=clock, JOB_TTL="1m") as one:
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 3))
        left_ms = await one.connection.command("PTTL", f"job:{{{accepted.job_id}}}")
        assert left_ms > 7 * 24 * HOUR_S * 1000
        due = await one.connection.command("ZSCORE", "jobs:expiry", accepted.job_id)
        clock.shift_s += 3 * HOUR_S

        async def looked_at() -> bool:
            return float(await one.connection.command("ZSCORE", "jobs:expiry", accepted.job_id)) > float(due)

        await until(looked_at, "the housekeeper has put off deleting")
        async with worker(one, STAGES):
            job = await over(one, accepted.job_id)
            assert len(markers_in(await markdown(one, job))) == 3
            assert await one.connection.command("PTTL", f"job:{{{job.id}}}") <= 60_000
            clock.shift_s += 3 * HOUR_S
            folder = tmp_path / "data/objects/jobs" / job.id
            await until(lambda: not folder.exists(), "the objects are deleted")


async def test_an_upload_that_never_became_a_job_is_deleted_when_its_time_is_up(tmp_path: Path) -> None:
    clock = ShiftedClock()
    async with quire(tmp_path, kinds=None, clock=clock) as one:
        place = await one.engine.intake.begin_upload(Submission(TEAM))
        async with place.writer as out:
            await out.write(b"the process dies before the job is made")
        stored = tmp_path / "data/objects" / place.key
        assert stored.exists()
        clock.shift_s += 7 * HOUR_S
        await until(lambda: not stored.exists(), "the bytes are deleted")


async def test_a_direct_upload_that_no_request_names_is_deleted_when_its_time_is_up(tmp_path: Path) -> None:
    clock = ShiftedClock()
    async with quire(tmp_path, kinds=None, clock=clock) as one:
        uploads = DirectUploads(one.parts)
        unused, used = [await uploads.begin(TEAM, "atlas.pdf", 5) for _ in range(2)]
        for upload in (unused, used):
            async with uploads.writer(upload) as out:
                await out.write(b"bytes")
        await uploads.check(TEAM, used.source)
        folders = [tmp_path / "data/objects/jobs" / upload.owner_id for upload in (unused, used)]
        assert all(len(list(folder.iterdir())) == 2 for folder in folders), "the file and its record"
        clock.shift_s += 7 * HOUR_S
        await until(lambda: not folders[0].exists(), "the unused upload is deleted")
        assert (await uploads.find(TEAM, used.id)).size == 5, "one that a request names stays for two days"
        clock.shift_s += 48 * HOUR_S
        await until(lambda: not folders[1].exists(), "and is deleted then")
        with pytest.raises(MissingError):
            await uploads.find(TEAM, used.id)


async def everything_in_redis(one: Runtime) -> str:
    """Every key and value, as the server shows them."""
    shown: list[str] = []
    cursor = "0"
    while True:
        cursor, names = await one.connection.command("SCAN", cursor, "COUNT", 500)
        for name in names:
            kind = await one.connection.command("TYPE", name)
            question = {
                "hash": ("HGETALL", name),
                "string": ("GET", name),
                "zset": ("ZRANGE", name, 0, -1),
                "stream": ("XRANGE", name, "-", "+"),
            }[kind]
            shown += (name, str(await one.connection.command(*question)))
        if str(cursor) == "0":
            return "\n".join(shown)


async def test_no_secret_is_kept_in_the_clear_when_jobs_have_some(tmp_path: Path) -> None:
    port = free_port()
    words = {name: f"very-secret-{name}" for name in ("password", "prompt", "query", "callback")}
    hidden = JobSecrets(
        password=words["password"],
        prompt=words["prompt"],
        callback_url=f"http://127.0.0.1:{port}/hooks/{words['callback']}?key={words['callback']}",
    )
    link = JobSecrets(source_url=f"http://127.0.0.1:{port}/a.pdf?token={words['query']}")
    document = marked_pdf(tmp_path / "a.pdf", 3, password=words["password"])
    env: dict[str, Any] = {
        "ALLOW_PRIVATE_URLS": "true",
        "CALLBACK_MAX_ATTEMPTS": "2",
        "JOB_MAX_ATTEMPTS": "2",
    }
    async with quire(tmp_path, **env) as one:
        job = await convert(one, document, secrets=hidden)
        assert job.status is JobStatus.COMPLETED, "the password was there when it was needed"
        away = await one.engine.intake.accept_source(
            Submission(TEAM, JobOptions(), link, filename="linked.pdf")
        )
        failed = await over(one, away.job_id)
        assert failed.status is JobStatus.FAILED, "nobody listens there"
        await at_rest(one)
        assert (await one.parts.queues.depth(UnitKind.CALLBACK))["dead"] == 1
        assert (await one.parts.queues.depth(UnitKind.DOWNLOAD))["dead"] == 1
        shown = await everything_in_redis(one)
        assert job.id in shown
        stored = bytes_below(tmp_path / "data")
        assert job.id.encode() in stored, "the append-only file is among them"
        for word in words.values():
            assert word not in shown
            assert word.encode() not in stored


def test_a_seal_opens_only_for_its_own_job_when_the_key_is_right(tmp_path: Path) -> None:
    sealer = Sealer.from_data_dir(tmp_path)
    found = JobSecrets(password="p", prompt="q")
    sealed = sealer.seal("job-1", found)
    assert Sealer.from_data_dir(tmp_path).unseal("job-1", sealed) == found
    for other, job_id in ((sealer, "job-2"), (Sealer.from_secret("another"), "job-1")):
        with pytest.raises(Exception, match="SECRET_KEY"):
            other.unseal(job_id, sealed)
    assert (tmp_path / "secret.key").stat().st_mode & 0o077 == 0


async def test_a_job_is_known_after_a_restart_when_it_was_done_before(tmp_path: Path) -> None:
    document = marked_pdf(tmp_path / "a.pdf", 4, password="pw")
    async with quire(tmp_path) as one:
        done = await convert(one, document, secrets=JobSecrets(password="pw"))
        text = await markdown(one, done)
    async with quire(tmp_path, kinds=None) as one:
        job = await job_of(one, done.id)
        assert await markdown(one, job) == text
        queued = await upload(one, document, secrets=JobSecrets(password="pw"), pages="2")
    async with quire(tmp_path) as one:
        assert (await over(one, queued.job_id)).status is JobStatus.COMPLETED
