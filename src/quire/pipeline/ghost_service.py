"""What the GhostServer facade asks of the pipeline: find a job, tell how it stands, take reports from outside."""

from __future__ import annotations

import math
import secrets
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quire.coordination.ghost_records import Served
from quire.domain.delivery import GhostRequest, GhostStatus, status_of
from quire.domain.job import JobId, JobStatus, MainJob, Mode, PageRecord, UnitKind
from quire.domain.page import PageSource
from quire.domain.page_ranges import PageRanges
from quire.errors import MissingError, NotReadyError, PageError, RequestError
from quire.pipeline.engine import Engine
from quire.pipeline.intake.upload_intake import Accepted, Submission
from quire.pipeline.object_keys import chunk_key
from quire.pipeline.parts import Parts
from quire.pipeline.stages.export_stage import aggregated
from quire.pipeline.stages.read_stage import failed_page, fallen_back

INLINE_BYTES = 1 << 20
_COUNTED_LIVE = 2_000
_AI_SOURCES = (PageSource.AI, PageSource.CACHE, PageSource.BATCH)
_EXPORTING = 99


@dataclass(frozen=True, slots=True)
class Outlook:
    """How long it may still take. `position` 0 means it is being worked on or over; `seconds` None: not known."""

    position: int
    seconds: int | None


@dataclass(frozen=True, slots=True)
class Tally:
    """Pages by how they were read; None where a running document is too long to count at every question."""

    ai_pages: int | None
    text_only_pages: int | None
    ai_pages_succeeded: int | None
    mupdf_fallback_count: int | None
    missing_pages: int | None


@dataclass(frozen=True, slots=True)
class GhostJobState:
    """A job as the facade shows it."""

    job: MainJob
    status: GhostStatus
    progress: int
    tally: Tally
    outlook: Outlook
    delivery: Mapping[str, Any]
    """`s3_url` or `local_path` with `text_len`, or `error`; empty before the export is over."""


@dataclass(frozen=True, slots=True)
class PageReport:
    """What a dispatcher outside says about a page it has read."""

    number: int
    text: str
    provider: str | None = None
    model: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    epoch: int = 0


class Ghost:
    def __init__(self, parts: Parts, engine: Engine) -> None:
        self._parts = parts
        self._engine = engine
        self._records = parts.jobs.ghost

    # ---- for callers ---------------------------------------------------------------------------------------

    async def ahead(self) -> int:
        """Documents that are not over at this moment."""
        return await self._parts.jobs.count_active()

    async def accepted(self, submission: Submission, accepted: Accepted) -> MainJob:
        """The job of a request that was just accepted; from now on its file id names it."""
        if submission.ghost is not None and submission.ghost.file_id:
            await self._records.remember_file(submission.team, submission.ghost.file_id, accepted.job_id)
        return await self._engine.job(submission.team, accepted.job_id)

    async def find(self, team: str, job_or_file_id: str) -> MainJob:
        """The job of this id, or else the newest of the team's jobs for this file id. Raises NotFoundError."""
        try:
            return await self._engine.job(team, job_or_file_id)
        except MissingError:
            job_id = await self._records.job_of_file(team, job_or_file_id)
            if job_id is None:
                raise MissingError(f"There is no job and no file {job_or_file_id[:60]!r}.") from None
            return await self._engine.job(team, job_id)

    async def standing(self, job: MainJob) -> GhostJobState:
        delivery = _delivery(job)
        # A job made by POST /convert has nowhere to be delivered to.
        status = status_of(job.status, delivered=bool(delivery) or job.export is None)
        over = status in (GhostStatus.SUCCESS, GhostStatus.FAILED)
        return GhostJobState(
            job=job,
            status=status,
            progress=job.progress if over or job.status is not JobStatus.COMPLETED else _EXPORTING,
            tally=await self._tally(job),
            outlook=Outlook(0, 0) if over else await self._outlook(job),
            delivery=delivery,
        )

    async def text(self, job: MainJob) -> str | None:
        """The aggregated text of a completed job, unless it is too long to be answered in one piece."""
        if job.status is not JobStatus.COMPLETED or not job.result:
            return None
        text = bytearray()
        async for piece in aggregated(self._parts.objects, job):
            text += piece
            if len(text) > INLINE_BYTES:
                return None
        return text.decode(errors="replace")

    # ---- for a dispatcher outside --------------------------------------------------------------------------

    async def page_done(self, job_id: str, report: PageReport) -> bool:
        """Whether it counts; a page that has a result keeps it. Raises RequestError, NotFoundError, NotReadyError."""
        job = await self._job_with_page(job_id, report.number)
        if not report.text.strip():
            raise RequestError("text: empty. Report a page without text to /internal/page_failed.")
        if job.status.terminal:  # nothing is worth storing
            return await self._report(job, PageRecord(report.number, JobStatus.COMPLETED), report.epoch)
        local = (await self._parts.jobs.pages(job.id, [report.number])).get(report.number)
        raw = report.text.encode()
        token = secrets.token_hex(6)
        key = chunk_key(job.id, job.epoch, f"p{report.number}", f"report-{token}")
        now = self._parts.clock.now()
        record = replace(
            local or PageRecord(report.number, JobStatus.COMPLETED),
            status=JobStatus.COMPLETED,
            source=PageSource.AI,
            reader=None,
            provider=report.provider,
            model=report.model,
            attempts=(local.attempts if local else 0) + 1,
            tokens_in=report.tokens_in,
            tokens_out=report.tokens_out,
            confidence=None,
            words=len(report.text.split()),
            completed_at=now,
            error=None,
            ref=key,
            offset=0,
            length=len(raw),
        )
        await self._parts.objects.put(key, raw)
        counted = False
        try:
            counted = await self._report(job, record, report.epoch)
        finally:
            if not counted:
                await self._parts.objects.delete(key)
        return counted

    async def page_failed(self, job_id: str, number: int, epoch: int = 0) -> bool:
        """The page gets its local text, or says that it has none. Raises NotReadyError before that text is known."""
        job = await self._job_with_page(job_id, number)
        local = (await self._parts.jobs.pages(job.id, [number])).get(number)
        if not job.status.terminal and (local is None or (not local.status.terminal and not local.ref)):
            raise NotReadyError(
                f"Page {number} has not been read on this side yet. Report it again.", retry_after_s=1.0
            )
        now = self._parts.clock.now()
        error = PageError("The page has no text of its own, and whoever was to read it has given it up.")
        attempts = (local.attempts if local else 0) + 1
        record = fallen_back(local, error, attempts, now) or failed_page(number, error, attempts, now, now)
        return await self._report(job, record, epoch)

    async def job_done(self, job_id: str) -> int:
        """Ends the wait for results from outside; answers how many pages got their local text instead."""
        job = await self._any_job(job_id)
        given_up = await self._records.close(job.id, job.content_ref or "")
        if given_up is None:
            raise NotReadyError("The document has not been opened yet. Report it again.", retry_after_s=1.0)
        return given_up

    async def _report(self, job: MainJob, record: PageRecord, epoch: int) -> bool:
        counted = await self._records.report(job.id, record, job.content_ref or "", epoch)
        if counted is None:
            raise NotReadyError("The document has not been opened yet. Report it again.", retry_after_s=1.0)
        return counted

    async def _any_job(self, job_id: str) -> MainJob:
        """Of any team: whoever has the token reads for all of them."""
        parsed = JobId.parse(job_id)
        job = await self._parts.jobs.get(parsed.main) if parsed else None
        if job is None:
            raise MissingError(f"There is no job {job_id[:60]!r}.")
        return job

    async def _job_with_page(self, job_id: str, number: int) -> MainJob:
        job = await self._any_job(job_id)
        if job.ranges and number not in PageRanges.parse(job.ranges):
            raise MissingError(f"Job {job.id} has no page {number}.")
        return job

    # ---- figures -------------------------------------------------------------------------------------------

    async def _tally(self, job: MainJob) -> Tally:
        if job.status is JobStatus.COMPLETED and job.result:
            sources = Counter(dict(job.result["metadata"].get("sources") or {}))
        elif 0 < job.total_pages <= _COUNTED_LIVE:
            records = await self._parts.jobs.pages(job.id)
            sources = Counter(
                one.source.value for one in records.values() if one.status.terminal and one.source
            )
        elif job.total_pages:
            return Tally(self._ai_pages(job, 0), None, None, None, None)
        else:
            return Tally(0, 0, 0, 0, 0)
        succeeded = sum(sources[one.value] for one in _AI_SOURCES)
        late = sources[PageSource.MUPDF_TIMEOUT_FALLBACK.value]
        return Tally(
            ai_pages=self._ai_pages(job, succeeded),
            text_only_pages=sources[PageSource.LOCAL.value],
            ai_pages_succeeded=succeeded,
            mupdf_fallback_count=sources[PageSource.MUPDF_FALLBACK.value] + late,
            missing_pages=late,
        )

    def _ai_pages(self, job: MainJob, succeeded: int) -> int:
        """Pages that were set apart for AI; where there is none of our own, those that AI outside has read."""
        ours = self._parts.readers.ai and job.options.mode is not Mode.LOCAL and not job.options.text_only
        return max(job.slow_pages, succeeded) if ours else succeeded

    async def _outlook(self, job: MainJob) -> Outlook:
        request = GhostRequest.from_dict(job.export) if job.export else None
        position = 0
        if job.status is JobStatus.QUEUED:
            waiting = 0
            for kind in (UnitKind.DOWNLOAD, UnitKind.SPLIT):
                depth = await self._parts.queues.depth(kind)
                waiting += depth["waiting"] + depth["delayed"]
            position = max(1, min((request.ahead if request else waiting) + 1, waiting))
        served = await self._records.served()
        return Outlook(position, seconds_left(job, served, position, self._parts.clock.now()))


def _delivery(job: MainJob) -> Mapping[str, Any]:
    """What came of the export, unless that was of an earlier run."""
    found = job.exported or {}
    return found if found.get("epoch") == job.epoch and job.status is JobStatus.COMPLETED else {}


def seconds_left(job: MainJob, served: Sequence[Served], position: int, now: float) -> int | None:
    """An estimate from how the latest documents fared and how this one goes; None while nothing was measured."""
    pages_done = job.pages_completed + job.pages_failed
    left: float | None = None
    if job.status is JobStatus.QUEUED:
        if served:
            ahead = sum(one.ahead for one in served)
            each_s = sum(one.waited_s for one in served) / ahead if ahead else 0.0
            left = (position - 1) * each_s + statistics.median(one.service_s for one in served)
    else:
        elapsed = now - (job.started_at or now)
        if job.total_pages and pages_done:
            left = elapsed / pages_done * (job.total_pages - pages_done)
        elif job.total_pages and served:
            pages = sum(one.pages for one in served) or 1
            left = job.total_pages * sum(one.service_s for one in served) / pages
        elif served:
            left = max(statistics.median(one.service_s for one in served) - elapsed, 0.0)
    if left is None:
        return None
    if job.deadline_at is not None and not job.timed_out:
        left = min(left, max(job.deadline_at - now, 0.0))
    return math.ceil(left)
