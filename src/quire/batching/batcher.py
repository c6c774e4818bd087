"""The batcher: takes images in for callers that wait, and runs what is needed until each has its own result."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from quire.batching.backend_protocol import Backend
from quire.batching.batch_former import Former, FormerOptions
from quire.batching.batch_sender import SenderOptions, SenderParts
from quire.batching.body_memory import Body, BodyMemory, Bytes, Receiving
from quire.batching.body_reception import ImageLimits, Reception
from quire.batching.object_shelves import Shelves
from quire.batching.parse_errors import (
    BackendAwayError,
    ClientRateLimitedError,
    QueueFullError,
    StoppingError,
    WaitedTooLongError,
)
from quire.batching.parse_intake import Application, ParseIntake
from quire.batching.service_model import ServiceModel, wait_s
from quire.batching.upkeep import Chores, Upkeep, UpkeepOptions, UpkeepParts
from quire.batching.waiting_callers import Failed, Settled, Waiters
from quire.clock import Clock
from quire.coordination.liveness import Workers
from quire.coordination.parse_queue import ParseQueue
from quire.coordination.parse_requests import (
    BackendOpen,
    Known,
    Observed,
    QueueFull,
    QueueStatus,
    RequestAccepted,
)
from quire.errors import MissingError, NotReadyError, QuireError
from quire.objects.object_store import ObjectStore
from quire.reading.pool.child_pool import ChildPool
from quire.settings.batching_settings import BatchingSettings
from quire.telemetry.metrics import BatchingMetrics

_HOLD_BACK_S = 2.0
_STOPPING = (
    "The service is stopping. The image waits on: ask for GET /parse/{}, "
    "or send it again with its Idempotency-Key."
)


@dataclass(frozen=True, slots=True)
class BatcherParts:
    queue: ParseQueue
    workers: Workers
    objects: ObjectStore
    pool: ChildPool
    backend: Backend
    clock: Clock
    metrics: BatchingMetrics


@dataclass(frozen=True, slots=True)
class BatcherCondition:
    """The batcher at a glance, for `/queue/status` and `/health`."""

    status: QueueStatus
    estimated_wait_s: float
    backend_reachable: bool


@dataclass(slots=True)
class Ticket:
    """A caller's place: the future gets its result."""

    team: str
    request_id: str
    future: asyncio.Future[Settled | None]
    since: float


class Batcher:
    """Belongs to one event loop. With `forms_batches` it also sends; else other replicas do."""

    def __init__(
        self, parts: BatcherParts, settings: BatchingSettings, *, max_pixels: int, forms_batches: bool
    ) -> None:
        queue, objects, clock = parts.queue, parts.objects, parts.clock
        self._parts = parts
        self._settings = settings
        self._forms_batches = forms_batches
        self._stopping = False
        self._memory = BodyMemory(settings.memory_bytes)
        shelves = Shelves(queue, objects, clock, settings.ttl_s)
        limits = ImageLimits(settings.max_request_bytes, max_pixels)
        self._reception = Reception(self._memory, objects, shelves, parts.pool, limits)
        self._waiters = Waiters(queue, objects)
        self._chores = Chores(queue, objects, self._memory, self._has_request)
        sending = SenderParts(
            queue=queue,
            backend=parts.backend,
            objects=objects,
            shelves=shelves,
            memory=self._memory,
            waiters=self._waiters,
            clock=clock,
            metrics=parts.metrics,
            unneeded=self._chores.delete,
            observed=self._note,
        )
        options = FormerOptions(
            settings.max_concurrent_batches,
            settings.max_batch_size,
            settings.failure_threshold,
            SenderOptions(settings.max_retry_count, settings.retry_delay_s),
        )
        self._former = Former(sending, parts.workers, options)
        self._intake = ParseIntake(
            queue, objects, shelves, self._memory, self._former.coming, forms_batches=forms_batches
        )
        self._upkeep = Upkeep(
            UpkeepParts(
                queue=queue,
                shelves=shelves,
                backend=parts.backend,
                memory=self._memory,
                waiters=self._waiters,
                former=self._former,
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

    @property
    def metrics(self) -> BatchingMetrics:
        return self._parts.metrics

    def expect(self, arriving: int) -> None:
        """So many callers of this replica are about to be taken in."""
        self._former.arriving = arriving

    def hurried(self) -> bool:
        """Whether a free slot waits for a batch that is on its way out right now."""
        return self._former.hurried

    def reserve(self, size: int) -> bool:
        """Whether so many more bytes may be held, for a body that is being read; `release` gives them back."""
        return self._memory.reserve(size)

    def release(self, size: int) -> None:
        self._memory.release(size)

    # What callers do

    async def admit(self, client: str) -> None:
        """Raises RateLimitedError, QueueFullError or BackendAwayError, before anything of the body is read."""
        limit = self._settings.rate_limit_per_client
        if limit:
            wait = await self._parts.queue.wait_for_rate(client, limit)
            if wait > 0:
                raise ClientRateLimitedError(
                    f"More than {limit} requests a minute. Wait a little between them.", retry_after_s=wait
                )
        if self._stopping:
            raise StoppingError("The service is stopping. Try again shortly.", retry_after_s=1)
        if self._former.opened_until_s > self._parts.clock.now():
            raise self._away(self._former.opened_until_s)
        if self._former.depth >= self._settings.backpressure_threshold:
            depth = self._former.depth = await self._parts.queue.depth()
            if depth >= self._settings.backpressure_threshold:
                raise self._full(depth)

    def receiving(self) -> Receiving:
        return self._reception.receiving()

    async def checked(self, receiving: Receiving) -> Body:
        """As `Reception.checked`."""
        return await self._reception.checked(receiving)

    async def whole(self, data: Bytes) -> Body:
        """As `Reception.whole`."""
        return await self._reception.whole(data)

    async def discard(self, body: Body) -> None:
        await self._reception.discard(body)

    async def known(self, team: str, key: str) -> str | None:
        return await self._parts.queue.known(team, key)

    async def submit(self, application: Application) -> Ticket:
        """A place in the queue, durable. Raises QueueFullError, BackendAwayError, or a plane's error."""
        ticket = self._ticket(application.team, application.body.request_id)
        try:
            answer = await self._intake.accept(application)
        except BaseException:
            self._waiters.leave(ticket.request_id, ticket.future)
            self._chores.caller_left(ticket.request_id)  # it may have been taken in all the same
            raise
        match answer:
            case RequestAccepted(depth):
                self._waiters.accepted(ticket.request_id)
                if not self._former.has_request(ticket.request_id):
                    self._former.depth = max(self._former.depth, depth)
                    self._former.kick()
                return ticket
            case Known(request_id):
                self._waiters.leave(ticket.request_id, ticket.future)
                return await self.attach(application.team, request_id)
            case QueueFull(depth):
                self._waiters.leave(ticket.request_id, ticket.future)
                raise self._full(depth)
            case BackendOpen(until):
                self._waiters.leave(ticket.request_id, ticket.future)
                raise self._away(until)

    async def attach(self, team: str, request_id: str, *, wait: bool = True) -> Ticket:
        """A place behind a request that was made before. Raises NotFoundError, and NotReadyError unless it waits."""
        ticket = self._ticket(team, request_id)
        try:
            seen = await self._parts.queue.attach(team, request_id, wait=wait)
            if seen is None:
                raise MissingError("There is no such request, or its result has expired.")
            if seen.over:
                settled = await self._waiters.settled(seen)
                if not ticket.future.done():
                    ticket.future.set_result(settled)
            elif not wait:
                raise NotReadyError("The image waits for a batch or is being read.", retry_after_s=1)
            ticket.since = seen.enqueued_at
            self._waiters.accepted(request_id)
        except BaseException:
            self._waiters.leave(request_id, ticket.future)
            raise
        self._former.kick()
        return ticket

    async def result(self, ticket: Ticket, gone: asyncio.Future[None] | None = None) -> Settled | None:
        """What became of it; None if `gone` ended first.

        Raises WaitedTooLongError after RESPONSE_TIMEOUT; the request goes on and can be asked for again.
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
            raise WaitedTooLongError(
                f"No result within {self._settings.response_timeout_s:g} seconds. The image waits on: "
                f"ask for GET /parse/{ticket.request_id}.",
                retry_after_s=60,
            )
        finally:
            timer.cancel()
            if gone is not None:
                gone.remove_done_callback(give_up)
            metrics.active_connections.dec()
            if self._waiters.leave(ticket.request_id, ticket.future):
                self._chores.caller_left(ticket.request_id)

    async def condition(self) -> BatcherCondition:
        status = await self._upkeep.status()
        return BatcherCondition(status, self._wait_s(status.depth), await self._upkeep.reachable())

    # What runs beside

    async def run(self) -> None:
        """Everything that has to go on; runs until cancelled and raises what must not happen."""
        await self._upkeep.beat()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._upkeep.keep_beating(), name="parse-heartbeat")
            group.create_task(self._upkeep.listen(), name="parse-wakeups")
            group.create_task(self._upkeep.keep_order(), name="parse-rounds")
            group.create_task(self._chores.run(), name="parse-chores")
            if self._forms_batches:
                group.create_task(self._former.run(), name="parse-former")

    async def drain(self, timeout_s: float) -> None:
        """Answers every caller: those in a batch that is out with its result, the others with where to ask again."""
        self._stopping = self._upkeep.stopping = True
        await self._intake.close()
        for request_id in self._waiters.ids():
            if not self._former.has_request(request_id):
                self._send_on(request_id)
        await self._former.drain(max(0.0, timeout_s - _HOLD_BACK_S))
        for request_id in self._waiters.ids():
            self._send_on(request_id)
        with suppress(QuireError):
            await self._chores.do()
            await self._parts.queue.leave_for_good()

    # Small things

    def _note(self, observed: Observed) -> None:
        self._former.note(observed)

    def _has_request(self, request_id: str) -> bool:
        return self._former.has_request(request_id)

    def _ticket(self, team: str, request_id: str) -> Ticket:
        return Ticket(team, request_id, self._waiters.join(team, request_id), self._parts.clock.now())

    def _keep(self, ticket: Ticket) -> None:
        """The caller goes, its request stays."""
        if self._waiters.leave(ticket.request_id, ticket.future):
            self._chores.caller_told(ticket.request_id)

    def _send_on(self, request_id: str) -> None:
        error = StoppingError(_STOPPING.format(request_id), retry_after_s=2)
        self._chores.caller_told(request_id)
        self._waiters.deliver(Failed(request_id, error.as_dict()))

    def _away(self, until_s: float) -> BackendAwayError:
        return BackendAwayError(
            "The batch backend is away. Try again later.",
            retry_after_s=max(1.0, until_s - self._parts.clock.now()),
        )

    def _full(self, depth: int) -> QueueFullError:
        return QueueFullError(depth, self._wait_s(depth))

    def _wait_s(self, ahead: int) -> float:
        model: ServiceModel = self._former.model
        return wait_s(ahead, self._settings.max_concurrent_batches, self._settings.max_batch_size, model)
