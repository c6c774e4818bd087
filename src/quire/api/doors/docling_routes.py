"""The interface of docling-serve v1: conversion at once or as a task, with its status and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from quire.api.doors.docling_chunks import chunks_answer
from quire.api.doors.docling_options import DoclingOptions
from quire.api.doors.docling_requests import DoclingRequest, DoclingTask
from quire.api.doors.docling_results import converted_answer, files_of, only_document
from quire.api.doors.docling_targets import counts_answer
from quire.api.doors.door_answers import DOOR_RESPONSES, DoorError, DoorRoute, FailedDocumentError
from quire.api.doors.door_intake import DoorIntake
from quire.api.http.auth import Team
from quire.api.http.error_responses import WaitTimeoutError
from quire.api.http.services import Services, ServicesDep
from quire.coordination.batch_callbacks import BatchCallbacks
from quire.domain.batch_target import BatchTarget, packed
from quire.domain.document_batch import DocumentBatch
from quire.domain.job import JobSecrets, JobStatus
from quire.errors import MissingError, NotReadyError
from quire.pipeline.document_batches import BatchProgress, DocumentBatches
from quire.pipeline.intake.upload_intake import Accepted
from quire.pipeline.upkeep.batch_notifier import TARGET, save_announced

LONGEST_POLL_S = 120.0
_NOT_ENDED = "Task result not found. Please wait for a completion status."


class DoclingRoute(DoorRoute):
    @staticmethod
    def shaped(error: DoorError) -> Response:
        """`{"detail": text}`; a list with the place of the option where an option is wrong, as FastAPI writes it."""
        detail: Any = error.text
        status = error.status
        if error.code == "bad_option":
            name, _, message = error.text.partition(": ")
            status, detail = 422, [{"type": "value_error", "loc": ["body", name], "msg": message}]
        return JSONResponse({"detail": detail}, status)


router = APIRouter(tags=["doors: docling"], route_class=DoclingRoute, responses=DOOR_RESPONSES)


@router.get("/ready", summary="docling-serve: whether it is ready")
async def docling_ready(services: ServicesDep) -> dict[str, str]:
    found = await services.readiness.condition()
    if found.failing:
        raise NotReadyError("A part of the service can't be used; see /health.")
    return {"status": "ok"}


@router.post("/v1/convert/file", summary="docling-serve: convert files", response_class=Response)
@router.post("/v1alpha/convert/file", include_in_schema=False, response_class=Response)
async def docling_convert_file(request: Request, team: Team, services: ServicesDep) -> Response:
    """A form with `files` and options. One document comes as JSON, several as a zip."""
    asked = DoclingRequest(request, services, team)
    return await _answer(services, asked.intake, await asked.files())


@router.post("/v1/convert/source", summary="docling-serve: convert sources", response_class=Response)
@router.post("/v1alpha/convert/source", include_in_schema=False, response_class=Response)
async def docling_convert_source(request: Request, team: Team, services: ServicesDep) -> Response:
    """JSON: `sources` of kind `http` or `file` (base64), `options`, `target` of kind `inbody`, `zip`, `put` or `s3`."""
    asked = DoclingRequest(request, services, team)
    return await _answer(services, asked.intake, await asked.sources())


@router.post("/v1/convert/file/async", summary="docling-serve: convert files as a task")
async def docling_convert_file_async(request: Request, team: Team, services: ServicesDep) -> Response:
    return await start_task(services, team, await DoclingRequest(request, services, team).files())


@router.post("/v1/convert/source/async", summary="docling-serve: convert sources as a task")
async def docling_convert_source_async(request: Request, team: Team, services: ServicesDep) -> Response:
    return await start_task(services, team, await DoclingRequest(request, services, team).sources())


@router.get("/v1/status/poll/{task_id}", summary="docling-serve: the status of a task")
async def docling_status(
    request: Request,
    task_id: str,
    team: Team,
    services: ServicesDep,
    *,
    wait: Annotated[float, Query(ge=0, le=LONGEST_POLL_S, allow_inf_nan=False)] = 0.0,
) -> Response:
    """With `wait`, when the task has ended or the seconds are over."""
    batches = DocumentBatches(services.runtime.parts)
    batch = await batches.find(team, task_id)
    progress = await batches.progress(batch)
    if wait and not progress.is_over:
        await _wait(DoorIntake(request, services, team), batch, wait)
        progress = await batches.progress(batch)
    return JSONResponse(await task_view(services, batch, progress))


@router.get("/v1/result/{task_id}", summary="docling-serve: the result of a task", response_class=Response)
async def docling_result(request: Request, task_id: str, team: Team, services: ServicesDep) -> Response:
    """404 until the task has ended, as docling-serve answers."""
    batches = DocumentBatches(services.runtime.parts)
    batch = await batches.find(team, task_id)
    if not (await batches.progress(batch)).is_over:
        raise MissingError(_NOT_ENDED)
    found = [await services.runtime.parts.jobs.get(job_id) for job_id in batch.job_ids]
    jobs = {job.id: job for job in found if job is not None}
    if TARGET in batch.view:
        await _check_delivered(batches, batch)
        return counts_answer(jobs, len(batch.items))
    options = DoclingOptions.of_view(batch.view)
    if batch.view.get("task_type") == "chunk":
        return await chunks_answer(services, list(batch.items), jobs, options, batch.view["chunking"])
    return await converted_answer(services, list(batch.items), jobs, options)


async def start_task(services: Services, team: str, task: DoclingTask, **view: Any) -> Response:
    """Stores the task and answers with its status."""
    now = services.runtime.parts.clock.now()
    shown = {"task_type": "convert", **task.options.view(), **view}
    batch = DocumentBatch(team, now, tuple(task.items), view=shown)
    batches = DocumentBatches(services.runtime.parts)
    if task.target is None:
        await batches.save(batch)
    else:
        batch = _with_target(services, batch, task.target, task.options)
        pending = BatchCallbacks(services.runtime.connection, services.runtime.parts.clock)
        await save_announced(batches, pending, batch)
    return JSONResponse(await task_view(services, batch, await batches.progress(batch)))


def _with_target(
    services: Services, batch: DocumentBatch, target: BatchTarget, options: DoclingOptions
) -> DocumentBatch:
    sealed = services.runtime.parts.sealer.seal(batch.id, JobSecrets(target=packed(target)))
    view = {**batch.view, TARGET: target.kind, "between": options.between}
    return replace(batch, sealed=sealed, view=view)


async def _check_delivered(batches: DocumentBatches, batch: DocumentBatch) -> None:
    """Raises MissingError while the results are being delivered, FailedDocumentError if that failed."""
    outcome = await batches.delivery(batch.id)
    if outcome is None:
        raise MissingError(_NOT_ENDED)
    if outcome["error"]:
        raise FailedDocumentError(outcome["error"])


async def task_view(services: Services, batch: DocumentBatch, progress: BatchProgress) -> dict[str, Any]:
    """The status of a task; `failure` only where no document could be read."""
    total, done = len(progress.items), progress.count("completed")
    status = "started" if progress.count("processing") or progress.ended else "pending"
    if progress.is_over:
        status = "success" if done else "failure"
    failure = None
    if progress.is_over and done and TARGET in batch.view:
        outcome = await DocumentBatches(services.runtime.parts).delivery(batch.id)
        failure = outcome["error"] if outcome else None
        status = "failure" if failure else status if outcome else "started"
    place = None
    if status == "pending" and batch.job_ids:
        place = await services.runtime.parts.jobs.order.position(batch.job_ids[0])
    errors = [str(one.error.get("error")) for one in progress.items if one.error]
    errors = [str(failure["error"])] if failure else errors
    return {
        "task_id": batch.id,
        "task_type": batch.view.get("task_type", "convert"),
        "task_status": status,
        "task_position": place,
        "task_meta": {
            "num_docs": total,
            "num_processed": progress.ended,
            "num_succeeded": done,
            "num_failed": progress.ended - done,
        },
        "error_message": errors[0] if errors and progress.is_over else None,
        "failure": _target_failure(batch, failure) if failure else None,
    }


def _target_failure(batch: DocumentBatch, error: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "category": "target_unavailable",
        "message": str(error["error"]),
        "retryable": bool(error.get("retryable")),
        "phase": "execution",
        "details": {"target_kind": batch.view[TARGET]},
    }


async def _answer(services: Services, intake: DoorIntake, task: DoclingTask) -> Response:
    jobs = {job.id: job for job in await intake.ended(task.accepted)}
    if task.target is not None:
        if len(task.items) == 1:
            await only_document(services, task.items[0], jobs)
        await files_of(services, task.items, jobs, task.options).deliver_soon(task.target)
        return counts_answer(jobs, len(task.items))
    return await converted_answer(services, task.items, jobs, task.options)


async def _wait(intake: DoorIntake, batch: DocumentBatch, wait_s: float) -> None:
    try:
        await intake.ended(
            [Accepted(one, JobStatus.QUEUED, deduplicated=True) for one in batch.job_ids], wait_s
        )
    except WaitTimeoutError:
        return
