"""What the GhostServer facade asks of the pipeline: find a job, its status in GhostServer's words, its figures."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from quire.coordination.ghost_records import Served
from quire.domain.delivery import Delivery, DeliveryOutcome, Destination
from quire.domain.job import JobStatus, MainJob, Mode
from quire.domain.page import PageSource
from quire.errors import MissingError
from quire.pipeline.engine import Engine
from quire.pipeline.intake.upload_intake import Accepted, Submission
from quire.pipeline.parts import Parts
from quire.pipeline.stages.export_stage import aggregated

PROCESSING_MODE = "bart_1"
INLINE_BYTES = 1 << 20
_COUNTED_LIVE = 2_000
_AI_SOURCES = (PageSource.AI, PageSource.CACHE, PageSource.BATCH)
_EXPORTING = 99


class GhostStatus(StrEnum):
    QUEUED = "queued"
    PROCESSING = "processing"
    SUCCESS = "success"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class GhostRequest:
    """What is stored of a request beside its conversion, as the details of its delivery. Nothing in it is secret."""

    file_id: str
    file_path: str
    destination: Destination
    user: str = ""
    source: str = "api"
    ai_engine: str = ""
    ai_provider: str = "openai"
    processing_mode: str = PROCESSING_MODE
    fast_upload: bool = False
    ahead: int = 0
    """The number of documents that had not ended when this one was accepted."""

    def as_delivery(self) -> Delivery:
        own = asdict(self)
        details = {name: own[name] for name in own if name not in ("destination", "file_path", "user")}
        return Delivery(self.destination, self.file_path, user=self.user, details=details)

    @classmethod
    def of(cls, delivery: Delivery) -> GhostRequest:
        """The request of a delivery; one of POST /convert has the defaults and the source `convert`."""
        plain = delivery.destination is Destination.PREFIX
        given: dict[str, Any] = {"file_id": "", "source": "convert" if plain else "api", **delivery.details}
        own = {one.name for one in fields(cls)} - {"destination", "file_path", "user"}
        return cls(
            file_path=delivery.file_path,
            destination=delivery.destination,
            user=delivery.user,
            **{name: value for name, value in given.items() if name in own},
        )


def status_of(status: JobStatus, *, delivered: bool) -> GhostStatus:
    """A cancelled job is `failed`: GhostServer has no fifth status. An undelivered result is still `processing`."""
    if status is JobStatus.COMPLETED:
        return GhostStatus.SUCCESS if delivered else GhostStatus.PROCESSING
    if status in (JobStatus.FAILED, JobStatus.CANCELLED):
        return GhostStatus.FAILED
    return GhostStatus(status.value)


@dataclass(frozen=True, slots=True)
class Outlook:
    """The expected wait. `position` is 0 once the job has started; `seconds` is None while nothing was measured."""

    position: int
    seconds: int | None


@dataclass(frozen=True, slots=True)
class Tally:
    """Pages by how they were read; None while a document is running that is too long to be counted per request."""

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
    delivery: DeliveryOutcome | None
    """None before the delivery has ended."""


class Ghost:
    """The facade's operations on jobs."""

    def __init__(self, parts: Parts, engine: Engine) -> None:
        self._parts = parts
        self._engine = engine
        self._records = parts.jobs.ghost

    async def ahead(self) -> int:
        """Returns the number of documents that have not ended."""
        return await self._parts.jobs.count_unfinished()

    async def accepted(self, submission: Submission, file_id: str, accepted: Accepted) -> MainJob:
        """Returns the job of a request that was just accepted; from now on the file id names this job."""
        if file_id:
            await self._records.remember_file(submission.team, file_id, accepted.job_id)
        return await self._engine.job(submission.team, accepted.job_id)

    async def find(self, team: str, job_or_file_id: str) -> MainJob:
        """Returns the job of this id, or else the team's newest job for this file id. Raises MissingError."""
        try:
            return await self._engine.job(team, job_or_file_id)
        except MissingError:
            job_id = await self._records.job_of_file(team, job_or_file_id)
            if job_id is None:
                raise MissingError(f"There is no job and no file {job_or_file_id[:60]!r}.") from None
            return await self._engine.job(team, job_id)

    async def state(self, job: MainJob) -> GhostJobState:
        """Returns the job's status, figures and outlook."""
        delivery = job.delivery
        # A job of POST /convert without `result_to` has no delivery to wait for.
        status = status_of(job.status, delivered=delivery is not None or job.export is None)
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
        """Returns the aggregated text of a completed job; None if it is longer than INLINE_BYTES."""
        if job.status is not JobStatus.COMPLETED or not job.result:
            return None
        text = bytearray()
        async for piece in aggregated(self._parts.objects, job):
            text += piece
            if len(text) > INLINE_BYTES:
                return None
        return text.decode(errors="replace")

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
        """Returns the pages routed to AI; without a provider of our own, the pages that an external AI has read."""
        ours = self._parts.readers.ai and job.options.mode is not Mode.LOCAL and not job.options.text_only
        return max(job.slow_pages, succeeded) if ours else succeeded

    async def _outlook(self, job: MainJob) -> Outlook:
        position = await self._engine.position(job) or 0
        if not await self._parts.workers.count_alive():
            return Outlook(position, None)  # nothing is read until a worker is started
        served = await self._records.served()
        return Outlook(position, seconds_left(job, served, position, self._parts.clock.now()))


def seconds_left(job: MainJob, served: Sequence[Served], position: int, now: float) -> int | None:
    """Estimates from the latest documents' times and this one's own pace; None while nothing was measured."""
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
