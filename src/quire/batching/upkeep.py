"""A replica's background work: heartbeat, wake-ups, reclaiming orphaned batches, backend health, cleanup."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection
from contextlib import aclosing, suppress
from dataclasses import dataclass

from quire.batching.backend_protocol import Backend
from quire.batching.batch_former import BatchFormer
from quire.batching.body_memory import BodyMemory
from quire.batching.object_shelves import Shelves
from quire.batching.waiting_callers import Waiters
from quire.clock import Clock
from quire.coordination.liveness import BEATS_IN_A_TTL
from quire.coordination.parse_queue import WORK, ParseQueue
from quire.coordination.parse_requests import QueueStatus
from quire.errors import CoordinationError, ObjectsError
from quire.objects.object_store import ObjectStore
from quire.telemetry.metrics import BatchingMetrics

_LOG = logging.getLogger(__name__)
_RETRY_S = 0.5


class Cleanup:
    """Deferred writes: callers that left, objects to delete. Retried while a plane is unavailable."""

    def __init__(
        self, queue: ParseQueue, objects: ObjectStore, memory: BodyMemory, in_hand: Callable[[str], bool]
    ) -> None:
        self._queue = queue
        self._objects = objects
        self._memory = memory
        self._in_hand = in_hand
        self._left: set[str] = set()
        self._kept: set[str] = set()
        self._unneeded: set[str] = set()
        self._due = asyncio.Event()

    def caller_left(self, request_id: str) -> None:
        """The request has no caller in this process any more."""
        self._left.add(request_id)
        self._due.set()

    def caller_redirected(self, request_id: str) -> None:
        """As `caller_left`, but the caller was told how to get the result later, so the request is kept."""
        self._kept.add(request_id)
        self._due.set()

    def delete(self, object_keys: Collection[str]) -> None:
        if object_keys:
            self._unneeded.update(object_keys)
            self._due.set()

    async def run(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                await self.run_once()
            except (CoordinationError, ObjectsError) as error:
                _LOG.warning("batcher cleanup postponed", extra={"code": error.code})
                await asyncio.sleep(_RETRY_S)
                self._due.set()

    async def run_once(self) -> None:
        """Does all that is due. Raises CoordinationError or ObjectsError; the rest stays due."""
        if self._kept:
            kept = set(self._kept)
            await self._queue.leave(kept, keep=True)
            self._kept -= kept
        if self._left:
            left = set(self._left)
            self.delete(await self._queue.leave(left, keep=False))
            for one in left:
                if not self._in_hand(one):
                    self._memory.drop(one)
            self._left -= left
        for key in list(self._unneeded):
            await self._objects.delete(key)
            self._unneeded.discard(key)


_ROUND_S = 0.5
_IDLE_ROUND_S = 2.0
_URGENT_HEALTH_S = 1.0  # between health checks while the breaker is open and requests wait
_REFRESH_EVERY = 40  # rounds; finds results whose wake-up was missed
_EXPIRE_EVERY = 20
_IDLE_EVERY = 60  # rounds; while nothing is queued or sent anywhere, the others only ask whether that changed


@dataclass(frozen=True, slots=True)
class UpkeepParts:
    queue: ParseQueue
    shelves: Shelves
    backend: Backend
    memory: BodyMemory
    waiters: Waiters
    former: BatchFormer
    clock: Clock
    metrics: BatchingMetrics


@dataclass(frozen=True, slots=True)
class UpkeepOptions:
    ttl_s: float
    """A replica without a heartbeat for this long is dead."""
    health_interval_s: float
    failures_to_open: int
    forms_batches: bool


class Upkeep:
    def __init__(self, parts: UpkeepParts, options: UpkeepOptions) -> None:
        self._parts = parts
        self._options = options
        self._asked_health: tuple[float, bool] = (float("-inf"), True)
        self.stopping = False

    async def heartbeat(self) -> None:
        await self._parts.queue.heartbeat(self._options.ttl_s)

    async def run_heartbeat(self) -> None:
        while True:
            with suppress(CoordinationError):
                await self.heartbeat()
            await asyncio.sleep(self._options.ttl_s / BEATS_IN_A_TTL)

    async def run_wakeups(self) -> None:
        """Receives wake-ups: requests that other replicas have finished, and new work."""
        async with aclosing(self._parts.queue.wakeups()) as wakeups:
            async for ids in wakeups:
                try:
                    await self._wake(ids)
                except CoordinationError:
                    await asyncio.sleep(_ROUND_S)

    async def run_rounds(self) -> None:
        turn = 0
        if self._options.forms_batches:
            await self.reachable()  # so that the first batch does not pay for imports and the connection
        while True:
            try:
                await self._round(turn)
            except (CoordinationError, ObjectsError) as error:
                _LOG.warning("batcher round postponed", extra={"code": error.code})
            turn += 1
            await asyncio.sleep(_ROUND_S if self._busy() else _IDLE_ROUND_S)

    async def status(self) -> QueueStatus:
        """Reads the queue's status and updates the former and the metrics with it."""
        status = await self._parts.queue.status()
        self._parts.former.apply(status.backend)
        self._parts.metrics.queue_depth.set(status.depth)
        return status

    async def reachable(self, max_age_s: float = math.inf) -> bool:
        """Whether the backend is healthy, by a check that is at most this old."""
        now = self._parts.clock.monotonic()
        asked_at, answer = self._asked_health
        if now - asked_at < min(max_age_s, self._options.health_interval_s):
            return answer
        answer = await self._parts.backend.healthy()
        if not answer:
            # So that its probe is early once it is healthy again, also if the next round does not see it down.
            with suppress(CoordinationError):
                await self._parts.queue.observe("unhealthy")
        self._asked_health = (self._parts.clock.monotonic(), answer)
        return answer

    def _busy(self) -> bool:
        """Whether requests wait in any replica or batches are being sent."""
        parts = self._parts
        return bool(parts.waiters or parts.former.in_hand or parts.former.depth)

    async def _round(self, turn: int) -> None:
        parts = self._parts
        if turn % _IDLE_EVERY and await self._is_idle():
            return
        if self._options.forms_batches and not self.stopping:
            await parts.former.reclaim_orphans()
        if turn % _REFRESH_EVERY == _REFRESH_EVERY - 1:
            await parts.waiters.refresh(parts.waiters.ids())
        if turn % _EXPIRE_EVERY == 0:
            await parts.shelves.delete_expired()
            await self._drop_unused_bodies()
        await self._check_backend()

    async def _is_idle(self) -> bool:
        """Whether no replica has anything to do, and the breaker is closed."""
        parts = self._parts
        if self._busy() or parts.former.opened_until_s or await parts.queue.has_work() or self._busy():
            return False
        parts.former.depth = 0
        parts.metrics.queue_depth.set(0)
        return True

    async def _wake(self, ids: list[str] | None) -> None:
        parts = self._parts
        if ids is None:
            await parts.waiters.refresh(parts.waiters.ids())
            parts.former.wake()
        elif ids == [WORK]:
            parts.former.wake()
        else:
            for one in ids:
                parts.memory.drop(one)
            await parts.waiters.refresh(ids)

    async def _check_backend(self) -> None:
        """While the breaker is open: a backend that was unreachable gets its probe as soon as it is healthy again."""
        status = await self.status()
        self._parts.former.depth = status.depth
        if status.depth:
            self._parts.former.wake()
        opened = status.backend.failures >= self._options.failures_to_open
        waiting = status.backend.not_before_s > self._parts.clock.now()
        if opened and waiting:
            healthy = await self.reachable(_URGENT_HEALTH_S if status.depth else math.inf)
            self._parts.former.apply(await self._parts.queue.observe("healthy" if healthy else "unhealthy"))
            self._parts.former.wake()

    async def _drop_unused_bodies(self) -> None:
        """Drops bodies that another replica has sent and whose callers have left."""
        parts = self._parts
        unused = parts.memory.unused(parts.waiters, parts.former.has_request)
        for one, needed in zip(unused, await parts.queue.unfinished(unused), strict=True):
            if not needed:
                parts.memory.drop(one)
