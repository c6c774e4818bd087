"""Operations over HTTP: queues, workers, dead letters, AI models with their breakers and limits, metrics.

GET /metrics needs an API key, because its figures show how busy the service is.
"""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from quire.api.http.auth import Team
from quire.api.http.error_responses import documented
from quire.api.http.responses import json_answer
from quire.api.http.services import ServicesDep
from quire.api.jobs.job_routes import RetryView, retry_answer
from quire.api.jobs.job_views import iso
from quire.api.operations.metrics_page import CONTENT_TYPE, MetricsPage
from quire.coordination.ai_admission import ModelState, RecentError
from quire.coordination.streams import DeadLetter
from quire.domain.job import JobId, JobStatus, JobType, MainJob, UnitKind, page_job_id, unit_page
from quire.errors import MissingError
from quire.pipeline.engine import Engine

dispatch_router = APIRouter(tags=["operations"])


class ModelView(BaseModel):
    provider: str
    model: str
    state: str = Field(description="The breaker: `closed`, `open` or `half_open`.")
    opens_in_seconds: float = Field(description="Seconds until an open breaker is probed.")
    incidents: int = Field(description="Failures in a row; a burst counts once.")
    in_flight: int
    in_flight_allowed: int = Field(description="As adapted so far: grows with success, halves on 429.")
    in_flight_max: int
    requests_per_minute: int | None = Field(
        description="From the settings or from the provider; null if unknown."
    )
    requests_used: float = Field(description="Requests counted in the current minute.")
    tokens_per_minute: int | None
    tokens_used: float
    calls_ok: int
    calls_failed: int
    last_error: str | None


class ErrorView(BaseModel):
    model: str
    code: str
    at: str | None


class UsageView(BaseModel):
    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float


class DispatchView(BaseModel):
    configured: bool
    order: list[str] = Field(description="The candidates of a request that asks for nothing special.")
    waiting: int = Field(description="Pages that wait for a free model.")
    models: list[ModelView]
    recent_errors: list[ErrorView]
    usage_this_month: UsageView = Field(description="Of the team that asks.")


@dispatch_router.get(
    "/dispatch",
    summary="AI models, breakers, limits",
    response_model=DispatchView,
    responses=documented(401, 503),
)
async def dispatch(team: Team, services: ServicesDep) -> Response:
    ai = services.runtime.parts.ai
    if ai is None:
        nothing = UsageView(calls=0, tokens_in=0, tokens_out=0, cost_usd=0.0)
        return json_answer(
            DispatchView(
                configured=False, order=[], waiting=0, models=[], recent_errors=[], usage_this_month=nothing
            )
        )
    dispatcher = ai.dispatcher
    states, errors, usage, waiting = await asyncio.gather(
        dispatcher.admission.states(dispatcher.candidates.all()),
        dispatcher.admission.recent_errors(),
        dispatcher.ledger.team(team),
        ai.waiting.length(),
    )
    return json_answer(
        DispatchView(
            configured=True,
            order=[one.name for one in dispatcher.candidates.of(None, None)],
            waiting=waiting,
            models=[_model(one) for one in states],
            recent_errors=[_error(one) for one in errors],
            usage_this_month=UsageView(
                calls=usage.calls,
                tokens_in=usage.tokens_in,
                tokens_out=usage.tokens_out,
                cost_usd=usage.cost_usd,
            ),
        )
    )


def _model(state: ModelState) -> ModelView:
    return ModelView(
        provider=state.target.provider,
        model=state.target.model,
        state=state.state,
        opens_in_seconds=round(state.opens_in_s, 1),
        incidents=state.incidents,
        in_flight=state.in_flight,
        in_flight_allowed=state.cap,
        in_flight_max=state.target.max_inflight,
        requests_per_minute=state.rpm or None,
        requests_used=round(state.rpm_used, 1),
        tokens_per_minute=state.tpm or None,
        tokens_used=round(state.tpm_used, 1),
        calls_ok=state.calls_ok,
        calls_failed=state.calls_failed,
        last_error=state.last_error or None,
    )


def _error(error: RecentError) -> ErrorView:
    return ErrorView(model=error.target, code=error.code, at=iso(error.at))


metrics_router = APIRouter(tags=["operations"])


@metrics_router.get(
    "/metrics",
    summary="Figures for Prometheus",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **documented(401)},
    response_class=Response,
)
async def metrics(_team: Team, services: ServicesDep) -> Response:
    meters = services.runtime.meters
    found = await MetricsPage(services.runtime, meters).render() if meters else b""
    return Response(found, media_type=CONTENT_TYPE)


queues_router = APIRouter(tags=["operations"])

_ENTRY_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")
_LOOKED_AT = (500, 10_000)
"""How many of a queue's newest letters, at first, and where too few of those are the caller's."""


class QueueView(BaseModel):
    queue: str
    waiting: int = Field(description="In the streams of all priorities, claimed entries included.")
    delayed: int
    dead: int


class WorkerView(BaseModel):
    worker_id: str
    last_seen_at: str | None
    disk_full: bool = Field(default=False, description="It takes no work until its disk has room again.")
    clock_behind_seconds: float = Field(
        default=0.0, description="By how much its clock is behind the coordination server's; negative: ahead."
    )


class QueuesView(BaseModel):
    queues: list[QueueView]
    workers: list[WorkerView]
    workers_alive: int = Field(description="0 says that nothing is read until a worker is started.")
    documents_active: int
    documents_max: int


class LetterView(BaseModel):
    queue: str
    entry_id: str
    job_id: str = Field(description="The job that the failed unit belongs to.")
    main_job_id: str
    unit: str
    reason: str
    provider: str | None = Field(description="Of the last AI call; null for other units.")
    model: str | None
    attempts: int = Field(description="AI calls made for the page.")
    last_error: str | None = Field(
        description="The error code of the last AI call, or why its answer was rejected."
    )
    at: str | None
    replay: str


class LettersView(BaseModel):
    letters: list[LetterView]


@queues_router.get(
    "/queues", summary="Queue depths and workers", response_model=QueuesView, responses=documented(401, 503)
)
async def queues(_team: Team, services: ServicesDep) -> Response:
    parts = services.runtime.parts
    depths, workers, alive, full, off, active = await asyncio.gather(
        asyncio.gather(*(parts.queues.depth(kind) for kind in UnitKind)),
        parts.workers.heartbeats(),
        parts.workers.count_alive(),
        parts.workers.with_full_disk(),
        parts.workers.with_wrong_clock(),
        parts.jobs.count_unfinished(),
    )
    return json_answer(
        QueuesView(
            queues=[
                QueueView(queue=kind.value, **depth) for kind, depth in zip(UnitKind, depths, strict=True)
            ],
            workers=[
                WorkerView(
                    worker_id=name,
                    last_seen_at=iso(seen),
                    disk_full=name in full,
                    clock_behind_seconds=off.get(name, 0.0),
                )
                for name, seen in sorted(workers.items())
            ],
            workers_alive=alive,
            documents_active=active,
            documents_max=parts.settings.limits.queue_max_documents,
        )
    )


@queues_router.get(
    "/dlq",
    summary="Dead letters: units that failed for good",
    response_model=LettersView,
    responses=documented(400, 401, 503),
)
async def dead_letters(
    team: Team,
    services: ServicesDep,
    queue: Annotated[UnitKind | None, Query(description="Only of this queue.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    """Dead letters of your team, the newest first."""
    kinds = [queue] if queue else list(UnitKind)
    shown: list[LetterView] = []
    for most in _LOOKED_AT:
        found = await asyncio.gather(
            *(services.runtime.parts.queues.dead_letters(kind, most) for kind in kinds)
        )
        newest = sorted((one for some in found for one in some), key=lambda one: one.at, reverse=True)
        shown = await _of_team(services.runtime.engine, team, newest, limit)
        if len(shown) == limit or all(len(some) < most for some in found):
            break
    return json_answer(LettersView(letters=shown))


@queues_router.post(
    "/dlq/{queue}/{entry_id}/replay",
    summary="Retry a dead letter",
    status_code=202,
    response_model=RetryView,
    responses={
        200: {"model": RetryView, "description": "Nothing better to get."},
        **documented(400, 401, 404, 409, 503),
    },
)
async def replay(queue: UnitKind, entry_id: str, team: Team, services: ServicesDep) -> Response:
    """Retries the page or job that the letter names and removes the letter.

    A callback is sent, or a result exported, again by joining the pages again, since both follow the end of a job.
    """
    runtime = services.runtime
    letter = None
    if _ENTRY_ID.fullmatch(entry_id):
        letter = await runtime.parts.queues.dead_letter(queue, entry_id)
    if letter is None:
        raise MissingError(f"There is no such entry in the dead letters of {queue.value}.")
    job = await runtime.engine.job(team, letter.job_id)
    if letter.kind is UnitKind.VAULT and job.vault is not None and runtime.vault is not None:
        await runtime.vault.advance(job.vault.team, job.vault.document_id)
    response = await retry_answer(runtime.engine, job, _named(letter, job), vault=runtime.vault)
    await runtime.parts.queues.remove_dead_letter(letter)
    return response


async def _of_team(engine: Engine, team: str, letters: list[DeadLetter], limit: int) -> list[LetterView]:
    known: dict[str, bool] = {}
    shown: list[LetterView] = []
    for letter in letters:
        if letter.job_id not in known:
            known[letter.job_id] = await _belongs(engine, team, letter.job_id)
        if known[letter.job_id]:
            shown.append(_letter(letter))
        if len(shown) == limit:
            break
    return shown


async def _belongs(engine: Engine, team: str, job_id: str) -> bool:
    try:
        await engine.job(team, job_id)
    except MissingError:
        return False
    return True


def _named(letter: DeadLetter, job: MainJob) -> str:
    """The id of the job to retry."""
    if letter.kind is UnitKind.PAGE:
        return page_job_id(job.id, unit_page(letter.unit))
    if letter.kind in (UnitKind.DOWNLOAD, UnitKind.SPLIT, UnitKind.MERGE):
        return str(JobId(job.id, JobType(letter.kind.value)))
    if letter.kind in (UnitKind.CALLBACK, UnitKind.EXPORT) and job.status is JobStatus.COMPLETED:
        return str(JobId(job.id, JobType.MERGE))
    return job.id


def _letter(letter: DeadLetter) -> LetterView:
    child = letter.job_id
    if letter.kind is UnitKind.PAGE:
        child = page_job_id(letter.job_id, unit_page(letter.unit))
    elif letter.kind in (UnitKind.DOWNLOAD, UnitKind.SPLIT, UnitKind.MERGE):
        child = str(JobId(letter.job_id, JobType(letter.kind.value)))
    return LetterView(
        queue=letter.kind.value,
        entry_id=letter.entry_id,
        job_id=child,
        main_job_id=letter.job_id,
        unit=letter.unit,
        reason=letter.reason,
        provider=letter.call.provider or None,
        model=letter.call.model or None,
        attempts=letter.call.attempts,
        last_error=letter.call.last_error or None,
        at=iso(letter.at),
        replay=f"/dlq/{letter.kind.value}/{letter.entry_id}/replay",
    )
