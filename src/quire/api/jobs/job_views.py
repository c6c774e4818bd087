"""The JSON shapes of jobs and pages, and how records become them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, Field

from quire.coordination.job_records import JobState
from quire.domain.delivery import DeliveryOutcome
from quire.domain.doubtful_pages import doubtful_pages
from quire.domain.job import (
    ChildJob,
    JobId,
    JobStatus,
    JobType,
    MainJob,
    conversion_job_id,
    page_job_id,
)
from quire.domain.page_ranges import PageRanges

PAGE_JOBS_SHOWN = 1_000


class Links(BaseModel):
    self: str
    result: str
    pages: str
    events: str
    cancel: str
    retry: str
    original: str


class AcceptedView(BaseModel):
    """A document that was accepted."""

    job_id: str
    status: str = Field(description="`queued`, or further if an earlier job answers.")
    deduplicated: bool = Field(
        description="Whether an earlier job with the same content and options answers."
    )
    links: Links


class ChildJobs(BaseModel):
    download_job_id: str | None
    split_job_id: str | None
    merge_job_id: str | None
    page_jobs: list[str] = Field(description=f"Ids of the page jobs; the first {PAGE_JOBS_SHOWN} of them.")
    page_jobs_total: int
    page_job_pattern: str = Field(description="The id of any page job, with {n} for the page number.")


class Usage(BaseModel):
    tokens_in: int
    tokens_out: int
    cost_usd: float


class JobSummary(BaseModel):
    """A main job in a list."""

    job_id: str
    type: str
    status: str
    progress: int = Field(description="Per cent: split 10, pages 80, merge 10.")
    total_pages: int | None = Field(description="Null until the document has been opened.")
    pages_completed: int
    pages_failed: int
    filename: str
    mime: str | None
    size: int | None
    created_at: str
    started_at: str | None
    completed_at: str | None
    error: dict[str, Any] | None
    sources: dict[str, int] = Field(description="How the pages were read, counted; empty until the end.")
    mupdf_fallback_count: int
    doubtful_pages: int = Field(
        description="How many pages are to be compared with the original: of low grade, with words missing, or by AI "
        "and not as the page is."
    )
    links: Links


class DownloadView(BaseModel):
    """The progress of the download of a linked document."""

    bytes_done: int
    bytes_total: int | None = Field(description="Null where the server doesn't say.")


class DeliveryView(BaseModel):
    """The outcome of writing the result to a bucket (`result_to`, or a GhostServer request)."""

    url: str | None = Field(description="The object, once it is there.")
    bytes: int | None
    error: dict[str, Any] | None = Field(
        description="Why the delivery failed; the result is available here all the same."
    )


class AttachmentView(BaseModel):
    """A file that was attached to a mail."""

    name: str
    mime: str = Field(description="Its type, by its content.")
    size: int
    job_id: str | None = Field(description="Its own job; null for what is listed only.")
    status: str | None = Field(description="That job's status; null where there is none, or it has expired.")
    error: str | None


class MainJobView(JobSummary):
    """A document."""

    parent_job_id: str | None = Field(description="The mail's job, for an attachment; else null.")
    source_type: str = Field(description="`file`, `url` or `bucket`.")
    file_format: str | None = Field(description="Such as `pdf`; null until the document has been opened.")
    priority: str = Field(description="`high`, `normal` or `low`.")
    queue_position: int | None = Field(
        description="1 for the next document; null once a worker has started it."
    )
    child_jobs: ChildJobs
    child_job_ids: list[str] = Field(
        description=f"Ids of the download, split, page (the first {PAGE_JOBS_SHOWN}) and merge jobs that exist."
    )
    options: dict[str, Any]
    source: dict[str, Any]
    sha256: str | None
    usage: Usage
    metadata: dict[str, Any] | None = Field(description="The result's metadata, once there is one.")
    deadline_at: str | None
    timeout_occurred: bool
    epoch: int = Field(description="1, and one more for each retry.")
    download: DownloadView | None = Field(description="Null for a document that is not fetched from a link.")
    delivery: DeliveryView | None = Field(description="Null for a result that is not put anywhere else.")
    parent: str | None = Field(description="The mail's job, for a document that was attached to one.")
    children: list[AttachmentView] = Field(description="The attachments of a mail.")


class ChildJobView(BaseModel):
    """A download, split or merge job."""

    job_id: str
    type: str
    parent_job_id: str
    status: str
    progress: int = Field(description="Per cent.")
    attempts: int
    created_at: str | None
    started_at: str | None
    completed_at: str | None
    error: dict[str, Any] | None


class SplitJobView(ChildJobView):
    """The split of a document into pages."""

    total_pages: int | None = Field(description="Null until the document has been opened.")
    pages_created: int


class MergeJobView(ChildJobView):
    """The merge of a document's pages."""

    total_pages: int
    pages_merged: int


class StepJobView(ChildJobView):
    """The classification or the embedding of a vault document."""

    document_id: str
    attempt: int = Field(description="The attempt at the document that it was started for.")
    usage: Usage


class JobsView(BaseModel):
    jobs: list[JobSummary]
    next_before: float | None = Field(description="Pass it as `before` for the next page; null at the end.")


def iso(at_s: float | None) -> str | None:
    """ISO 8601 in UTC, to the millisecond."""
    if at_s is None:
        return None
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def links(job_id: str) -> Links:
    place = f"/jobs/{job_id}"
    return Links(
        self=place,
        result=f"{place}/result",
        pages=f"{place}/pages",
        events=f"{place}/events",
        cancel=f"{place}/cancel",
        retry=f"{place}/retry",
        original=f"{place}/original",
    )


def job_summary(job: MainJob) -> JobSummary:
    return JobSummary(**_summary_fields(job))


def main_job(
    job: MainJob, attachments: Mapping[str, JobState] | None = None, position: int | None = None
) -> MainJobView:
    """`attachments` has the states of the jobs of a mail's attachments, `position` the place in the queue."""
    return MainJobView(
        **_summary_fields(job),
        parent_job_id=job.source.get("parent"),
        source_type=_SOURCE_TYPES.get(job.source.get("kind", ""), "file"),
        file_format=file_format(job.mime),
        priority=job.options.priority.value,
        queue_position=position,
        child_jobs=_child_jobs(job),
        child_job_ids=_child_job_ids(_child_jobs(job)),
        options=job.options.as_dict(),
        source=job.source,
        sha256=job.sha256,
        usage=Usage(tokens_in=job.tokens_in, tokens_out=job.tokens_out, cost_usd=job.cost_usd),
        metadata=(job.result or {}).get("metadata"),
        deadline_at=iso(job.deadline_at),
        timeout_occurred=job.timed_out,
        epoch=job.epoch,
        download=_download(job),
        delivery=_delivery(job),
        parent=job.source.get("parent"),
        children=_attachments(job, attachments or {}),
    )


def _attachments(job: MainJob, found: Mapping[str, JobState]) -> list[AttachmentView]:
    views = []
    for entry in job.info.get("attachments", ()):
        child = found.get(entry["job_id"])
        error = entry.get("error") or ((child.error or {}).get("error") if child else None)
        views.append(
            AttachmentView(
                name=entry["name"],
                mime=entry["mime"],
                size=entry["size"],
                job_id=entry["job_id"],
                status=child.status.value if child else None,
                error=error,
            )
        )
    return views


def _download(job: MainJob) -> DownloadView | None:
    if JobType.DOWNLOAD not in job.children:
        return None
    return DownloadView(bytes_done=job.download_bytes, bytes_total=job.download_total)


def _delivery(job: MainJob) -> DeliveryView | None:
    if job.export is None:
        return None
    found = job.delivery or DeliveryOutcome()
    return DeliveryView(url=found.url, bytes=found.size_bytes, error=found.error)


def child_job(job: MainJob, kind: JobType) -> ChildJobView:
    child = job.children.get(kind) or ChildJob(JobStatus.QUEUED)
    done = child.status is JobStatus.COMPLETED
    fields: dict[str, Any] = {
        "job_id": str(JobId(job.id, kind)),
        "type": kind.value,
        "parent_job_id": job.id,
        "status": child.status.value,
        "progress": 100 if done else _download_progress(job) if kind is JobType.DOWNLOAD else 0,
        "attempts": child.attempts,
        "created_at": iso(child.created_at),
        "started_at": iso(child.started_at),
        "completed_at": iso(child.completed_at),
        "error": child.error,
    }
    if kind is JobType.SPLIT:
        return SplitJobView(
            **fields, total_pages=job.total_pages or None, pages_created=job.total_pages if done else 0
        )
    if kind is JobType.MERGE:
        return MergeJobView(
            **fields, total_pages=job.total_pages, pages_merged=job.total_pages if done else 0
        )
    return ChildJobView(**fields)


def _download_progress(job: MainJob) -> int:
    return min(99, 100 * job.download_bytes // job.download_total) if job.download_total else 0


_SOURCE_TYPES = {"link": "url", "bucket": "bucket"}
_FORMATS = {
    "text/plain": "txt",
    "text/markdown": "md",
    "message/rfc822": "eml",
    "application/vnd.ms-outlook": "msg",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/epub+zip": "epub",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.presentation": "odp",
}


def file_format(mime: str | None) -> str | None:
    """The usual short name of a media type: `pdf`, `docx`, `png`."""
    return _FORMATS.get(mime, mime.rpartition("/")[2]) if mime else None


def step_job(job: MainJob) -> StepJobView:
    link = job.vault
    return StepJobView(
        job_id=job.id,
        type=job.type.value,
        parent_job_id=conversion_job_id(link.team, link.document_id) if link else "",
        status=job.status.value,
        progress=job.progress,
        attempts=job.attempts,
        created_at=iso(job.created_at),
        started_at=iso(job.started_at),
        completed_at=iso(job.completed_at),
        error=job.error,
        document_id=link.document_id if link else "",
        attempt=link.attempt if link else 0,
        usage=Usage(tokens_in=job.tokens_in, tokens_out=job.tokens_out, cost_usd=job.cost_usd),
    )


def _summary_fields(job: MainJob) -> dict[str, Any]:
    metadata = (job.result or {}).get("metadata", {})
    return {
        "job_id": job.id,
        "type": JobType.MAIN.value,
        "status": job.status.value,
        "progress": job.progress,
        "total_pages": job.total_pages or None,
        "pages_completed": job.pages_completed,
        "pages_failed": job.pages_failed,
        "filename": job.filename,
        "mime": job.mime,
        "size": job.size or None,
        "created_at": iso(job.created_at),
        "started_at": iso(job.started_at),
        "completed_at": iso(job.completed_at),
        "error": job.error,
        "sources": metadata.get("sources", {}),
        "mupdf_fallback_count": metadata.get("mupdf_fallback_count", 0),
        "doubtful_pages": doubtful_pages(metadata),
        "links": links(job.id),
    }


def _child_jobs(job: MainJob) -> ChildJobs:
    def made(kind: JobType) -> str | None:
        return str(JobId(job.id, kind)) if kind in job.children else None

    numbers: list[int] = []
    if job.total_pages and job.ranges:
        numbers = PageRanges.parse(job.ranges).numbers(0, min(job.total_pages, PAGE_JOBS_SHOWN))
    return ChildJobs(
        download_job_id=made(JobType.DOWNLOAD),
        split_job_id=made(JobType.SPLIT),
        merge_job_id=made(JobType.MERGE),
        page_jobs=[page_job_id(job.id, number) for number in numbers],
        page_jobs_total=job.total_pages,
        page_job_pattern=f"{job.id}-p{{n}}",
    )


def _child_job_ids(children: ChildJobs) -> list[str]:
    ids = [children.download_job_id, children.split_job_id, *children.page_jobs, children.merge_job_id]
    return [one for one in ids if one]
