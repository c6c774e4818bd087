"""The public endpoints of the GhostServer facade: process a document, its progress, cancel, health."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import APIRouter, Header, Request, Response
from pydantic import BaseModel, Field

from quire.api.ghost.ghost_requests import GhostSubmission, read_request
from quire.api.http.auth import Team
from quire.api.http.error_responses import MediaTypeError, documented
from quire.api.http.request_bodies import media_type, read_json
from quire.api.http.responses import json_answer
from quire.api.http.services import Services, ServicesDep
from quire.api.jobs.convert_routes import check_room
from quire.api.jobs.job_views import iso
from quire.api.jobs.submission_fields import read_key
from quire.api.jobs.upload_receiver import receive_upload
from quire.api.operations import health_routes
from quire.domain.delivery import Delivery, DeliveryOutcome
from quire.domain.job import JobStatus, MainJob, Mode
from quire.errors import CancelledError, QuireError, RequestError
from quire.pipeline.ghost_service import Ghost, GhostJobState, GhostRequest, GhostStatus
from quire.pipeline.intake.upload_intake import Accepted, Submission

_LOG = logging.getLogger(__name__)
router = APIRouter(tags=["ghostserver"])

_LONGEST_REASON = 200


class GhostAccepted(BaseModel):
    """The response to an accepted document."""

    status: GhostStatus
    job_id: str
    message: str
    estimated_time_seconds: int | None = Field(description="Null while nothing has been measured.")
    queue_position: int = Field(
        description="The number of documents up to and including this one that have not started."
    )
    metadata: dict[str, Any]


class GhostProgress(BaseModel):
    status: GhostStatus
    progress: int = Field(description="Per cent.")
    message: str
    start_time: str | None
    end_time: str | None
    result: str | None = Field(None, description="The aggregated text once it is there, up to 1 MB.")
    metadata: dict[str, Any]


class GhostCancelled(BaseModel):
    status: GhostStatus
    job_id: str
    cancelled: bool = Field(description="False if the job had already ended.")
    message: str


_FIELDS: dict[str, Any] = {
    "file_path": {"type": "string", "description": "A key, `s3://bucket/key` or a link."},
    "file_url": {"type": "string", "description": "The same, if there is no file_path."},
    "user_name": {"type": "string"},
    "user_id": {"type": "string", "description": "Instead of user_name."},
    "password": {"type": "string", "description": "Opens an encrypted PDF. Kept sealed, never logged."},
    "ai_prompt": {"type": "string", "description": "Instructions for the AI. Kept sealed, never logged."},
    "ai_engine": {"type": "string", "examples": ["OpenAIEngine", "ClaudeEngine", "JuniorEngine"]},
    "model_tier": {"type": "string", "enum": ["primary", "secondary", "fast"]},
    "force_fast": {"type": "boolean", "description": "The same as model_tier fast."},
    "text_only": {"type": "boolean", "description": "Only the document's own text: no AI, no OCR."},
    "fast_upload": {"type": "boolean", "description": "No AI."},
    "options": {
        "type": "object",
        "description": "`pages`, `timeout_seconds`, `callback_url`, `force`, `mode` and `priority` of POST /convert.",
    },
    "source": {"type": "string", "description": "With `upload` the result stays on this machine."},
}
_FILE = {"file": {"type": "string", "format": "binary"}}
_PROCESS_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"type": "object", "properties": _FIELDS}},
            "multipart/form-data": {
                "schema": {"type": "object", "required": ["file"], "properties": {**_FIELDS, **_FILE}}
            },
        },
    }
}
_CANCEL_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["job_id"],
                    "properties": {"job_id": {"type": "string"}, "reason": {"type": "string"}},
                }
            }
        },
    }
}


@router.post(
    "/process_file_junior_call",
    summary="Process a document",
    status_code=201,
    response_model=GhostAccepted,
    responses=documented(400, 401, 408, 409, 413, 415, 503),
    openapi_extra=_PROCESS_BODY,
)
async def process_file(
    request: Request, team: Team, services: ServicesDep, idempotency_key: str | None = Header(None)
) -> Response:
    """From a bucket or a link (JSON), or as an upload (a form with `file`)."""
    kind = media_type(request)
    if kind not in ("application/json", "multipart/form-data"):
        raise MediaTypeError("Send application/json with a file_path, or multipart/form-data with a `file`.")
    key = read_key(idempotency_key)
    engine, ghost = services.runtime.engine, ghost_of(services)
    await check_room(engine, team, key)
    ahead = await ghost.ahead()
    if kind == "application/json":
        asked = read_request(
            await read_json(request), services.runtime.settings, team=team, key=key, ahead=ahead
        )
        engine.intake.check(asked.submission)
        accepted = await engine.intake.accept_source(asked.submission)
    else:
        asked, accepted = await _take_upload(request, services, team, key, ahead)
    job = await ghost.accepted(asked.submission, asked.ghost.file_id, accepted)
    _log(asked, accepted)
    return json_answer(_accepted(asked, accepted, await ghost.state(job)), 201)


@router.get(
    "/progress_spec/{job_or_file_id:path}",
    summary="The status of a document",
    response_model=GhostProgress,
    responses=documented(401, 404, 503),
)
async def progress(job_or_file_id: str, team: Team, services: ServicesDep) -> Response:
    """By the job's id, or by the file's id: then of the newest job for that file."""
    ghost = ghost_of(services)
    state = await ghost.state(await ghost.find(team, job_or_file_id))
    job = state.job
    over = state.status in (GhostStatus.SUCCESS, GhostStatus.FAILED)
    shown = GhostProgress(
        status=state.status,
        progress=state.progress,
        message=_message(state),
        start_time=iso(job.started_at),
        end_time=iso(job.completed_at) if over else None,
        result=await ghost.text(job) if state.status is GhostStatus.SUCCESS else None,
        metadata=_metadata(state),
    )
    return json_answer(shown)


@router.post(
    "/webhook/cancel_job",
    summary="Stop a document",
    response_model=GhostCancelled,
    responses=documented(400, 401, 404, 503),
    openapi_extra=_CANCEL_BODY,
)
async def cancel_job(request: Request, team: Team, services: ServicesDep) -> Response:
    """A job that has ended is not changed."""
    given = await read_json(request)
    job_id, reason = given.get("job_id"), given.get("reason") or ""
    if not isinstance(job_id, str) or not job_id:
        raise RequestError("job_id: missing.")
    if not isinstance(reason, str) or len(reason) > _LONGEST_REASON or not reason.isprintable():
        raise RequestError(f"reason: expected a text of at most {_LONGEST_REASON} printable characters.")
    ghost = ghost_of(services)
    job = await ghost.find(team, job_id)
    why = CancelledError(f"The job was cancelled: {reason}" if reason else "The job was cancelled.")
    reached = await services.runtime.engine.cancel(job, why)
    state = await ghost.state(await ghost.find(team, job.id))
    return json_answer(
        GhostCancelled(
            status=state.status,
            job_id=job.id,
            cancelled=reached is JobStatus.CANCELLED and not job.status.terminal,
            message=_message(state),
        )
    )


@router.get("/health_check", summary="The same as /health", response_model=health_routes.Health)
async def health_check(request: Request) -> Response:
    return await health_routes.health(request)


@router.get("/status", summary="The same as /health", response_model=health_routes.Health)
async def status(request: Request) -> Response:
    return await health_routes.health(request)


def ghost_of(services: Services) -> Ghost:
    return Ghost(services.runtime.parts, services.runtime.engine)


async def _take_upload(
    request: Request, services: Services, team: str, key: str | None, ahead: int
) -> tuple[GhostSubmission, Accepted]:
    intake, settings = services.runtime.engine.intake, services.runtime.settings
    read: list[GhostSubmission] = []

    def finished(given: dict[str, str], filename: str) -> Submission:
        read.append(read_request(given, settings, team=team, key=key, ahead=ahead, filename=filename))
        return read[-1].submission

    draft = Submission(team=team, idempotency_key=key)
    received = await receive_upload(request, intake, draft, finished, settings.limits.max_upload_bytes)
    return read[-1], await intake.accept_upload(received.submission, received.upload)


def _log(asked: GhostSubmission, accepted: Accepted) -> None:
    """Of secret fields only the presence and the length are logged."""
    hidden = asked.submission.secrets
    _LOG.info(
        "ghostserver document accepted",
        extra={
            "job_id": accepted.job_id,
            "source": asked.ghost.source,
            "engine": asked.ghost.ai_provider,
            "text_only": asked.submission.options.text_only,
            "fast_upload": asked.ghost.fast_upload,
            "password_given": bool(hidden.password),
            "prompt_length": len(hidden.prompt or ""),
            "deduplicated": accepted.deduplicated,
        },
    )


def _accepted(asked: GhostSubmission, accepted: Accepted, state: GhostJobState) -> GhostAccepted:
    hidden = asked.submission.secrets
    # A worker may have started the new job already; the response shows the job as it was accepted.
    new = not accepted.deduplicated
    return GhostAccepted(
        status=GhostStatus.QUEUED if new else state.status,
        job_id=accepted.job_id,
        message="An earlier job has the result." if accepted.deduplicated else "The document was accepted.",
        estimated_time_seconds=state.outlook.seconds,
        queue_position=max(state.outlook.position, 1 if new else 0),
        metadata={
            **_asked_for(asked.ghost, state.job),
            "has_password": bool(hidden.password),
            "ai_prompt_length": len(hidden.prompt or ""),
            "deduplicated": accepted.deduplicated,
            "ignored_fields": list(asked.ignored),
            "progress_url": f"/progress_spec/{accepted.job_id}",
        },
    )


def _asked_for(request: GhostRequest, job: MainJob) -> dict[str, Any]:
    return {
        "file_id": request.file_id,
        "file_path": request.file_path,
        "user": request.user,
        "source": request.source,
        "ai_engine": request.ai_engine,
        "ai_provider": request.ai_provider,
        "processing_mode": request.processing_mode,
        "model_tier": job.options.model_tier or "primary",
        "text_only": job.options.text_only,
        "fast_upload": request.fast_upload,
    }


def _metadata(state: GhostJobState) -> dict[str, Any]:
    job, tally, delivery = state.job, state.tally, state.delivery or DeliveryOutcome()
    found: dict[str, Any] = {
        **({} if job.export is None else _asked_for(GhostRequest.of(Delivery.from_dict(job.export)), job)),
        "job_id": job.id,
        "total_pages": job.total_pages,
        "pages_done": job.pages_completed,
        "pages_failed": _failed_by_ai(state),
        "pages_unreadable": job.pages_failed,
        "ai_pages": tally.ai_pages,
        "text_only_pages": tally.text_only_pages,
        # The source has two names for each of these figures.
        "ai_pages_succeeded": tally.ai_pages_succeeded,
        "ai_pages_completed": tally.ai_pages_succeeded,
        "mupdf_fallback_count": tally.mupdf_fallback_count,
        "mupdf_fallback_pages": tally.mupdf_fallback_count,
        "timeout_occurred": job.timed_out,
        "missing_pages": tally.missing_pages,
        "queue_position": state.outlook.position,
        "estimated_time_seconds": state.outlook.seconds,
        "late_results": job.late_results,
        "cancelled": job.status is JobStatus.CANCELLED,
    }
    if job.status is JobStatus.COMPLETED:
        found["result_url"] = f"/jobs/{job.id}/result"
    outcome = {
        "result_s3_url": delivery.url,
        "result_local_path": delivery.path,
        "result_text_len": delivery.size_bytes,
        "result_error": delivery.error,
        "error": job.error,
    }
    return found | {name: value for name, value in outcome.items() if value is not None}


def _failed_by_ai(state: GhostJobState) -> int | None:
    """The pages that AI has given up, whether or not they have a local text; None where they are not counted."""
    job, tally = state.job, state.tally
    if tally.mupdf_fallback_count is None:
        return None
    local = job.options.mode is Mode.LOCAL or job.options.text_only
    found = tally.mupdf_fallback_count + (0 if local else job.pages_failed)
    if job.status.terminal:  # pages that local OCR has read after AI gave them up
        found = max(found, (tally.ai_pages or 0) - (tally.ai_pages_succeeded or 0))
    return found


def _message(state: GhostJobState) -> str:
    job, pages = state.job, state.job.total_pages
    if job.status is JobStatus.CANCELLED:
        text = (job.error or {}).get("error", "The job was cancelled.")
    elif job.status is JobStatus.FAILED:
        text = (job.error or {}).get("error", QuireError("The document could not be read.").public)
    elif state.status is GhostStatus.SUCCESS:
        text = _ending(state)
    elif job.status is JobStatus.COMPLETED:
        text = "All pages are read; the result is being saved."
    elif job.status is JobStatus.QUEUED:
        text = "The document is queued."
    elif not pages:
        text = "The document is being fetched and opened."
    else:
        text = f"{job.pages_completed + job.pages_failed} of {pages} pages are read."
    return str(text)


def _ending(state: GhostJobState) -> str:
    sentences = ["Completed with partial AI results (timeout)." if state.job.timed_out else "Completed."]
    if state.job.timed_out:
        sentences.append(f"{state.tally.missing_pages} pages have their local text instead of AI's.")
    elif state.tally.mupdf_fallback_count:
        sentences.append(f"{state.tally.mupdf_fallback_count} pages have their local text instead of AI's.")
    if state.job.pages_failed:
        sentences.append(f"{state.job.pages_failed} pages could not be read.")
    if state.delivery and state.delivery.error:
        sentences.append(f"The result could not be delivered: {state.delivery.error['error']}")
    return " ".join(sentences)
