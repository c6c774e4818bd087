"""The JSON shapes of pages and of results, and how records become them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from quire.api.jobs.job_views import iso
from quire.domain.job import JobId, JobStatus, JobType, MainJob, PageRecord, page_job_id
from quire.domain.page_view import page_view


class PageView(BaseModel):
    """A page: its status, how it was read and what that cost."""

    page_number: int
    job_id: str
    status: str
    source: str | None
    provisional: bool = Field(
        description="Whether the page has a text that can be used while AI still reads it; source and reader are of it."
    )
    reason: list[str]
    page_class: str | None
    reader: str | None
    provider: str | None
    model: str | None
    attempts: int
    tokens_in: int
    tokens_out: int
    cost_usd: float
    confidence: float | None
    grade: str | None = Field(None, description="good, fair or low; null where nothing was judged.")
    words: int
    words_missing: int = Field(description="Words of the page's text layer that are in none of its elements.")
    ungrounded: int = Field(description="Elements of an AI answer that the page's own words do not support.")
    ungrounded_numbers: int = Field(description="Numbers of an AI answer that the page does not have.")
    size_bytes: int = Field(description="Of the page's Markdown.")
    reused_from: str | None = Field(
        None, description="The page of the version before whose reading this is: its content is the same."
    )
    error: dict[str, Any] | None
    url: str
    image_url: str


class PageJobView(PageView):
    """A page as a job of its own."""

    type: str = "page"
    parent_job_id: str
    progress: int = Field(description="Per cent.")
    page_file_path: str | None = Field(
        description="The stored document and the page in it; null before a download."
    )
    created_at: str | None = Field(description="When the document was split.")
    started_at: str | None
    completed_at: str | None


class PagesView(BaseModel):
    job_id: str
    total_pages: int | None
    offset: int
    pages: list[PageView]
    next: str | None = Field(description="The address of the next pages; null at the end.")


def page(job: MainJob, record: PageRecord) -> PageView:
    return PageView(**_page_fields(job, record))


def page_job(job: MainJob, record: PageRecord) -> PageJobView:
    return PageJobView(
        **_page_fields(job, record),
        parent_job_id=job.id,
        progress=100 if record.status is JobStatus.COMPLETED else 0,
        page_file_path=f"{job.content_ref}#page={record.number}" if job.content_ref else None,
        created_at=iso(page_created_at(job)),
        started_at=iso(record.started_at),
        completed_at=iso(record.completed_at),
    )


def page_created_at(job: MainJob) -> float | None:
    """When the jobs of a document's pages came to exist: at the end of its split."""
    split = job.children.get(JobType.SPLIT)
    return split.completed_at if split else None


def page_metadata(job: MainJob, record: PageRecord) -> dict[str, Any]:
    """The metadata of a page's result."""
    return page(job, record).model_dump(exclude={"job_id", "url"})


def result_head(job: MainJob, asked: JobId, record: PageRecord | None) -> dict[str, Any]:
    """What a result says about its job; `record` is that of a page."""
    head: dict[str, Any] = {"job_id": str(asked), "type": asked.type.value}
    if record is not None:
        head |= {"page_number": record.number, "parent_job_id": job.id, "status": record.status.value}
        times = (page_created_at(job), record.started_at, record.completed_at)
    else:
        child = job.children.get(asked.type)
        if child is not None:
            head["parent_job_id"] = job.id
        one = child or job
        head["status"] = one.status.value
        times = (one.created_at, one.started_at, one.completed_at)
    names = ("created_at", "started_at", "completed_at")
    return head | {name: iso(at) for name, at in zip(names, times, strict=True)}


def _page_fields(job: MainJob, record: PageRecord) -> dict[str, Any]:
    return {
        **page_view(job.id, record),
        "url": f"/jobs/{page_job_id(job.id, record.number)}/result",
        "image_url": f"/jobs/{job.id}/pages/{record.number}/image",
    }
