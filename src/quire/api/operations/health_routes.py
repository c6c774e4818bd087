"""Liveness, readiness and health of the service. Public, so the responses hold no other data."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

import quire
from quire.api.http.responses import json_answer
from quire.api.jobs.job_views import iso
from quire.api.operations.catalog_probe import CatalogProbe
from quire.batching.batcher import BatcherCondition
from quire.bootstrap import Runtime
from quire.clock import Clock
from quire.coordination.server_clock import clock_issue, clock_words
from quire.domain.job import UnitKind
from quire.errors import QuireError
from quire.objects.disk_guard import free_bytes

router = APIRouter(prefix="/health", tags=["health"])

_PROBE_TIMEOUT_S = 3.0
_GOOD_FOR_S = 1.0
_NEARLY_FULL = 0.8
_UNSENT_S = 30.0
_MOST_NAMED = 5

T = TypeVar("T")


class Live(BaseModel):
    status: str = Field(examples=["ok"])


class Ready(BaseModel):
    status: str = Field(description="`ok` or `unavailable`.")
    failing: list[str] = Field(
        description="The parts that can't be used: `coordination`, `objects`; `draining`: the service ends."
    )


class Health(BaseModel):
    status: str = Field(
        description="`healthy`; `degraded`: it works, but see `issues`; `unhealthy`: a plane can't be used.",
        examples=["healthy"],
    )
    issues: list[str] = Field(description="What is wrong, one sentence each.")
    timestamp: str
    failing: list[str] = Field(description="The parts that can't be used: `coordination`, `objects`.")
    redis_connected: bool
    queue_depth: int | None = Field(description="Entries in all queues; null while they can't be counted.")
    modal_reachable: bool | None = Field(description="The batch backend; null if it can't be checked.")
    last_batch_sent: str | None
    uptime_seconds: float
    version: str


@dataclass(frozen=True, slots=True)
class PlaneCondition:
    failing: tuple[str, ...]
    issues: tuple[str, ...]
    queue_depth: int | None
    backend_reachable: bool | None
    last_batch_at: float | None

    @property
    def status(self) -> str:
        if self.failing:
            return "unhealthy"
        return "degraded" if self.issues else "healthy"


class Readiness:
    """Checks the planes and what limits the work, at most once a second for all requests together."""

    def __init__(self, runtime: Runtime, clock: Clock) -> None:
        self._runtime = runtime
        self._clock = clock
        self._lock = asyncio.Lock()
        self._seen: tuple[float, PlaneCondition] | None = None
        has_server = bool(runtime.settings.catalog.database_url)
        self._catalog = CatalogProbe(runtime.catalog, clock, has_server=has_server)

    async def condition(self) -> PlaneCondition:
        async with self._lock:
            now = self._clock.monotonic()
            if self._seen is not None and now - self._seen[0] < _GOOD_FOR_S:
                return self._seen[1]
            found = await self._check()
            self._seen = (self._clock.monotonic(), found)
            return found

    async def _check(self) -> PlaneCondition:
        parts = self._runtime.parts
        depths, objects, workers, reports, batching, catalog = await asyncio.gather(
            _outcome(self._depths),
            _outcome(parts.objects.check),
            _outcome(parts.workers.heartbeats),
            _outcome(self._reports),
            self._batching(),
            self._catalog.issue(),
        )
        failing, issues, depth = [], [], None
        if isinstance(depths, Exception):
            failing.append("coordination")
            issues.append("The coordination server (Redis) can't be used.")
        if isinstance(objects, Exception):
            failing.append("objects")
            issues.append("The object store can't be used.")
        if catalog is not None:
            issues.append(catalog)
        if isinstance(depths, tuple):
            waiting, delayed = depths
            depth = waiting + delayed + (batching.status.depth if batching else 0)
            if isinstance(workers, dict):
                issues += self._idle_issues(workers, waiting)
        if isinstance(reports, tuple):
            issues += _full_disk_issues(reports[0]) + self._clock_issues(reports[1])
        if batching is not None:
            issues += self._batching_issues(batching)
        issues += self._disk_issues()
        return PlaneCondition(
            tuple(failing),
            tuple(issues),
            depth,
            batching.backend_reachable if batching else None,
            batching.status.last_batch_at if batching else None,
        )

    def _idle_issues(self, workers: dict[str, float], waiting: int) -> list[str]:
        """No worker is alive; where this process works itself, only if units wait all the same."""
        since = self._clock.now() - self._runtime.parts.workers.ttl_s
        if any(heard_s >= since for heard_s in workers.values()):
            return []
        if waiting:
            return [f"{waiting} units of work wait and no worker is alive. Start `quire worker`."]
        return [] if self._runtime.worker else ["No worker is alive. Start `quire worker`."]

    def _clock_issues(self, off: dict[str, float]) -> list[str]:
        here = clock_issue(self._runtime.parts.clock)
        others = {name: offset_s for name, offset_s in off.items() if name != self._runtime.worker_id}
        return [
            *([here] if here else []),
            *(
                f"The clock of worker {name} is {clock_words(offset_s)} the coordination server's."
                for name, offset_s in sorted(others.items())[:_MOST_NAMED]
            ),
            *([f"{len(others)} workers have wrong clocks."] if len(others) > _MOST_NAMED else []),
        ]

    def _batching_issues(self, found: BatcherCondition) -> list[str]:
        limits, status, now = self._runtime.settings.batching, found.status, self._clock.now()
        issues = []
        if not found.backend_reachable:
            issues.append("The batch backend can't be reached (BATCH_BACKEND_URL).")
        if status.backend.failures >= limits.failure_threshold:
            issues.append("The breaker of the batch backend is open: its last calls failed.")
        elif status.oldest_at and not status.slots_taken and now - status.oldest_at > _UNSENT_S:
            issues.append(f"{status.depth} images wait and no process sends batches. Start `quire worker`.")
        if status.depth > _NEARLY_FULL * limits.max_queue_size:
            issues.append(f"The batch queue is nearly full: {status.depth} of {limits.max_queue_size}.")
        return issues

    def _disk_issues(self) -> list[str]:
        general = self._runtime.settings.general
        if self._runtime.parts.disk.is_full:
            return ["This host's disk is full: it takes no new documents or images (MIN_FREE_DISK)."]
        free = free_bytes(general.data_dir.absolute())
        if free >= general.min_free_disk_bytes:
            return []
        return [f"The disk is nearly full: {free // (1 << 20)} MB are free (MIN_FREE_DISK)."]

    async def _reports(self) -> tuple[list[str], dict[str, float]]:
        """What workers have reported: full disks, and clocks that are off."""
        workers = self._runtime.parts.workers
        full, off = await asyncio.gather(workers.with_full_disk(), workers.with_wrong_clock())
        return full, off

    async def _batching(self) -> BatcherCondition | None:
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                return await self._runtime.batcher.condition() if self._runtime.batcher else None
        except (QuireError, TimeoutError):
            return None

    async def _depths(self) -> tuple[int, int]:
        """Returns the entries that wait, and those that are delayed."""
        depths = await asyncio.gather(*(self._runtime.parts.queues.depth(kind) for kind in UnitKind))
        return sum(depth["waiting"] for depth in depths), sum(depth["delayed"] for depth in depths)


def _full_disk_issues(workers: list[str]) -> list[str]:
    if not workers:
        return []
    return [f"Workers that take no work because their disks are full: {len(workers)} (MIN_FREE_DISK)."]


async def _outcome(probe: Callable[[], Awaitable[T]]) -> T | Exception:
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
    """Also 503 (`draining`) from SIGTERM on, so that a load balancer sends requests elsewhere (SHUTDOWN_DELAY)."""
    services = request.app.state.services
    condition = await services.readiness.condition()
    failing = [*condition.failing, *(["draining"] if services.draining.is_set() else [])]
    status, code = ("unavailable", 503) if failing else ("ok", 200)
    return json_answer(Ready(status=status, failing=failing), code)


@router.get(
    "",
    summary="The state of the service, what is wrong, and a few figures",
    response_model=Health,
    responses={503: {"model": Health}},
)
async def health(request: Request) -> Response:
    services = request.app.state.services
    condition = await services.readiness.condition()
    clock = services.runtime.parts.clock
    return json_answer(
        Health(
            status=condition.status,
            issues=list(condition.issues),
            timestamp=iso(clock.now()) or "",
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
