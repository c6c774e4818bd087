"""Queues, workers and dead letters, for whoever runs the service."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from quire.api.answers import json_answer
from quire.api.auth import Team
from quire.api.errors import documented
from quire.api.jobs import RetryView, retry_answer
from quire.api.services import ServicesDep
from quire.api.views import iso
from quire.domain.jobs import JobId, JobStatus, JobType, MainJob, UnitKind, page_job_id, unit_page
from quire.errors import NotFoundError
from quire.pipeline.engine import Engine
from quire.queue.streams import DeadLetter

router = APIRouter(tags=["operations"])

_ENTRY_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")
_LOOKED_AT = (500, 10_000)
"""How many of a queue's newest letters, at first, and where too few of those are the caller's."""


class QueueView(BaseModel):
    queue: str
    waiting: int = Field(description="In the stream, those in hand included.")
    delayed: int
    dead: int


class WorkerView(BaseModel):
    worker_id: str
    last_seen_at: str | None


class QueuesView(BaseModel):
    queues: list[QueueView]
    workers: list[WorkerView]
    documents_active: int
    documents_max: int


class LetterView(BaseModel):
    queue: str
    entry_id: str
    job_id: str = Field(description="The job that the given-up work belongs to.")
    main_job_id: str
    unit: str
    reason: str
    at: str | None
    replay: str


class LettersView(BaseModel):
    letters: list[LetterView]


@router.get(
    "/queues", summary="How much waits, who works", response_model=QueuesView, responses=documented(401, 503)
)
async def queues(_team: Team, services: ServicesDep) -> Response:
    parts = services.runtime.parts
    depths, workers, active = await asyncio.gather(
        asyncio.gather(*(parts.queues.depth(kind) for kind in UnitKind)),
        parts.workers.known(),
        parts.jobs.count_active(),
    )
    return json_answer(
        QueuesView(
            queues=[
                QueueView(queue=kind.value, **depth) for kind, depth in zip(UnitKind, depths, strict=True)
            ],
            workers=[
                WorkerView(worker_id=name, last_seen_at=iso(seen)) for name, seen in sorted(workers.items())
            ],
            documents_active=active,
            documents_max=parts.settings.limits.queue_max_documents,
        )
    )


@router.get(
    "/dlq", summary="Work that was given up", response_model=LettersView, responses=documented(400, 401, 503)
)
async def dead_letters(
    team: Team,
    services: ServicesDep,
    queue: Annotated[UnitKind | None, Query(description="Only of this queue.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    """Your team's, the newest first."""
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


@router.post(
    "/dlq/{queue}/{entry_id}/replay",
    summary="Try given-up work again",
    status_code=202,
    response_model=RetryView,
    responses={
        200: {"model": RetryView, "description": "Nothing better to get."},
        **documented(400, 401, 404, 409, 503),
    },
)
async def replay(queue: UnitKind, entry_id: str, team: Team, services: ServicesDep) -> Response:
    """Retries the page or job that the letter names and takes the letter away.

    A callback is sent, or a result exported, again by joining the pages again, since both follow the end of a job.
    """
    runtime = services.runtime
    letter = None
    if _ENTRY_ID.fullmatch(entry_id):
        letter = await runtime.parts.queues.dead_letter(queue, entry_id)
    if letter is None:
        raise NotFoundError(f"There is no such entry in the dead letters of {queue.value}.")
    job = await runtime.engine.job(team, letter.job_id)
    if letter.kind is UnitKind.VAULT and job.vault is not None and runtime.vault is not None:
        await runtime.vault.advance(job.vault.team, job.vault.document_id)
    response = await retry_answer(runtime.engine, job, _named(letter, job), vault=runtime.vault)
    await runtime.parts.queues.unbury(letter)
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
    except NotFoundError:
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
        at=iso(letter.at),
        replay=f"/dlq/{letter.kind.value}/{letter.entry_id}/replay",
    )
