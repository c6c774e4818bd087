"""Liveness, readiness and health of the service. Public, so the responses hold no other data."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

import quire
from quire.api.http.responses import json_answer
from quire.api.jobs.job_views import iso
from quire.batching.batcher import BatcherCondition
from quire.bootstrap import Runtime
from quire.clock import Clock
from quire.domain.job import UnitKind
from quire.errors import QuireError

router = APIRouter(prefix="/health", tags=["health"])

_PROBE_TIMEOUT_S = 3.0
_GOOD_FOR_S = 1.0


class Live(BaseModel):
    status: str = Field(examples=["ok"])


class Ready(BaseModel):
    status: str = Field(description="`ok` or `unavailable`.")
    failing: list[str] = Field(description="The parts that can't be used: `coordination`, `objects`.")


class Health(Ready):
    redis_connected: bool
    queue_depth: int | None = Field(description="Entries in all queues; null while they can't be counted.")
    modal_reachable: bool | None = Field(description="The batch backend; null where there is none to ask.")
    last_batch_sent: str | None
    uptime_seconds: float
    version: str


@dataclass(frozen=True, slots=True)
class PlaneCondition:
    failing: tuple[str, ...]
    queue_depth: int | None
    backend_reachable: bool | None = None
    last_batch_at: float | None = None


class Readiness:
    """Tries the planes, at most once a second however many ask."""

    def __init__(self, runtime: Runtime, clock: Clock) -> None:
        self._runtime = runtime
        self._clock = clock
        self._lock = asyncio.Lock()
        self._seen: tuple[float, PlaneCondition] | None = None

    async def condition(self) -> PlaneCondition:
        async with self._lock:
            now = self._clock.monotonic()
            if self._seen is not None and now - self._seen[0] < _GOOD_FOR_S:
                return self._seen[1]
            depth, objects, batching = await asyncio.gather(
                _outcome(self._depth), _outcome(self._runtime.parts.objects.check), self._batching()
            )
            failing = [
                *(["coordination"] if isinstance(depth, Exception) else []),
                *(["objects"] if isinstance(objects, Exception) else []),
            ]
            found = PlaneCondition(tuple(failing), depth if isinstance(depth, int) else None)
            if batching is not None:
                waiting = batching.status.depth
                found = replace(
                    found,
                    queue_depth=None if found.queue_depth is None else found.queue_depth + waiting,
                    backend_reachable=batching.backend_reachable,
                    last_batch_at=batching.status.last_batch_at,
                )
            self._seen = (self._clock.monotonic(), found)
            return found

    async def _batching(self) -> BatcherCondition | None:
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                return await self._runtime.batcher.condition() if self._runtime.batcher else None
        except (QuireError, TimeoutError):
            return None

    async def _depth(self) -> int:
        depths = await asyncio.gather(*(self._runtime.parts.queues.depth(kind) for kind in UnitKind))
        return sum(depth["waiting"] + depth["delayed"] for depth in depths)


async def _outcome(probe: Callable[[], Awaitable[int | None]]) -> int | Exception | None:
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            return await probe()
    except (QuireError, TimeoutError) as error:
        return error


@router.get("/live", summary="The process is up", response_model=Live)
async def live() -> Response:
    return json_answer(Live(status="ok"))


@router.get(
    "/ready", summary="The planes can be used", response_model=Ready, responses={503: {"model": Ready}}
)
async def ready(request: Request) -> Response:
    condition = await request.app.state.services.readiness.condition()
    return json_answer(
        Ready(status=_word(condition), failing=list(condition.failing)), 503 if condition.failing else 200
    )


@router.get("", summary="Both, and a few figures", response_model=Health, responses={503: {"model": Health}})
async def health(request: Request) -> Response:
    services = request.app.state.services
    condition = await services.readiness.condition()
    clock = services.runtime.parts.clock
    return json_answer(
        Health(
            status=_word(condition),
            failing=list(condition.failing),
            redis_connected="coordination" not in condition.failing,
            queue_depth=condition.queue_depth,
            modal_reachable=condition.backend_reachable,
            last_batch_sent=iso(condition.last_batch_at),
            uptime_seconds=round(clock.monotonic() - services.started_monotonic, 3),
            version=quire.__version__,
        ),
        503 if condition.failing else 200,
    )


def _word(condition: PlaneCondition) -> str:
    return "unavailable" if condition.failing else "ok"
