"""Batches: formed as soon as a slot is free, sent, and taken over from replicas that are gone."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from quire.batching.backend_protocol import Passage
from quire.batching.batch_sender import Sender, SenderOptions, SenderParts
from quire.batching.service_model import ServiceModel, batch_size
from quire.coordination.liveness import Workers
from quire.coordination.parse_requests import ClaimedBatch, Observed
from quire.errors import CoordinationError, PageError, QuireError

_LOG = logging.getLogger(__name__)
_TICK_S = 0.5
_MINUTE_S = 60.0
_MOST_UNWRITTEN = 4
_LONGEST_HURRY_S = 0.02
_AHEAD_S = 0.1
"""So long before a slot is expected to be free, the batch for it goes on its way …"""
_NOT_AHEAD_S = 60.0
"""… unless the backend would not take one that early, so long ago."""
_SLOT_RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class FormerOptions:
    slots: int
    max_batch_size: int
    failures_to_open: int
    sender: SenderOptions


class Former:
    """Runs in every replica that sends; the queue, the slots and the breaker are common to all of them."""

    def __init__(self, parts: SenderParts, workers: Workers, options: FormerOptions) -> None:
        self._parts = parts
        self._workers = workers
        self._options = options
        self._kick = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._claiming: set[str] = set()
        # Those that a slot stands idle for, and since when; until the backend has them.
        self._leaving: dict[str, float] = {}
        self._ends_at: dict[str, float] = {}  # of those that have a slot
        self._ahead: _Slot | None = None
        self._not_ahead_before_s = 0.0
        self._stopping = False
        self._not_before_s = 0.0
        self._formed: deque[float] = deque()
        self._requests: set[str] = set()
        self.model = ServiceModel()
        self.opened_until_s = 0.0
        self.depth = 0
        self.arriving = 0

    @property
    def in_hand(self) -> int:
        return len(self._tasks)

    @property
    def hurried(self) -> bool:
        """Whether a slot stands idle until a batch, which is on its way right now, has been written to the backend."""
        if not self._leaving:
            return False
        since = self._parts.clock.monotonic() - _LONGEST_HURRY_S
        return any(began > since for began in self._leaving.values())

    def kick(self) -> None:
        """There may be something to do."""
        self._kick.set()

    def coming(self) -> None:
        """Where nothing waits, the first are claimed in the round trip that brings them."""
        if self.depth <= 0:
            self.depth = 1
            self.kick()

    def note(self, observed: Observed) -> None:
        self.model = ServiceModel.fitted(observed.sums)
        self._not_before_s = observed.not_before_s
        opened = observed.failures >= self._options.failures_to_open
        self.opened_until_s = observed.not_before_s if opened else 0.0
        if self._ahead is not None and self._in_trouble():
            ahead, self._ahead = self._ahead, None
            self._tasks[ahead.batch_id].cancel()  # its requests wait in the queue again

    async def run(self) -> None:
        """Forms and sends until cancelled; what is in hand then is handed back at once."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                while True:
                    await self._wait()
                    try:
                        await self._fill()
                        await self._look_ahead()
                    except CoordinationError:
                        self._not_ahead_before_s = self._parts.clock.monotonic() + _TICK_S
        finally:
            self._stopping = True

    async def drain(self, timeout_s: float) -> None:
        """Forms no more batches and lets those that are out come back; the rest is handed back."""
        self._stopping = True
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()), timeout=timeout_s)
        for task in list(self._tasks.values()):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()), timeout=5)
        with suppress(QuireError):
            await self._parts.queue.call_others()

    async def take_over(self) -> int:
        """Batches of replicas that are gone go back to the queue; answers how many requests that were."""
        moved = 0
        batches, slots = await asyncio.gather(self._parts.queue.batches(), self._parts.queue.slots())
        dead = {
            owner for owner in {*batches.values(), *slots.values()} if not await self._workers.alive(owner)
        }
        for batch_id, owner in {**slots, **batches}.items():
            ours = owner == self._parts.queue.replica and not self._has(batch_id)
            if owner in dead or ours:
                moved += await self._reclaim(batch_id, owner)
        if moved:
            _LOG.info("requests of a dead replica queued again", extra={"requests": moved})
            self.kick()
        return moved

    async def _wait(self) -> None:
        pause = _TICK_S
        if self._not_before_s:
            pause = min(pause, max(0.01, self._not_before_s - self._parts.clock.now()))
        pause = min(pause, max(0.001, self._ahead_in_s()))
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._kick.wait()
        self._kick.clear()

    async def _fill(self) -> None:
        """Takes slots and batches until there are no more of either."""
        if self._ahead is not None and len(self._ends_at) < self._options.slots:
            await self._place_ahead(self._ahead)
        if self.depth <= 0:
            self.depth = await self._parts.queue.depth()
        while not self._stopping and self.depth > 0 and len(self._ends_at) < self._options.slots:
            if self._behind() or not await self._next():
                return

    async def _next(self, release: str = "") -> bool:
        """Whether another batch was begun."""
        batch_id = "" if self._stopping or self._behind() else _new_id()
        # Those that are on their way in would find the slots taken by batches that were cut small without them.
        demand = max(1, self.depth + self.arriving)
        size = batch_size(demand, self._others_busy_s(release), self._options.max_batch_size, self.model)
        self._leaving[batch_id] = self._parts.clock.monotonic()
        begun = False
        try:
            begun = await self._claim(batch_id, size, release=release)
        finally:
            if not begun:
                self._leaving.pop(batch_id, None)
        return begun

    async def _claim(self, batch_id: str, size: int, *, release: str = "", ahead: bool = False) -> bool:
        """Whether there is such a batch now."""
        self._claiming.add(batch_id)
        try:
            claimed = await self._parts.queue.claim(batch_id, size, release=release, ahead=ahead)
            if isinstance(claimed, ClaimedBatch):
                self._begin(claimed, ahead=ahead)
                return True
        finally:
            self._claiming.discard(batch_id)
        self._not_before_s = claimed.until_s
        if claimed.why == "none":
            self.depth = 0
        elif claimed.why == "few":
            self.depth = min(self.depth, size - 1)
        return False

    # One batch ahead

    def _ahead_in_s(self) -> float:
        """How long until a batch should be claimed ahead of its slot; infinite while there is no reason to."""
        most, now = self._options.max_batch_size, self._parts.clock.monotonic()
        if self._ahead is not None or not self._ends_at or self.depth < most or not self.model.measured:
            return math.inf
        if self._stopping or self._behind() or self._in_trouble() or now < self._not_ahead_before_s:
            return math.inf
        first, *others = sorted(self._ends_at.values())
        # Where fewer than a full batch would be best, that is found out when the slot is free.
        if batch_size(self.depth, [end - first for end in others], most, self.model) < most:
            return math.inf
        return first - _AHEAD_S - now

    async def _look_ahead(self) -> None:
        """Puts the next batch on its way while the slots are taken, so that it is there when one is free."""
        if self._ahead_in_s() <= 0:
            await self._claim(_new_id(), self._options.max_batch_size, ahead=True)

    async def _place_ahead(self, slot: _Slot) -> None:
        """A free slot for the batch ahead, if there is one."""
        self._ahead = None  # so that nobody else gives it another
        placed: bool | None = False
        try:
            placed = await self._parts.queue.take_slot(slot.batch_id)
        finally:
            task = self._tasks.get(slot.batch_id)
            if task is None:
                pass  # all its callers have left meanwhile
            elif placed is None:
                task.cancel()
            elif placed:
                self._give_turn(slot)
            else:
                self._ahead = slot

    def _give_turn(self, slot: _Slot) -> None:
        now = self._parts.clock.monotonic()
        slot.since_s = now
        self._ends_at[slot.batch_id] = now + self.model.seconds(slot.images)
        if not slot.passage.turn.done():
            self._leaving[slot.batch_id] = now
            slot.passage.turn.set_result(None)

    async def _hand_over(self, left: str, batch_id: str) -> None:
        """Writes down whose slot it is now. It has been this replica's all the time."""
        while batch_id in self._tasks:
            try:
                await self._parts.queue.take_slot(batch_id, release=left)
            except CoordinationError:
                await asyncio.sleep(_SLOT_RETRY_S)
            else:
                return

    def refused(self) -> None:
        """The backend did not take a batch before its turn."""
        self._not_ahead_before_s = self._parts.clock.monotonic() + _NOT_AHEAD_S

    def _in_trouble(self) -> bool:
        return self._not_before_s > self._parts.clock.now()

    def _behind(self) -> bool:
        """Whether so many batches wait for their results to be written that no more should be sent."""
        return len(self._tasks) >= _MOST_UNWRITTEN * self._options.slots

    def _others_busy_s(self, release: str) -> list[float]:
        """How long the other slots are taken, as far as this replica knows."""
        self._ends_at.pop(release, None)
        now = self._parts.clock.monotonic()
        busy = [max(0.0, end - now) for end in self._ends_at.values()]
        others = self._options.slots - 1
        return (busy + [0.0] * others)[:others]

    def _has(self, batch_id: str) -> bool:
        return batch_id in self._tasks or batch_id in self._claiming

    def has_request(self, request_id: str) -> bool:
        """Whether a batch with this request is in hand."""
        return request_id in self._requests

    def sent(self, batch_id: str) -> None:
        """The backend has this batch now."""
        self._leaving.pop(batch_id, None)

    def wanted(self) -> bool:
        """Whether there is anything for a slot that would be free."""
        return self.depth > 0 or self.arriving > 0 or self._ahead is not None

    async def release(self, batch_id: str) -> None:
        """Gives back a batch's slot, and begins with the next batch in the same step if there is one."""
        ahead = self._ahead
        if ahead is not None and ahead.batch_id == batch_id:  # it is over without having had a slot
            self._ahead = None
            self.kick()
            return
        if ahead is not None and not self._in_trouble():
            self._ahead = None
            self._ends_at.pop(batch_id, None)
            self._give_turn(ahead)
            self.kick()
            await self._hand_over(batch_id, ahead.batch_id)
            return
        try:
            begun = await self._next(release=batch_id)
        except CoordinationError:
            begun = False
        if not begun and self.wanted():
            self.kick()

    def _begin(self, batch: ClaimedBatch, *, ahead: bool) -> None:
        self.depth = batch.depth_left
        metrics = self._parts.metrics
        metrics.batches_formed.inc()
        metrics.batch_size.observe(len(batch.requests))
        now = self._parts.clock.monotonic()
        self._formed.append(now)
        while self._formed and self._formed[0] < now - _MINUTE_S:
            self._formed.popleft()
        metrics.formation_rate.set(len(self._formed))
        metrics.queue_depth.set(batch.depth_left)
        self._requests.update(one.id for one in batch.requests)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        slot = _Slot(self, batch.id, len(batch.requests), Passage(turn, lambda: self.sent(batch.id)))
        if ahead:
            self._ahead = slot
        else:
            turn.set_result(None)
            self._give_turn(slot)
        self._tasks[batch.id] = self._group.create_task(self._send(batch, slot), name=f"parse-{batch.id}")

    async def _send(self, batch: ClaimedBatch, slot: _Slot) -> None:
        sender = Sender(self._parts, self._options.sender, batch, slot)
        try:
            await sender.run()
        except asyncio.CancelledError:
            # Another replica needn't wait until this one is missed.
            with suppress(QuireError):
                await self._reclaim(batch.id, self._parts.queue.replica)
            if not self._stopping:
                raise
        except Exception:
            _LOG.exception("a batch failed unexpectedly")
            with suppress(QuireError):
                await self._reclaim(batch.id, self._parts.queue.replica)
        finally:
            self._tasks.pop(batch.id, None)
            if self._ahead is slot:
                self._ahead = None
            self._leaving.pop(batch.id, None)
            self._ends_at.pop(batch.id, None)
            self._requests.difference_update(one.id for one in batch.requests)
            if self.wanted():
                self.kick()

    async def _reclaim(self, batch_id: str, owner: str) -> int:
        error = PageError("The image could not be read: whoever tried did not survive it.")
        moved, unneeded = await self._parts.queue.reclaim(batch_id, owner, error.as_dict())
        self._parts.unneeded(unneeded)
        self.depth += max(0, moved)
        return max(0, moved)


def _new_id() -> str:
    return f"batch_{secrets.token_hex(6)}"


@dataclass(slots=True)
class _Slot:
    """The slot of one batch."""

    former: Former
    batch_id: str
    images: int
    passage: Passage
    since_s: float = 0.0

    def refused(self) -> None:
        self.former.refused()

    def wanted(self) -> bool:
        return self.former.wanted()

    def requeued(self, count: int) -> None:
        self.former.depth += count

    async def release(self) -> None:
        await self.former.release(self.batch_id)
