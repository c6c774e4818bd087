"""Accepts documents: checks a request to convert, stores its bytes, and creates its job once (with dedupe)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from quire.coordination.job_records import NewJob
from quire.coordination.job_store import JobStore
from quire.domain.delivery import Delivery, Destination
from quire.domain.job import JobOptions, JobSecrets, JobStatus, Mode, job_id_for_key, new_job_id
from quire.domain.page_ranges import PageRanges
from quire.domain.payer import Payer, current_payer
from quire.errors import (
    OverloadedError,
    RequestError,
    StateConflictError,
)
from quire.links import check_url, safe_filename, starting_point
from quire.objects.buckets import in_bucket
from quire.objects.object_store import ObjectWriter
from quire.pipeline.intake.direct_uploads import DirectUploads, is_direct_upload
from quire.pipeline.intake.local_files import LocalFile, open_local_file
from quire.pipeline.object_keys import FILE_SCHEME, file_ref, original_key, text_ending
from quire.pipeline.parts import Parts
from quire.pipeline.stages.download_stage import buckets_of, link_policy
from quire.pipeline.stages.export_stage import prefix_of
from quire.pipeline.upkeep.job_journal import write_accepted
from quire.pipeline.upkeep.retention import schedule_retention
from quire.reading.ocr import page_ocr
from quire.reading.ocr.page_ocr import OcrOptions

T = TypeVar("T")

_WAIT_S = 2.0
_POLL_S = 0.01


async def find_or_reserve_id(
    jobs: JobStore,
    content: tuple[str, str],
    own_id: str,
    look: Callable[[str], Awaitable[tuple[T | None, bool]]],
) -> T | None:
    """Returns what `look` finds under the id that is registered for this content (a team and a fingerprint).

    Returns None if there is nothing; own_id is registered then, and the caller must create it at once. `look` returns
    what it found and, if that is nothing, whether another process may still be creating it.
    """
    team, fingerprint = content
    loop = asyncio.get_running_loop()
    until = loop.time() + _WAIT_S
    while True:
        seen = await jobs.job_for_content(team, fingerprint)
        if seen == own_id:  # the process that registered it may have died right after
            return None
        found, may_come = await look(seen) if seen else (None, False)
        if found is not None:
            return found
        if may_come and loop.time() < until:  # another process is creating it, unless it has died
            await asyncio.sleep(_POLL_S)
        elif await jobs.register_content(team, fingerprint, own_id, seen) == own_id:
            return None


_UPLOAD_KEPT_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Submission:
    """A request to convert, checked but not yet accepted."""

    team: str
    options: JobOptions = field(default_factory=JobOptions)
    secrets: JobSecrets = field(default_factory=JobSecrets)
    filename: str = ""
    force: bool = False
    idempotency_key: str | None = None
    delivery: Delivery | None = None
    """Where the result is put beside our own store; None if it stays there only."""
    payer: Payer | None = field(default_factory=current_payer)


@dataclass(frozen=True, slots=True)
class Accepted:
    job_id: str
    status: JobStatus
    deduplicated: bool


@dataclass(frozen=True, slots=True)
class Upload:
    """Where the bytes of a document are written whose job does not exist yet."""

    job_id: str
    key: str
    writer: ObjectWriter


class UploadIntake:
    """Accepts documents: uploads, links, files of this machine."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def check_room(self) -> None:
        """Raises OverloadedError when more documents wait than the bound allows, and DiskFullError."""
        self._parts.disk.refuse_if_full()
        bound = self._parts.settings.limits.queue_max_documents
        waiting = await self._parts.jobs.count_unfinished()
        if waiting >= bound:
            raise OverloadedError(
                f"{waiting} documents are waiting, the most allowed is {bound}. Try again shortly.",
                retry_after_s=5.0,
            )

    def check(self, submission: Submission) -> None:
        """Raises RequestError for what can be known to be wrong before any byte is taken."""
        PageRanges.parse(submission.options.pages)
        if submission.options.mode is Mode.AI and not self._parts.readers.ai:
            raise RequestError(
                "mode=ai needs an AI provider, and none is configured. Use mode=auto or local."
            )
        self._check_languages(submission.options.ocr_languages)
        if submission.secrets.callback_url:
            check_url(submission.secrets.callback_url, link_policy(self._parts))
        if submission.secrets.source_url:
            file = self.local_source(submission.secrets.source_url)
            if file is not None:
                with file:
                    pass
        if submission.delivery and submission.delivery.destination is Destination.PREFIX:
            prefix_of(self._parts, submission.delivery.result_to)

    def _check_languages(self, languages: str | None) -> None:
        if not languages or not self._parts.readers.ocr:
            return
        options = replace(OcrOptions.of(self._parts.settings.ocr), languages=languages)
        unknown = page_ocr.unknown_languages(options)
        if unknown:
            known = ", ".join(page_ocr.languages(options)) or "none"
            raise RequestError(
                f"ocr_languages: there is no model for {', '.join(unknown)} here. Models for clean scans: {known}; "
                "the careful reader reads the Latin letters of Europe, Chinese (chi_sim, chi_tra) and Japanese (jpn)."
            )

    def local_source(self, url: str) -> LocalFile | None:
        """The file that a permitted `file://` source names, open; None for a direct upload, a permitted link or object.

        Raises RequestError, LinkRefusedError, DownloadError or TooLargeError.
        """
        if is_direct_upload(url):
            return None
        if in_bucket(url):
            buckets_of(self._parts).check(url)
            return None
        if not url.startswith("file:"):
            starting_point(url, link_policy(self._parts))
            return None
        settings = self._parts.settings
        return open_local_file(url, settings.downloads.files_base, settings.limits.max_upload_bytes)

    async def begin_upload(self, submission: Submission) -> Upload:
        """Opens a writer for the bytes, which are deleted after some hours if no job is created."""
        job_id = self._job_id(submission)
        await self._parts.jobs.register_objects(job_id, _UPLOAD_KEPT_S)
        key = original_key(job_id, submission.filename)
        return Upload(job_id, key, self._parts.objects.writer(key))

    async def accept_upload(
        self, submission: Submission, upload: Upload, source: dict[str, str] | None = None
    ) -> Accepted:
        """Creates the job of an upload, or returns the job that already has this content and these options."""
        writer = upload.writer
        if writer.size == 0:
            await self._parts.objects.delete(upload.key)
            raise RequestError("The file is empty.")
        fingerprint = self._fingerprint(submission, writer.sha256)
        same = None
        if not submission.force and not submission.idempotency_key:
            same = await self._same_job(submission.team, fingerprint, upload.job_id)
        if same is None:
            new = self._new_job(
                submission,
                upload.job_id,
                source=source or {"kind": "upload"},
                size=writer.size,
                sha256=writer.sha256,
                fingerprint=fingerprint,
                content_ref=upload.key,
            )
            try:
                accepted = await self._create(new)
            except StateConflictError:
                await self._parts.objects.delete(upload.key)
                raise
            if not accepted.deduplicated:
                if submission.idempotency_key and not submission.force:
                    await self._remember(submission.team, fingerprint, accepted.job_id)
                return accepted
            same = accepted
        await self._parts.objects.delete(upload.key)
        return same

    async def accept_source(self, submission: Submission) -> Accepted:
        """Creates the job of a link (fetched later) or of a local file (copied now)."""
        url = submission.secrets.source_url or ""
        file = self.local_source(url)
        if file is not None:
            with file:
                upload = await self.begin_upload(submission)
                async with upload.writer:
                    async for piece in file.pieces():
                        await upload.writer.write(piece)
            return await self.accept_upload(submission, upload, {"kind": "file", "url": url})
        parts = urlsplit(url)
        if is_direct_upload(url):
            return await self._accept_direct(submission, url)
        job_id = self._job_id(submission)
        if in_bucket(url):
            new = self._new_job(submission, job_id, source={"kind": "bucket", "url": url})
        else:
            shown = {"kind": "link", "url": f"{parts.scheme}://{parts.hostname or ''}{parts.path}"}
            new = self._new_job(submission, job_id, source=shown)
        return await self._create(new)

    async def _accept_direct(self, submission: Submission, url: str) -> Accepted:
        """Creates the job of a file that is in the object store; the worker checks and hashes it."""
        found = await DirectUploads(self._parts).check(submission.team, url)
        named = submission if submission.filename else replace(submission, filename=found.filename)
        return await self._create(self._new_job(named, self._job_id(named), source={"kind": "upload"}))

    async def accept_path(self, submission: Submission, path: Path) -> Accepted:
        """Creates the job of a file that the user of `quire convert` named; it is read in place, without a copy."""
        new = self._new_job(
            submission,
            self._job_id(submission),
            source={"kind": "file"},
            size=_size(path),
            content_ref=file_ref(path),
        )
        return await self._create(new)

    def _job_id(self, submission: Submission) -> str:
        if submission.idempotency_key:
            return job_id_for_key(submission.team, submission.idempotency_key)
        return new_job_id()

    def _new_job(self, submission: Submission, job_id: str, **found: Any) -> NewJob:
        jobs = self._parts.settings.jobs
        found.setdefault("fingerprint", self._fingerprint(submission, submission.secrets.source_url or ""))
        return NewJob(
            id=job_id,
            team=submission.team,
            options=submission.options,
            filename=safe_filename(submission.filename) if submission.filename else "",
            sealed=self._parts.sealer.seal(job_id, submission.secrets),
            has_callback=bool(submission.secrets.callback_url),
            export=submission.delivery.as_dict() if submission.delivery else None,
            document_timeout_s=jobs.processing_timeout_s,
            page_timeout_s=jobs.timeout_per_page_s,
            payer=submission.payer,
            **found,
        )

    async def _create(self, new: NewJob) -> Accepted:
        call = secrets.token_hex(4)
        await schedule_retention(self._parts, new.id)
        if not (new.content_ref or "").startswith(FILE_SCHEME):  # files of `quire convert` are not kept
            await write_accepted(self._parts.objects, new, call)
        taken = await self._parts.jobs.create(new, call)
        await schedule_retention(self._parts, new.id)
        if taken is None:
            return Accepted(new.id, JobStatus.QUEUED, deduplicated=False)
        if taken.fingerprint != new.fingerprint:
            raise StateConflictError(
                "This Idempotency-Key was used before with another document or other options."
            )
        return Accepted(new.id, taken.status, deduplicated=True)

    def _fingerprint(self, submission: Submission, content: str) -> str:
        hidden = submission.secrets
        return self._parts.sealer.fingerprint(
            content + text_ending(submission.filename),
            submission.options.identity(),
            *(hidden.password, hidden.prompt, hidden.callback_url),
            *(submission.delivery.identity if submission.delivery else ()),
        )

    async def _same_job(self, team: str, fingerprint: str, job_id: str) -> Accepted | None:
        """A running or completed job of the same team with the same content and options.

        None if there is none; job_id is registered for them then, and must be created at once.
        """

        async def look(seen: str) -> tuple[Accepted | None, bool]:
            job = await self._parts.jobs.get(seen)
            if job is None:
                return None, True
            over = job.status in (JobStatus.FAILED, JobStatus.CANCELLED)
            return None if over or job.result_deleted else Accepted(
                seen, job.status, deduplicated=True
            ), False

        return await find_or_reserve_id(self._parts.jobs, (team, fingerprint), job_id, look)

    async def _remember(self, team: str, fingerprint: str, job_id: str) -> None:
        seen = await self._parts.jobs.job_for_content(team, fingerprint)
        await self._parts.jobs.register_content(team, fingerprint, job_id, seen)


def _size(path: Path) -> int:
    return path.stat().st_size
