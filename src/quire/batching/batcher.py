"""The batcher: accepts images from waiting callers and runs the tasks that bring each caller its own result."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quire.batching.backend_breaker import BackendBreaker
from quire.batching.backend_protocol import Backend
from quire.batching.batch_former import BatchFormer, FormerOptions
from quire.batching.batch_sender import SenderOptions, SenderParts
from quire.batching.batch_traces import BatchTraces
from quire.batching.body_memory import BodyMemory
from quire.batching.body_reception import BodyReception, ImageLimits
from quire.batching.object_shelves import Shelves
from quire.batching.parse_errors import (
    BackendUnavailableError,
    ClientRateLimitedError,
    QueueFullError,
    ResponseTimeoutError,
    StoppingError,
)
from quire.batching.parse_intake import ParseIntake, ParseSubmission
from quire.batching.service_model import ServiceModel, wait_s
from quire.batching.upkeep import Cleanup, Upkeep, UpkeepOptions, UpkeepParts
from quire.batching.waiting_callers import Failed, ParseOutcome, Waiters, lost_request
from quire.clock import Clock
from quire.coordination.liveness import Workers
from quire.coordination.parse_queue import ParseQueue
from quire.coordination.parse_requests import (
    BreakerOpen,
    KnownRequest,
    QueueFull,
    QueueStatus,
    RequestAccepted,
)
from quire.errors import MissingError, NotReadyError, QuireError
from quire.objects.disk_guard import DiskGuard
from quire.objects.object_store import ObjectStore
from quire.reading.pool.child_pool import ChildPool
from quire.settings.batching_settings import BatchingSettings
from quire.telemetry.metrics import BatchingMetrics

if TYPE_CHECKING:
    from quire.telemetry.tracer import Tracer

_DRAIN_RESERVE_S = 2.0
_LAST_CALLERS_S = 1.0
"""How long callers may wait for a batch that is sent soon, here or by another replica, before they are redirected."""
_STOPPING = (
    "The service is stopping. The image stays in the queue: send GET /parse/{}, "
    "or send it again with its Idempotency-Key."
)


@dataclass(frozen=True, slots=True)
class BatcherParts:
    queue: ParseQueue
    workers: Workers
    objects: ObjectStore
    disk: DiskGuard
    pool: ChildPool
    backend: Backend
    clock: Clock
    metrics: BatchingMetrics
    tracer: Tracer | None = None


@dataclass(frozen=True, slots=True)
class BatcherCondition:
    """The status of queue and backend, for `/queue/status` and `/health`."""

    status: QueueStatus
    estimated_wait_s: float
    backend_reachable: bool


@dataclass(slots=True)
class Ticket:
    """One caller that waits for one request; the future gets the result."""

    team: str
    request_id: str
    future: asyncio.Future[ParseOutcome | None]
    since: float


class Batcher:
    """Belongs to one event loop. Without `forms_batches` it accepts requests only, and other replicas send them.

    `reception` receives bodies, `memory` accounts for them and `former` sends batches.
    """

    def __init__(
        self, parts: BatcherParts, settings: BatchingSettings, *, max_pixels: int, forms_batches: bool
    ) -> None:
        queue, objects, clock = parts.queue, parts.objects, parts.clock
        self._parts = parts
        self.metrics = parts.metrics
        self._settings = settings
        self._forms_batches = forms_batches
        self._stopping = False
        self.memory = BodyMemory(settings.memory_bytes)
        shelves = Shelves(queue, objects, clock, settings.ttl_s)
        limits = ImageLimits(settings.max_request_bytes, max_pixels)
        self.reception = BodyReception(self.memory, objects, shelves, parts.pool, limits)
        self._waiters = Waiters(queue, objects)
        self._cleanup = Cleanup(queue, objects, self.memory, self._is_being_sent)
        self._traces = BatchTraces(parts.tracer) if parts.tracer is not None else None
        sending = SenderParts(
            queue=queue,
            backend=parts.backend,
            breaker=BackendBreaker(queue, parts.backend, clock, settings.failure_threshold),
            objects=objects,
            disk=parts.disk,
            shelves=shelves,
            memory=self.memory,
            waiters=self._waiters,
            clock=clock,
            metrics=parts.metrics,
            delete_objects=self._cleanup.delete,
            traces=self._traces,
        )
        options = FormerOptions(
            settings.max_concurrent_batches,
            settings.max_batch_size,
            settings.failure_threshold,
            SenderOptions(settings.max_retry_count, settings.retry_delay_s),
        )
        self.former = BatchFormer(sending, parts.workers, options)
        self._intake = ParseIntake(
            queue, objects, shelves, self.memory, self.former.expect_requests, forms_batches=forms_batches
        )
        self._upkeep = Upkeep(
            UpkeepParts(
                queue=queue,
                shelves=shelves,
                backend=parts.backend,
                memory=self.memory,
                waiters=self._waiters,
                former=self.former,
                clock=clock,
                metrics=parts.metrics,
            ),
            UpkeepOptions(
                ttl_s=parts.workers.ttl_s,
                health_interval_s=settings.health_check_interval_s,
                failures_to_open=settings.failure_threshold,
                forms_batches=forms_batches,
            ),
        )

    # Called for callers

    async def admit(self, client: str) -> None:
        """Raises ClientRateLimitedError, StoppingError, DiskFullError, QueueFullError or BackendUnavailableError.

        Called before the body is read.
        """
        limit = self._settings.rate_limit_per_client
        if limit:
            wait = await self._parts.queue.rate_limit_wait_s(client, limit)
            if wait > 0:
                raise ClientRateLimitedError(
                    f"This client has sent more than {limit} requests in a minute. Send them more slowly.",
                    retry_after_s=wait,
                )
        if self._stopping:
            raise StoppingError("The service is stopping. Try again shortly.", retry_after_s=1)
        self._parts.disk.refuse_if_full()
        if self.former.opened_until_s > self._parts.clock.now():
            raise self._unavailable(self.former.opened_until_s)
        if self.former.depth >= self._settings.backpressure_threshold:
            depth = self.former.depth = await self._parts.queue.depth()
            if depth >= self._settings.backpressure_threshold:
                raise self._full(depth)

    async def resume(self, team: str, key: str) -> Ticket | None:
        """Returns a ticket for the earlier request with this Idempotency-Key; None if there is none."""
        request_id = await self._parts.queue.find_by_key(team, key)
        return None if request_id is None else await self._attached(team, request_id, wait=True)

    async def submit(self, submission: ParseSubmission) -> Ticket:
        """Adds a request to the queue, durably, and returns its ticket.

        Raises QueueFullError, BackendUnavailableError, CoordinationError or ObjectsError.
        """
        ticket = self._ticket(submission.team, submission.body.request_id)
        if self._traces is not None:
            self._traces.remember_request(ticket.request_id)
        try:
            answer = await self._intake.accept(submission)
        except BaseException:
            self._waiters.leave(ticket.request_id, ticket.future)
            self._cleanup.caller_left(ticket.request_id)  # it may be in the queue nevertheless
            raise
        match answer:
            case RequestAccepted(depth):
                self._waiters.accepted(ticket.request_id)
                if not self.former.has_request(ticket.request_id):
                    self.former.depth = max(self.former.depth, depth)
                    self.former.wake()
                return ticket
            case KnownRequest(request_id):
                self._waiters.leave(ticket.request_id, ticket.future)
                known = await self._attached(submission.team, request_id, wait=True)
                if known is None:
                    raise lost_request()
                return known
            case QueueFull(depth):
                self._waiters.leave(ticket.request_id, ticket.future)
                raise self._full(depth)
            case BreakerOpen(until):
                self._waiters.leave(ticket.request_id, ticket.future)
                raise self._unavailable(until)

    async def attach(self, team: str, request_id: str, *, wait: bool = True) -> Ticket:
        """Returns a ticket for an earlier request. Raises MissingError, and NotReadyError if it would have to wait."""
        ticket = await self._attached(team, request_id, wait=wait)
        if ticket is None:
            raise MissingError("There is no such request, or its result has expired.")
        return ticket

    async def _attached(self, team: str, request_id: str, *, wait: bool) -> Ticket | None:
        """As `attach`; None if Redis does not have the request (any more)."""
        ticket = self._ticket(team, request_id)
        try:
            seen = await self._parts.queue.attach(team, request_id, wait=wait)
            if seen is None:
                self._waiters.leave(request_id, ticket.future)
                return None
            if seen.over:
                settled = await self._waiters.outcome_of(seen)
                if not ticket.future.done():
                    ticket.future.set_result(settled)
            elif not wait:
                raise NotReadyError("The image is queued or being read.", retry_after_s=1)
            ticket.since = seen.enqueued_at
            self._waiters.accepted(request_id)
        except BaseException:
            self._waiters.leave(request_id, ticket.future)
            raise
        self.former.wake()
        return ticket

    async def result(self, ticket: Ticket, gone: asyncio.Future[None] | None = None) -> ParseOutcome | None:
        """Waits for the ticket's result; None if `gone` is done first.

        Raises ResponseTimeoutError after RESPONSE_TIMEOUT; the request stays in the queue.
        """
        metrics, future = self._parts.metrics, ticket.future

        def give_up(_: object = None) -> None:
            if not future.done():
                future.set_result(None)

        if gone is not None:
            gone.add_done_callback(give_up)
        timer = asyncio.get_running_loop().call_later(self._settings.response_timeout_s, give_up)
        metrics.active_connections.inc()
        try:
            settled = await future
            if settled is not None:
                metrics.latency.observe(max(0.0, self._parts.clock.now() - ticket.since))
                return settled
            if gone is not None and gone.done():
                return None
            self._keep(ticket)
            raise ResponseTimeoutError(
                f"No result within {self._settings.response_timeout_s:g} seconds. The image stays in the queue: "
                f"send GET /parse/{ticket.request_id}.",
                retry_after_s=60,
            )
        finally:
            timer.cancel()
            if gone is not None:
                gone.remove_done_callback(give_up)
            metrics.active_connections.dec()
            if self._waiters.leave(ticket.request_id, ticket.future):
                self._cleanup.caller_left(ticket.request_id)

    async def condition(self) -> BatcherCondition:
        status = await self._upkeep.status()
        return BatcherCondition(status, self._wait_s(status.depth), await self._upkeep.reachable())

    # Tasks

    async def run(self) -> None:
        """Runs the batcher's tasks until cancelled. Raises if one of them fails."""
        await self._upkeep.heartbeat()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._upkeep.run_heartbeat(), name="parse-heartbeat")
            group.create_task(self._upkeep.run_wakeups(), name="parse-wakeups")
            group.create_task(self._upkeep.run_rounds(), name="parse-rounds")
            group.create_task(self._cleanup.run(), name="parse-cleanup")
            if self._forms_batches:
                group.create_task(self.former.run(), name="parse-former")

    async def drain(self, timeout_s: float) -> None:
        """Answers every caller: with its result if its batch was sent, else with the address of the result."""
        self._stopping = self._upkeep.stopping = True
        await self._intake.close()
        await self._answer_last_callers(min(_LAST_CALLERS_S, timeout_s / 2))
        for request_id in self._waiters.ids():
            if not self.former.has_request(request_id):
                self._redirect(request_id)
        await self.former.drain(max(0.0, timeout_s - _DRAIN_RESERVE_S))
        for request_id in self._waiters.ids():
            self._redirect(request_id)
        with suppress(QuireError):
            await self._cleanup.run_once()
            await self._parts.queue.end_heartbeat()

    async def _answer_last_callers(self, most_s: float) -> None:
        """Returns when no caller waits, or after this time. Batches are formed meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                while self._waiters.ids():  # noqa: ASYNC110 - callers end in many ways
                    await asyncio.sleep(0.02)

    def _is_being_sent(self, request_id: str) -> bool:
        return self.former.has_request(request_id)

    def _ticket(self, team: str, request_id: str) -> Ticket:
        return Ticket(team, request_id, self._waiters.join(team, request_id), self._parts.clock.now())

    def _keep(self, ticket: Ticket) -> None:
        """Ends the caller's wait and keeps its request."""
        if self._waiters.leave(ticket.request_id, ticket.future):
            self._cleanup.caller_redirected(ticket.request_id)

    def _redirect(self, request_id: str) -> None:
        error = StoppingError(_STOPPING.format(request_id), retry_after_s=2)
        self._cleanup.caller_redirected(request_id)
        self._waiters.deliver(Failed(request_id, error.as_dict()))

    def _unavailable(self, until_s: float) -> BackendUnavailableError:
        return BackendUnavailableError(
            "The batch backend is unavailable. Try again later.",
            retry_after_s=max(1.0, until_s - self._parts.clock.now()),
        )

    def _full(self, depth: int) -> QueueFullError:
        return QueueFullError(depth, self._wait_s(depth))

    def _wait_s(self, ahead: int) -> float:
        model: ServiceModel = self.former.model
        return wait_s(ahead, self._settings.max_concurrent_batches, self._settings.max_batch_size, model)
