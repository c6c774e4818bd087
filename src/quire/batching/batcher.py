"""The batcher: takes images in for callers that wait, and runs what is needed until each has its own result."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Collection
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from quire.batching.backend import Backend
from quire.batching.bodies import Body, BodyMemory, Receiving, new_object_key
from quire.batching.failures import (
    BackendAwayError,
    QueueFullError,
    RateLimitedError,
    StoppingError,
    WaitedTooLongError,
)
from quire.batching.former import Former, FormerOptions
from quire.batching.intake import Application, Intake
from quire.batching.model import ServiceModel, wait_s
from quire.batching.pictures import look
from quire.batching.sender import SenderOptions, SenderParts
from quire.batching.turns import Turnstile
from quire.batching.waiters import Failed, Parsed, Settled, Waiters
from quire.clock import Clock
from quire.errors import (
    CoordinationError,
    DamagedError,
    NotFoundError,
    NotReadyError,
    ObjectsError,
    QuireError,
    RequestError,
    TooLargeError,
    UnsupportedTypeError,
)
from quire.objects.store import ObjectStore
from quire.queue.parse import WORK, BackendOpen, Known, Observed, ParseQueue, QueueFull, QueueStatus, Taken
from quire.queue.workers import Workers
from quire.reading.conversion import as_jpeg_or_png
from quire.reading.pool import ChildPool
from quire.settings.sections import BatchingSettings
from quire.telemetry.metrics import BatchingMetrics

_LOG = logging.getLogger(__name__)
_ROUND_S = 0.5
_PIECES_A_TURN = 4
_LOOK_EVERY = 40  # rounds between looks for wake-ups that were missed
_EXPIRE_EVERY = 20
_HOLD_BACK_S = 2.0
_STOPPING = (
    "The service is stopping. The image waits on: ask for GET /parse/{}, "
    "or send it again with its Idempotency-Key."
)


class UnsupportedFormatError(RequestError):
    code = "unsupported_format"


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
class Condition:
    """The batcher at a glance, for `/queue/status` and `/health`."""

    status: QueueStatus
    estimated_wait_s: float
    backend_reachable: bool


@dataclass(slots=True)
class Ticket:
    """A caller's place: the future gets its result."""

    team: str
    request_id: str
    future: asyncio.Future[Settled]
    since: float


class Batcher:
    """Belongs to one event loop. With `forms_batches` it also sends; else other replicas do."""

    def __init__(
        self, parts: BatcherParts, settings: BatchingSettings, *, max_pixels: int, forms_batches: bool
    ) -> None:
        self._parts = parts
        self._settings = settings
        self._max_pixels = max_pixels
        self._memory = BodyMemory(settings.memory_bytes)
        self._waiters = Waiters(parts.queue, parts.objects)
        self._intake = Intake(parts.queue, parts.objects, self._memory, forms_batches=forms_batches)
        self._turns = Turnstile(_PIECES_A_TURN)
        self._unneeded: set[str] = set()
        self._left: set[str] = set()
        self._kept: set[str] = set()
        self._chores = asyncio.Event()
        self._stopping = False
        self._asked_health: tuple[float, bool] = (float("-inf"), True)
        self._forms_batches = forms_batches
        sending = SenderParts(
            queue=parts.queue,
            backend=parts.backend,
            objects=parts.objects,
            memory=self._memory,
            waiters=self._waiters,
            clock=parts.clock,
            metrics=parts.metrics,
            unneeded=self._delete_later,
            observed=self._note,
        )
        self._former = Former(
            sending,
            parts.workers,
            FormerOptions(
                settings.max_concurrent_batches,
                settings.max_batch_size,
                settings.failure_threshold,
                SenderOptions(settings.max_retry_count, settings.retry_delay_s),
            ),
        )

    @property
    def metrics(self) -> BatchingMetrics:
        return self._parts.metrics

    @property
    def memory_used_bytes(self) -> int:
        return self._memory.used_bytes

    # What callers do

    async def admit(self, client: str) -> None:
        """Raises RateLimitedError, QueueFullError or BackendAwayError, before anything of the body is read."""
        await self._turns.enter()
        limit = self._settings.rate_limit_per_client
        if limit:
            wait = await self._parts.queue.wait_for_rate(client, limit)
            if wait > 0:
                raise RateLimitedError(
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
        return Receiving(
            self._memory,
            self._parts.objects,
            self._turns,
            self._settings.max_request_bytes,
            lambda: new_object_key("bodies"),
        )

    async def checked(self, receiving: Receiving) -> Body:
        """The body as something a backend can read: JPEG or PNG, with no more pixels than allowed.

        Raises UnsupportedFormatError, RequestError or TooLargeError; then nothing of it stays.
        """
        body = await receiving.finish(secrets.token_hex(8))
        try:
            picture = look(body.head)
            if picture is None:
                return await self._converted(body)
            if picture.pixels > self._max_pixels:
                raise TooLargeError(
                    f"The image unpacks to {picture.width} × {picture.height} pixels, which is more than allowed."
                )
        except BaseException:
            await self.discard(body)
            raise
        return body

    async def discard(self, body: Body) -> None:
        if body.data is not None:
            self._memory.release(body.size)
        else:
            await self._parts.objects.delete(body.object_key)

    async def known(self, team: str, key: str) -> str | None:
        return await self._parts.queue.known(team, key)

    async def submit(self, application: Application) -> Ticket:
        """A place in the queue, durable. Raises QueueFullError, BackendAwayError, or a plane's error."""
        ticket = self._ticket(application.team, application.body.request_id)
        try:
            answer = await self._intake.accept(application)
        except BaseException:
            self._waiters.leave(ticket.request_id, ticket.future)
            self._left.add(ticket.request_id)  # it may have been taken in all the same
            self._chores.set()
            raise
        match answer:
            case Taken(depth):
                self._waiters.accepted(ticket.request_id)
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
                raise NotFoundError("There is no such request, or its result has expired.")
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

    async def result(self, ticket: Ticket, gone: asyncio.Task[None] | None = None) -> Settled | None:
        """What became of it; None if `gone` ended first.

        Raises WaitedTooLongError after RESPONSE_TIMEOUT; the request goes on and can be asked for again.
        """
        metrics = self._parts.metrics
        metrics.active_connections.inc()
        try:
            waited: set[asyncio.Future[Any]] = {ticket.future}
            if gone is not None:
                waited.add(gone)
            await asyncio.wait(
                waited, timeout=self._settings.response_timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if ticket.future.done():
                metrics.latency.observe(max(0.0, self._parts.clock.now() - ticket.since))
                return ticket.future.result()
            if gone is not None and gone.done():
                return None
            self._keep(ticket)
            raise WaitedTooLongError(
                f"No result within {self._settings.response_timeout_s:g} seconds. The image waits on: "
                f"ask for GET /parse/{ticket.request_id}.",
                retry_after_s=60,
            )
        finally:
            metrics.active_connections.dec()
            if self._waiters.leave(ticket.request_id, ticket.future):
                self._left.add(ticket.request_id)
                self._chores.set()

    async def condition(self) -> Condition:
        status = await self._parts.queue.status()
        self._former.note(status.observed)
        self._parts.metrics.queue_depth.set(status.depth)
        return Condition(status, self._wait_s(status.depth), await self._reachable())

    # What runs beside

    async def run(self) -> None:
        """Everything that has to go on; runs until cancelled and raises what must not happen."""
        await self._parts.queue.beat(self._parts.workers.ttl_s)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat(), name="parse-heartbeat")
            group.create_task(self._listen(), name="parse-wakeups")
            group.create_task(self._keep_order(), name="parse-rounds")
            group.create_task(self._do_chores(), name="parse-chores")
            if self._forms_batches:
                group.create_task(self._former.run(), name="parse-former")

    async def drain(self, timeout_s: float) -> None:
        """Answers every caller: those in a batch that is out with its result, the others with where to ask again."""
        self._stopping = True
        await self._intake.close()
        for request_id in self._waiters.ids():
            if not self._former.has_request(request_id):
                self._send_on(request_id)
        await self._former.drain(max(0.0, timeout_s - _HOLD_BACK_S))
        for request_id in self._waiters.ids():
            self._send_on(request_id)
        with suppress(QuireError):
            await self._run_chores()
            await self._parts.queue.leave_for_good()

    async def _beat(self) -> None:
        while True:
            with suppress(CoordinationError):
                await self._parts.queue.beat(self._parts.workers.ttl_s)
            await asyncio.sleep(self._parts.workers.ttl_s / 4)

    async def _listen(self) -> None:
        async with aclosing(self._parts.queue.wakeups()) as wakeups:
            async for ids in wakeups:
                try:
                    await self._wake(ids)
                except CoordinationError:
                    await asyncio.sleep(_ROUND_S)

    async def _wake(self, ids: list[str] | None) -> None:
        if ids is None:
            await self._waiters.look(self._waiters.ids())
            self._former.kick()
        elif ids == [WORK]:
            self._former.kick()
        else:
            for one in ids:
                self._memory.drop(one)
            await self._waiters.look(ids)

    async def _keep_order(self) -> None:
        turn = 0
        if self._forms_batches:
            await self._reachable()  # loads what the first call would have to wait for
        while True:
            try:
                if self._forms_batches and not self._stopping:
                    await self._former.take_over()
                if turn % _LOOK_EVERY == _LOOK_EVERY - 1:
                    await self._waiters.look(self._waiters.ids())
                if turn % _EXPIRE_EVERY == 0:
                    self._delete_later(await self._parts.queue.expired())
                    await self._forget_bodies()
                await self._ask_after_backend()
            except (CoordinationError, ObjectsError) as error:
                _LOG.warning("the batcher's round put off", extra={"code": error.code})
            turn += 1
            await asyncio.sleep(_ROUND_S)

    async def _ask_after_backend(self) -> None:
        """While the breaker is open: a backend that says that it is well again gets its trial early."""
        status = await self._parts.queue.status()
        self._former.note(status.observed)
        self._former.depth = status.depth
        self._parts.metrics.queue_depth.set(status.depth)
        opened = status.observed.failures >= self._settings.failure_threshold
        waiting = status.observed.not_before_s > self._parts.clock.now()
        if opened and waiting and await self._reachable():
            await self._parts.queue.observe("healthy")
            self._former.kick()

    async def _forget_bodies(self) -> None:
        """Copies of bodies that other replicas have sent, and whose callers have left."""
        for request_id in self._memory.strangers(self._waiters, self._former.has_request):
            [place] = await self._parts.queue.places([request_id])
            if place is None:
                self._memory.drop(request_id)

    async def _do_chores(self) -> None:
        while True:
            await self._chores.wait()
            self._chores.clear()
            try:
                await self._run_chores()
            except (CoordinationError, ObjectsError) as error:
                _LOG.warning("the batcher's chores put off", extra={"code": error.code})
                await asyncio.sleep(_ROUND_S)
                self._chores.set()

    async def _run_chores(self) -> None:
        if self._kept:
            kept = set(self._kept)
            await self._parts.queue.leave(kept, keep=True)
            self._kept -= kept
        if self._left:
            left = set(self._left)
            self._delete_later(await self._parts.queue.leave(left, keep=False))
            for one in left:
                if not self._former.has_request(one):
                    self._memory.drop(one)
            self._left -= left
        if self._unneeded:
            unneeded = set(self._unneeded)
            for key in unneeded:
                await self._parts.objects.delete(key)
            await self._parts.queue.forget_objects(unneeded)
            self._unneeded -= unneeded

    # Small things

    def _note(self, observed: Observed) -> None:
        self._former.note(observed)

    def _ticket(self, team: str, request_id: str) -> Ticket:
        return Ticket(team, request_id, self._waiters.join(team, request_id), self._parts.clock.now())

    def _keep(self, ticket: Ticket) -> None:
        """The caller goes, its request stays."""
        if self._waiters.leave(ticket.request_id, ticket.future):
            self._kept.add(ticket.request_id)
            self._chores.set()

    def _send_on(self, request_id: str) -> None:
        error = StoppingError(_STOPPING.format(request_id), retry_after_s=2)
        self._kept.add(request_id)
        self._waiters.deliver(Failed(request_id, error.as_dict()))

    def _delete_later(self, object_keys: Collection[str]) -> None:
        if object_keys:
            self._unneeded.update(object_keys)
            self._chores.set()

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

    async def _reachable(self) -> bool:
        now = self._parts.clock.monotonic()
        asked_at, answer = self._asked_health
        if now - asked_at < self._settings.health_check_interval_s:
            return answer
        answer = await self._parts.backend.healthy()
        self._asked_health = (self._parts.clock.monotonic(), answer)
        return answer

    async def _converted(self, body: Body) -> Body:
        """Another format, read in the child pool; the original is gone afterwards."""
        objects = self._parts.objects
        key = body.object_key or new_object_key("originals")
        await self._parts.queue.expect_object(key)
        if body.data is not None:
            await objects.put(key, body.data)
        try:
            async with objects.local(key) as path:
                data = await self._parts.pool.run(as_jpeg_or_png, str(path), self._max_pixels, timeout_s=60)
        except UnsupportedTypeError as error:
            raise UnsupportedFormatError(error.public) from error
        except DamagedError as error:
            raise RequestError(error.public) from error
        finally:
            if body.data is not None:
                await objects.delete(key)
                await self._parts.queue.forget_objects([key])
        async with self.receiving() as receiving:
            await receiving.take(data)
            converted = await receiving.finish(body.request_id)
        await self.discard(body)
        return converted


__all__ = ["Batcher", "BatcherParts", "Condition", "Failed", "Parsed", "Ticket", "UnsupportedFormatError"]
