"""Reports of an external dispatcher (docs/protocol.md): pages it has read, pages it has given up, its end.

The first result of a page counts, also while one of our workers holds its lease; later results are only
counted."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

from quire.domain.job import JobId, JobStatus, MainJob, PageRecord
from quire.domain.page import PageSource, word_count
from quire.domain.page_ranges import PageRanges
from quire.errors import MissingError, NotReadyError, PageError, RequestError
from quire.pipeline.object_keys import chunk_key
from quire.pipeline.parts import Parts
from quire.pipeline.stages.read_stage import failed_page, fallen_back
from quire.pipeline.upkeep.lost_jobs import found_again


@dataclass(frozen=True, slots=True)
class PageReport:
    """The text of one page, read by an external dispatcher."""

    number: int
    text: str
    provider: str | None = None
    model: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    epoch: int = 0
    """The run that the page was read for; 0 is the current run."""


class OutsideReports:
    """Records the reports. A dispatcher reads the pages of all teams, so jobs are found without a team."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._records = parts.jobs.ghost

    async def page_done(self, job_id: str, report: PageReport) -> bool:
        """Returns whether the report counts; a page keeps the first result that it got.

        Raises RequestError, MissingError or NotReadyError.
        """
        job = await self._job_with_page(job_id, report.number)
        if not report.text.strip():
            raise RequestError("text: empty. Report a page without text to /internal/page_failed.")
        if job.status.terminal:  # the report is only counted, so the text is not stored
            return await self._record(job, PageRecord(report.number, JobStatus.COMPLETED), report.epoch)
        local = (await self._parts.jobs.pages(job.id, [report.number])).get(report.number)
        raw = report.text.encode()
        token = secrets.token_hex(6)
        key = chunk_key(job.id, job.epoch, f"p{report.number}", f"report-{token}")
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
            words=word_count(report.text),
            completed_at=self._parts.clock.now(),
            error=None,
            ref=key,
            offset=0,
            length=len(raw),
        )
        await self._parts.objects.put(key, raw)
        counted = False
        try:
            counted = await self._record(job, record, report.epoch)
        finally:
            if not counted:
                await self._parts.objects.delete(key)
        return counted

    async def page_failed(self, job_id: str, number: int, epoch: int = 0) -> bool:
        """Gives the page its local text, or records that it has none; returns whether the report counts.

        Raises MissingError, or NotReadyError before the local text is known.
        """
        job = await self._job_with_page(job_id, number)
        local = (await self._parts.jobs.pages(job.id, [number])).get(number)
        if not job.status.terminal and (local is None or (not local.status.terminal and not local.ref)):
            raise NotReadyError(
                f"The local text of page {number} is not known yet. Report the page again.", retry_after_s=1.0
            )
        now = self._parts.clock.now()
        error = PageError("The page has no text of its own, and the external dispatcher has given it up.")
        attempts = (local.attempts if local else 0) + 1
        record = fallen_back(local, error, attempts, now) or failed_page(number, error, attempts, now, now)
        return await self._record(job, record, epoch)

    async def job_done(self, job_id: str) -> int:
        """Ends the wait for reports; returns how many pages got their local text instead.

        Raises MissingError, or NotReadyError before the document was opened.
        """
        job = await self._job(job_id)
        given_up = await self._records.close(job.id, job.content_ref or "")
        if given_up is None:
            raise _not_opened()
        return given_up

    async def _record(self, job: MainJob, record: PageRecord, epoch: int) -> bool:
        counted = await self._records.report(job.id, record, job.content_ref or "", epoch)
        if counted is None:
            raise _not_opened()
        return counted

    async def _job(self, job_id: str) -> MainJob:
        parsed = JobId.parse(job_id)
        job = await self._parts.jobs.get(parsed.main) if parsed else None
        if job is None and parsed:
            job = await found_again(self._parts, parsed.main)
        if job is None:
            raise MissingError(f"There is no job {job_id[:60]!r}.")
        return job

    async def _job_with_page(self, job_id: str, number: int) -> MainJob:
        job = await self._job(job_id)
        if job.ranges and number not in PageRanges.parse(job.ranges):
            raise MissingError(f"Job {job.id} has no page {number}.")
        return job


def _not_opened() -> NotReadyError:
    return NotReadyError("The document has not been opened yet. Report again.", retry_after_s=1.0)
