"""Jobs over HTTP: list, status, pages, cancel, retry."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, Field

from quire.api.http.auth import Team
from quire.api.http.error_responses import documented
from quire.api.http.responses import json_answer
from quire.api.http.services import EngineDep, ServicesDep
from quire.api.jobs import job_views, page_job_views
from quire.api.jobs.submission_fields import read_key
from quire.domain.job import JobId, JobStatus, JobType, MainJob
from quire.errors import MissingError, RequestError, StateConflictError
from quire.pipeline.engine import Engine
from quire.pipeline.vault.vault import Vault

router = APIRouter(prefix="/jobs", tags=["jobs"])

_LARGEST_TIME_S = 1e11
_MOST_LOOKED_AT = 2_000
_HALF_MS = 0.0005  # times are whole milliseconds; as a float one may be slightly smaller


class CancelView(BaseModel):
    job_id: str
    status: str = Field(description="The status after this request.")


class RetryView(BaseModel):
    job_id: str
    retried: bool = Field(description="False when there is nothing better to get.")
    repeated: bool = Field(description="True when this Idempotency-Key has already started it.")
    status: str
    links: job_views.Links


@router.get(
    "",
    summary="Your documents, the newest first",
    responses={200: {"model": job_views.JobsView}, **documented(400, 401, 503)},
)
async def jobs(
    team: Team,
    engine: EngineDep,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    before: Annotated[
        float | None,
        Query(ge=0, le=_LARGEST_TIME_S, allow_inf_nan=False, description="`next_before` of the page before."),
    ] = None,
    status: Annotated[JobStatus | None, Query(description="Only jobs of this status.")] = None,
) -> Response:
    """With a status, a page may have fewer jobs than the limit and still not be the last."""
    found: list[MainJob] = []
    looked_at = 0
    while True:
        batch = await engine.newest(team, limit + 1, None if before is None else before + _HALF_MS)
        whole = len(batch) > limit
        shown = _cut_where_time_changes(batch, limit) if whole else batch
        before = shown[-1].created_at if whole else None
        found += [job for job in shown if status is None or job.status is status]
        looked_at += len(shown)
        if before is None or status is None or len(found) >= limit or looked_at >= _MOST_LOOKED_AT:
            break
    if len(found) > limit:
        found = found[:limit]
        before = found[-1].created_at
    return json_answer(
        job_views.JobsView(jobs=[job_views.job_summary(job) for job in found], next_before=before)
    )


def _cut_where_time_changes(batch: list[MainJob], limit: int) -> list[MainJob]:
    """At most `limit` jobs, ending where the time of creation changes: pages are cut by that time."""
    end = limit
    while end > 1 and batch[end - 1].created_at == batch[end].created_at:
        end -= 1
    return batch[:end] if batch[end - 1].created_at != batch[end].created_at else batch[:limit]


@router.get(
    "/{job_id}",
    summary="One job of any type",
    response_model=job_views.MainJobView
    | page_job_views.PageJobView
    | job_views.StepJobView
    | job_views.SplitJobView
    | job_views.MergeJobView
    | job_views.ChildJobView,
    responses=documented(401, 404, 503),
)
async def job(job_id: str, team: Team, engine: EngineDep) -> Response:
    """A main job's id, or that of a child: `<id>-download`, `<id>-split`, `<id>-p7`, `<id>-merge`."""
    main = await engine.job(team, job_id)
    asked = JobId.parse(job_id) or JobId(main.id, JobType.MAIN)
    if asked.type is JobType.MAIN:
        attachments, position = await asyncio.gather(engine.attachments(main), engine.position(main))
        return json_answer(job_views.main_job(main, attachments, position))
    if asked.type.is_step:
        return json_answer(job_views.step_job(main))
    if asked.type is JobType.PAGE:
        return json_answer(page_job_views.page_job(main, await engine.page(main, asked.page or 0)))
    return json_answer(job_views.child_job(main, asked.type))


@router.get(
    "/{job_id}/pages",
    summary="How each page was read",
    response_model=page_job_views.PagesView,
    responses=documented(400, 401, 404, 503),
)
async def pages(
    job_id: str,
    team: Team,
    engine: EngineDep,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Response:
    main = await engine.job(team, job_id)
    records = await engine.pages(main, offset, limit)
    end = offset + len(records)
    more = bool(records) and end < main.total_pages
    return json_answer(
        page_job_views.PagesView(
            job_id=main.id,
            total_pages=main.total_pages or None,
            offset=offset,
            pages=[page_job_views.page(main, record) for record in records],
            next=f"/jobs/{main.id}/pages?offset={end}&limit={limit}" if more else None,
        )
    )


@router.delete(
    "/{job_id}",
    summary="Delete a finished job with all its data",
    status_code=204,
    responses={204: {"description": "Deleted."}, **documented(400, 401, 404, 409, 503)},
    response_class=Response,
)
async def delete_job(job_id: str, team: Team, engine: EngineDep) -> Response:
    """Deletes the record, the original, the results and the attachments' jobs. A running job is refused: cancel it
    first. So is the job of a document in the vault: delete the document."""
    main = await engine.job(team, job_id)
    if main.vault is None and job_id != main.id:
        raise RequestError(f"Only a whole document can be deleted: DELETE /jobs/{main.id}.")
    await engine.delete(main)
    return Response(status_code=204)


@router.post(
    "/{job_id}/cancel",
    summary="Stop a document",
    response_model=CancelView,
    responses={
        202: {"model": CancelView, "description": "Stopped by this request."},
        **documented(400, 401, 404, 503),
    },
)
async def cancel(job_id: str, team: Team, engine: EngineDep) -> Response:
    """A job that has ended keeps its status."""
    main = await engine.job(team, job_id)
    if job_id != main.id:
        raise RequestError(f"Only a whole document can be cancelled: POST /jobs/{main.id}/cancel.")
    status = await engine.cancel(main)
    stopped = not main.status.terminal and status is JobStatus.CANCELLED
    return json_answer(CancelView(job_id=main.id, status=status.value), 202 if stopped else 200)


@router.post(
    "/{job_id}/retry",
    summary="Retry a job, a page or a merge",
    status_code=202,
    response_model=RetryView,
    responses={
        200: {"model": RetryView, "description": "Nothing better to get."},
        **documented(400, 401, 404, 409, 503),
    },
)
async def retry(
    job_id: str,
    team: Team,
    services: ServicesDep,
    idempotency_key: Annotated[
        str | None, Header(description="Starts it once, however often it is sent.")
    ] = None,
) -> Response:
    """Of a page: that page and the merge. Of a merge: the merge. Of a main job: the pages that did not come from
    their best route, or all if it failed before there were any. Of a classification: its document."""
    engine = services.runtime.engine
    main = await engine.job(team, job_id)
    key = read_key(idempotency_key) or ""
    return await retry_answer(engine, main, job_id, key, services.runtime.vault)


async def retry_answer(
    engine: Engine, main: MainJob, job_id: str, key: str = "", vault: Vault | None = None
) -> Response:
    """Raises StateConflictError while the job runs, MissingError if it no longer exists."""
    if main.type.is_step and vault is not None:
        outcome = await vault.retry_step(main)
    else:
        outcome = await engine.retry(main, job_id, key)
    if outcome == "running":
        raise StateConflictError("The job is still running. Wait until it ends, or cancel it first.")
    if outcome == "missing":
        raise MissingError(f"Job {main.id} no longer exists.")
    started = outcome in ("started", "repeated")
    status = JobStatus.QUEUED if outcome == "started" else main.status
    view = RetryView(
        job_id=job_id,
        retried=started,
        repeated=outcome == "repeated",
        status=status.value,
        links=job_views.links(main.id),
    )
    return json_answer(view, 202 if started else 200, {"Location": f"/jobs/{main.id}"})
