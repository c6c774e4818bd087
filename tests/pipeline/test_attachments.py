"""Mails through the whole pipeline: each attachment a document of its own, made once, and never the mail's ruin."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

from quire.bootstrap import Runtime
from quire.coordination.job_records import Claim
from quire.domain.job import JobStatus, MainJob, UnitKind
from quire.pipeline.intake.attachment_jobs import Attachments, office_limits
from quire.pipeline.object_keys import local_document
from quire.pipeline.parts import Parts
from quire.pipeline.stages.split_stage import run_split
from quire.pipeline.worker import STAGES
from quire.reading.files.document_source import inspect
from tests.support.office_files import mail
from tests.support.running import TEAM, at_rest, convert, job_of, markdown, over, quire, upload, worker
from tests.support.waiting import DEADLINE_S

TABLE = b"name,city,sum\nAnn,Rome,1\nBob,Oslo,2\nCy,Bonn,3\n"


async def children(one: Runtime, job: MainJob) -> dict[str, MainJob]:
    """The jobs of a mail's attachments once they have ended, by name."""
    entries = [entry for entry in job.info["attachments"] if entry["job_id"]]
    return {entry["name"]: await over(one, entry["job_id"]) for entry in entries}


async def all_jobs(one: Runtime) -> list[MainJob]:
    await at_rest(one)
    return await one.engine.newest(TEAM, 500, None)


async def test_attachments_are_documents_of_their_own_when_a_mail_is_converted(
    tmp_path: Path, make_pdf: Callable[..., bytes]
) -> None:
    files = {
        "../report.pdf": make_pdf("A report about tides."),
        "table.csv": TABLE,
        "box.zip": b"PK\x05\x06" + bytes(18),
    }
    async with quire(tmp_path) as one:
        job = await convert(one, mail("Please read.", files=files).as_bytes(), pages="1")
        assert job.status is JobStatus.COMPLETED
        text = await markdown(one, job)
        assert "[report.pdf](attachments/report.pdf.md)" in text
        assert "box.zip (application/zip" in text
        found = await children(one, job)
        assert set(found) == {"report.pdf", "table.csv"}
        assert "A report about tides." in await markdown(one, found["report.pdf"])
        assert "| Ann | Rome | 1 |" in await markdown(one, found["table.csv"])
        for name, child in found.items():
            assert (child.source["parent"], child.team, child.filename) == (job.id, TEAM, name)
            assert child.options.pages is None, "the pages that were asked for are those of the mail"
        assert [entry["job_id"] is None for entry in job.info["attachments"]] == [False, False, True]


async def test_attachments_are_made_once_when_the_mail_is_split_again(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, mail(files={"a.csv": TABLE, "b.csv": TABLE}).as_bytes())
        before = await children(one, job)
        assert await one.engine.retry(job, f"{job.id}-split") == "started"
        again = await over(one, job.id)
        after = await children(one, again)
        assert {name: (child.id, child.created_at) for name, child in after.items()} == {
            name: (child.id, child.created_at) for name, child in before.items()
        }
        assert len(await all_jobs(one)) == 3


async def test_attachments_are_made_once_when_a_worker_dies_before_the_mail_is_recorded(
    tmp_path: Path,
) -> None:
    async def split_by_two(claim: Claim, parts: Parts) -> None:
        """The first worker makes them and dies; the second begins from the start."""
        limits = office_limits(claim.job, parts.settings.limits)
        async with local_document(parts.objects, claim.job.content_ref or "") as path:
            info = await parts.pool.run(inspect, str(path), None, 100, limits, timeout_s=DEADLINE_S)
            await Attachments(claim, parts, str(path), info.attachments).create()
        await run_split(claim, parts)

    async with quire(tmp_path, kinds=None) as one, worker(one, {**STAGES, UnitKind.SPLIT: split_by_two}):
        accepted = await upload(one, mail(files={"a.csv": TABLE, "b.txt": b"words of a text"}).as_bytes())
        job = await over(one, accepted.job_id)
        assert {child.status for child in (await children(one, job)).values()} == {JobStatus.COMPLETED}
        assert len(await all_jobs(one)) == 3
        originals = [key for key in await one.parts.objects.keys("jobs") if "/original-" in key]
        assert len(originals) == 3


async def test_mail_completes_when_an_attachment_can_not_be_read(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        job = await convert(one, mail("Still here.", files={"broken.pdf": b"%PDF-1.7\nnothing"}).as_bytes())
        assert job.status is JobStatus.COMPLETED
        assert "Still here." in await markdown(one, job)
        child = (await children(one, job))["broken.pdf"]
        assert child.status is JobStatus.FAILED
        assert (child.error or {})["code"] in ("damaged_document", "empty_document")


async def test_bytes_are_the_same_when_an_attachment_is_larger_than_a_piece(tmp_path: Path) -> None:
    large = b"".join(b"line %09d of a long text\n" % n for n in range(350_000))
    async with quire(tmp_path) as one:
        job = await convert(one, mail(files={"long.txt": large}).as_bytes())
        entry = job.info["attachments"][0]
        child = await job_of(one, entry["job_id"])
        assert (child.size, child.sha256) == (len(large), hashlib.sha256(large).hexdigest())
        await one.engine.cancel(child)


def nested(depth: int) -> EmailMessage:
    message = mail("innermost", files={"x.csv": TABLE, "y.csv": TABLE})
    for level in range(depth):
        outer = mail(f"level {level}")
        outer.add_attachment(message)
        outer.add_attachment(message)
        message = outer
    return message


async def test_the_whole_tree_keeps_to_the_allowance_when_mails_are_in_mails(tmp_path: Path) -> None:
    async with quire(tmp_path, MAX_ATTACHMENTS="5", MAX_ATTACHMENT_DEPTH="9") as one:
        job = await convert(one, nested(4).as_bytes())
        assert job.status is JobStatus.COMPLETED
        found = await all_jobs(one)
        assert 3 <= len(found) <= 6
        assert {one_job.status for one_job in found} == {JobStatus.COMPLETED}


async def test_mails_are_not_followed_when_they_are_too_deep(tmp_path: Path) -> None:
    async with quire(tmp_path, MAX_ATTACHMENT_DEPTH="1") as one:
        job = await convert(one, nested(1).as_bytes())
        inner = next(iter((await children(one, job)).values()))
        assert "x.csv (text/csv, " in await markdown(one, inner)
        assert all(entry["job_id"] is None for entry in inner.info["attachments"])
        assert len(await all_jobs(one)) == 3


async def test_attachments_stop_when_their_mail_is_cancelled(tmp_path: Path) -> None:
    kinds = (UnitKind.SPLIT, UnitKind.CALLBACK)
    async with quire(tmp_path, kinds=kinds) as one:
        accepted = await upload(one, mail(files={"a.csv": TABLE}).as_bytes())
        while "attachments" not in (job := await job_of(one, accepted.job_id)).info:
            await one.engine.wait(TEAM, accepted.job_id, 0.2)
        await one.engine.cancel(job)
        child = await job_of(one, job.info["attachments"][0]["job_id"])
        assert child.status is JobStatus.CANCELLED
