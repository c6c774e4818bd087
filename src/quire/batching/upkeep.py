"""What a replica does all the time beside its callers: it shows that it lives, listens, takes over and tidies up.

What has to be told to the planes by and by: callers that left, callers that may come back, objects to delete.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection
from contextlib import aclosing, suppress
from dataclasses import dataclass

from quire.batching.backend_protocol import Backend
from quire.batching.batch_former import Former
from quire.batching.body_memory import BodyMemory
from quire.batching.object_shelves import Shelves
from quire.batching.waiting_callers import Waiters
from quire.clock import Clock
from quire.coordination.parse_queue import WORK, ParseQueue
from quire.coordination.parse_requests import QueueStatus
from quire.errors import CoordinationError, ObjectsError
from quire.objects.object_store import ObjectStore
from quire.telemetry.metrics import BatchingMetrics

_LOG = logging.getLogger(__name__)
_RETRY_S = 0.5


class Chores:
    """Anybody adds to them; `run` does them as soon as it can, and again where a plane was away."""

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
        """Nobody here waits for this request any more."""
        self._left.add(request_id)
        self._due.set()

    def caller_told(self, request_id: str) -> None:
        """Nobody here waits, but the caller was told how to ask again."""
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
                await self.do()
            except (CoordinationError, ObjectsError) as error:
                _LOG.warning("the batcher's chores put off", extra={"code": error.code})
                await asyncio.sleep(_RETRY_S)
                self._due.set()

    async def do(self) -> None:
        """All that is due now. Raises CoordinationError or ObjectsError; what was not done stays due."""
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
_ANXIOUS_S = 1.0  # between questions whether the backend is back, where somebody waits for it
_LOOK_EVERY = 40  # rounds between looks for wake-ups that were missed
_EXPIRE_EVERY = 20


@dataclass(frozen=True, slots=True)
class UpkeepParts:
    queue: ParseQueue
    shelves: Shelves
    backend: Backend
    memory: BodyMemory
    waiters: Waiters
    former: Former
    clock: Clock
    metrics: BatchingMetrics


@dataclass(frozen=True, slots=True)
class UpkeepOptions:
    ttl_s: float
    """How long a replica that shows nothing is believed to live."""
    health_interval_s: float
    failures_to_open: int
    forms_batches: bool


class Upkeep:
    def __init__(self, parts: UpkeepParts, options: UpkeepOptions) -> None:
        self._parts = parts
        self._options = options
        self._asked_health: tuple[float, bool] = (float("-inf"), True)
        self.stopping = False

    async def beat(self) -> None:
        await self._parts.queue.beat(self._options.ttl_s)

    async def keep_beating(self) -> None:
        while True:
            with suppress(CoordinationError):
                await self.beat()
            await asyncio.sleep(self._options.ttl_s / 4)

    async def listen(self) -> None:
        """Hears of requests that other replicas have ended, and of work."""
        async with aclosing(self._parts.queue.wakeups()) as wakeups:
            async for ids in wakeups:
                try:
                    await self._wake(ids)
                except CoordinationError:
                    await asyncio.sleep(_ROUND_S)

    async def keep_order(self) -> None:
        turn = 0
        if self._options.forms_batches:
            await self.reachable()  # loads what the first call would have to wait for
        while True:
            try:
                await self._round(turn)
            except (CoordinationError, ObjectsError) as error:
                _LOG.warning("the batcher's round put off", extra={"code": error.code})
            turn += 1
            await asyncio.sleep(_ROUND_S if self._busy() else _IDLE_ROUND_S)

    async def status(self) -> QueueStatus:
        """How the queue stands; the former and the metrics take note."""
        status = await self._parts.queue.status()
        self._parts.former.note(status.observed)
        self._parts.metrics.queue_depth.set(status.depth)
        return status

    async def reachable(self, max_age_s: float = math.inf) -> bool:
        """What the backend said of itself, at most so long ago and never longer than the interval."""
        now = self._parts.clock.monotonic()
        asked_at, answer = self._asked_health
        if now - asked_at < min(max_age_s, self._options.health_interval_s):
            return answer
        answer = await self._parts.backend.healthy()
        self._asked_health = (self._parts.clock.monotonic(), answer)
        return answer

    def _busy(self) -> bool:
        """Whether anybody waits here or elsewhere."""
        parts = self._parts
        return bool(parts.waiters or parts.former.in_hand or parts.former.depth)

    async def _round(self, turn: int) -> None:
        parts = self._parts
        if self._options.forms_batches and not self.stopping:
            await parts.former.take_over()
        if turn % _LOOK_EVERY == _LOOK_EVERY - 1:
            await parts.waiters.look(parts.waiters.ids())
        if turn % _EXPIRE_EVERY == 0:
            await parts.shelves.empty()
            await self._forget_bodies()
        await self._ask_after_backend()

    async def _wake(self, ids: list[str] | None) -> None:
        parts = self._parts
        if ids is None:
            await parts.waiters.look(parts.waiters.ids())
            parts.former.kick()
        elif ids == [WORK]:
            parts.former.kick()
        else:
            for one in ids:
                parts.memory.drop(one)
            await parts.waiters.look(ids)

    async def _ask_after_backend(self) -> None:
        """While the breaker is open: a backend that says that it is well again gets its trial early."""
        status = await self.status()
        self._parts.former.depth = status.depth
        opened = status.observed.failures >= self._options.failures_to_open
        waiting = status.observed.not_before_s > self._parts.clock.now()
        if opened and waiting and await self.reachable(_ANXIOUS_S if status.depth else math.inf):
            await self._parts.queue.observe("healthy")
            self._parts.former.kick()

    async def _forget_bodies(self) -> None:
        """Copies of bodies that other replicas have sent, and whose callers have left."""
        parts = self._parts
        strangers = parts.memory.strangers(parts.waiters, parts.former.has_request)
        for one, needed in zip(strangers, await parts.queue.unfinished(strangers), strict=True):
            if not needed:
                parts.memory.drop(one)
