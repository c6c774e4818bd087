"""Reports of what happens to documents: one log line for each change, and the counts for metrics.

A report never fails the work that it reports: a record that can't be read is reported without its figures.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from quire.coordination.job_records import NewJob
from quire.coordination.job_store import JobStore
from quire.domain.job import JobStatus, JobType, MainJob, PageRecord
from quire.domain.page import PageSource
from quire.errors import CoordinationCommandError, CoordinationError

if TYPE_CHECKING:
    from quire.telemetry.tracer import Tracer

_LOG = logging.getLogger(__name__)
_FALLBACKS = (PageSource.MUPDF_FALLBACK, PageSource.MUPDF_TIMEOUT_FALLBACK)
_CODE = re.compile(r"[a-z][a-z0-9_]{0,39}")
DEADLINE = "deadline"
"""The reason of pages that fell back because the document's time was up."""


class PipelineMeter(Protocol):
    """Counts documents and pages for metrics."""

    def job_accepted(self, kind: str) -> None: ...

    def job_ended(self, kind: str, status: str, *, seconds: float | None, usd: float) -> None: ...

    def pages_read(self, source: str, count: int) -> None: ...

    def pages_fell_back(self, reason: str, count: int) -> None: ...

    def unit_retried(self, queue: str) -> None: ...


class NullPipelineMeter:
    """Counts nothing, for processes that export no metrics."""

    def job_accepted(self, kind: str) -> None:
        pass

    def job_ended(self, kind: str, status: str, *, seconds: float | None, usd: float) -> None:
        pass

    def pages_read(self, source: str, count: int) -> None:
        pass

    def pages_fell_back(self, reason: str, count: int) -> None:
        pass

    def unit_retried(self, queue: str) -> None:
        pass


class JobReports:
    """The observer of the job store in a running process."""

    def __init__(
        self, jobs: JobStore, meter: PipelineMeter | None = None, tracer: Tracer | None = None
    ) -> None:
        self._jobs = jobs
        self.meter: PipelineMeter = meter or NullPipelineMeter()
        self._tracer = tracer

    def trace_of_new_job(self) -> str:
        return "" if self._tracer is None else self._tracer.begin_job()

    def accepted(self, new: NewJob) -> None:
        self.meter.job_accepted(JobType.MAIN.value)
        _LOG.info(
            "job accepted",
            extra={
                "job_id": new.id,
                "team": new.team,
                "bytes": new.size,
                "mode": new.options.mode.value,
                "priority": new.options.priority.value,
                "linked": new.content_ref is None,
                "has_password_or_prompt": new.sealed is not None,
            },
        )

    async def ended(self, job_id: str) -> None:
        try:
            job = await self._jobs.get(job_id)
        except (CoordinationError, CoordinationCommandError):
            job = None
        if job is None:
            _LOG.info("job finished", extra={"job_id": job_id})
            return
        seconds = _seconds(job.started_at, job.completed_at)
        self.meter.job_ended(job.type.value, job.status.value, seconds=seconds, usd=job.cost_usd)
        if self._tracer is not None:
            self._tracer.end_job(job.trace, job.created_at, job.completed_at or job.created_at, _traced(job))
        level = logging.WARNING if job.status is JobStatus.FAILED else logging.INFO
        _LOG.log(level, "job finished", extra=_ending(job, seconds))

    def pages_recorded(self, records: Sequence[PageRecord]) -> None:
        for record in records:
            if record.status is JobStatus.FAILED:
                self.meter.pages_read("failed", 1)
            elif record.status is JobStatus.COMPLETED and record.source is not None:
                self.meter.pages_read(record.source.value, 1)
                if record.source in _FALLBACKS:
                    self.meter.pages_fell_back(_reason(record), 1)

    def deadline_reached(self, job_id: str, fell_back: int) -> None:
        """Reports that a document's time was up and how many of its pages got their local text."""
        if fell_back:
            self.meter.pages_read(PageSource.MUPDF_TIMEOUT_FALLBACK.value, fell_back)
            self.meter.pages_fell_back(DEADLINE, fell_back)
        _LOG.warning("deadline reached", extra={"job_id": job_id, "fell_back": fell_back})


def _traced(job: MainJob) -> dict[str, str | int | float]:
    return {
        "job_id": job.id,
        "team": job.team,
        "status": job.status.value,
        "pages": job.total_pages,
        "cost_usd": job.cost_usd,
    }


def _ending(job: MainJob, seconds: float | None) -> dict[str, object]:
    result = job.result or {}
    fields: dict[str, object] = {
        "job_id": job.id,
        "type": job.type.value,
        "status": job.status.value,
        "pages": job.total_pages,
        "pages_failed": job.pages_failed,
        "pages_by_source": result.get("metadata", {}).get("sources", {}),
        "queued_s": _seconds(job.created_at, job.started_at),
        "duration_s": seconds,
        "tokens_used": job.tokens_in + job.tokens_out,
        "cost_usd": round(job.cost_usd, 6),
        "timed_out": job.timed_out,
    }
    if job.error:
        fields["error_class"] = job.error.get("code")
    return fields


def _seconds(since: float | None, until: float | None) -> float | None:
    return None if since is None or until is None else round(max(0.0, until - since), 3)


def _reason(record: PageRecord) -> str:
    """The last reason of the page, if it is a code: labels of metrics must be bounded."""
    if record.source is PageSource.MUPDF_TIMEOUT_FALLBACK:
        return DEADLINE
    last = record.reasons[-1] if record.reasons else ""
    return last if _CODE.fullmatch(last) else "other"
