"""Forms batches as soon as a slot is free, sends them, and reclaims the batches of dead replicas."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from quire.batching.backend_protocol import SendPermit
from quire.batching.batch_sender import BatchSender, SenderOptions, SenderParts
from quire.batching.service_model import ServiceModel, batch_size
from quire.coordination.liveness import Workers
from quire.coordination.parse_requests import BackendState, ClaimedBatch
from quire.errors import CoordinationError, PageError, QuireError

_LOG = logging.getLogger(__name__)
_TICK_S = 0.5
_IDLE_TICK_S = 60.0  # new requests wake the former, and so do the rounds of the upkeep
_MINUTE_S = 60.0
_MAX_UNWRITTEN = 4
_MAX_SLOT_WAIT_S = 0.02
_DROP_AGAIN_S = 5.0  # more than it takes to put the requests of a dropped batch back
_AHEAD_S = 0.1
"""A full batch is claimed and sent this long before a slot is expected to be free …"""
_NOT_AHEAD_S = 60.0
"""… but not for this long after the backend has rejected one."""
_SLOT_RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class FormerOptions:
    slots: int
    max_batch_size: int
    failures_to_open: int
    sender: SenderOptions


class BatchFormer:
    """Runs in every replica that sends. All replicas share the queue, the slots and the breaker."""

    def __init__(self, parts: SenderParts, workers: Workers, options: FormerOptions) -> None:
        self._parts = parts
        self._workers = workers
        self._options = options
        parts.breaker.on_change = self.apply
        self._wake = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._claiming: set[str] = set()
        # Batches that an idle slot waits for, with the time since when, until the backend has them.
        self._filling: dict[str, float] = {}
        self._ends_at: dict[str, float] = {}  # of batches that have a slot
        self._ahead: _Slot | None = None
        self._claiming_ahead = asyncio.Lock()
        self._dropped: dict[str, float] = {}
        """When batches that were claimed ahead were dropped."""
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
    def slot_waits(self) -> bool:
        """Whether a slot is idle while a batch for it is being claimed or written to the backend."""
        if not self._filling:
            return False
        since = self._parts.clock.monotonic() - _MAX_SLOT_WAIT_S
        return any(began > since for began in self._filling.values())

    def wake(self) -> None:
        """Has the former check for work now."""
        self._wake.set()

    def expect_requests(self) -> None:
        """Requests are about to be added: if the queue is empty, the claim is sent together with them."""
        if self.depth <= 0:
            self.depth = 1
            self.wake()

    def apply(self, state: BackendState) -> None:
        """Uses the newest state of the breaker and of the service times."""
        self.model = ServiceModel.fitted(state.sums)
        self._not_before_s = state.not_before_s
        opened = state.failures >= self._options.failures_to_open
        self.opened_until_s = state.not_before_s if opened else 0.0
        # Calls ahead of a slot are not counted by the breaker: there are none while the backend fails.
        if self._ahead is not None and (state.failures or self._paused()):
            ahead, self._ahead = self._ahead, None
            self._dropped[ahead.batch_id] = self._parts.clock.monotonic()  # its requests go back to the queue
            self._tasks[ahead.batch_id].cancel()

    async def run(self) -> None:
        """Forms and sends batches until cancelled; then unfinished batches go back to the queue."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                while True:
                    await self._wait()
                    self._drop_again()
                    try:
                        await self._fill()
                        await self._claim_ahead()
                    except CoordinationError:
                        self._not_ahead_before_s = self._parts.clock.monotonic() + _TICK_S
            finally:
                self._stopping = True  # before the group cancels its tasks

    def _drop_again(self) -> None:
        """Cancels batches that were dropped and are still there: a library below a call may lose a cancellation.

        Such a batch would wait for its slot for ever, and its callers with it.
        """
        now = self._parts.clock.monotonic()
        self._dropped = {one: at_s for one, at_s in self._dropped.items() if one in self._tasks}
        for batch_id, dropped_at_s in self._dropped.items():
            if now >= dropped_at_s + _DROP_AGAIN_S:
                self._dropped[batch_id] = now
                self._tasks[batch_id].cancel()

    async def drain(self, timeout_s: float) -> None:
        """Forms no more batches, waits for those that were sent, and puts the rest back into the queue."""
        self._stopping = True
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()), timeout=timeout_s)
        for task in list(self._tasks.values()):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()), timeout=5)
        with suppress(QuireError):
            await self._parts.queue.wake_formers()

    async def reclaim_orphans(self) -> int:
        """Puts the batches of dead replicas back into the queue; returns the number of requests."""
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
            _LOG.info("requests of a dead replica requeued", extra={"requests": moved})
        return moved

    async def _wait(self) -> None:
        idle = self.depth <= 0 and not self.arriving and not self._tasks
        pause = _IDLE_TICK_S if idle else _TICK_S
        if self._not_before_s:
            pause = min(pause, max(0.01, self._not_before_s - self._parts.clock.now()))
        pause = min(pause, max(0.001, self._ahead_in_s()))
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._wake.wait()
        self._wake.clear()

    async def _fill(self) -> None:
        """Claims batches until no slot is free or the queue is empty."""
        if self._ahead is not None and len(self._ends_at) < self._options.slots:
            await self._place_ahead(self._ahead)
        if self.depth <= 0:
            self.depth = await self._parts.queue.depth()
        while not self._stopping and self.depth > 0 and len(self._ends_at) < self._options.slots:
            if self._behind() or self._parts.disk.is_full or not await self._next():
                return

    async def _next(self, release: str = "") -> bool:
        """Claims the next batch; True if there was one."""
        is_last = self._stopping or self._behind() or self._parts.disk.is_full
        batch_id = "" if is_last else _new_id()
        # Counting the arriving requests keeps small batches from taking the slots just before those are queued.
        demand = max(1, self.depth + self.arriving)
        size = batch_size(demand, self._others_busy_s(release), self._options.max_batch_size, self.model)
        self._filling[batch_id] = self._parts.clock.monotonic()
        started = False
        try:
            started = await self._claim(batch_id, size, release=release)
        finally:
            if not started:
                self._filling.pop(batch_id, None)
        return started

    async def _claim(self, batch_id: str, size: int, *, release: str = "", ahead: bool = False) -> bool:
        """Claims a batch and starts to send it; False if there is none."""
        self._claiming.add(batch_id)
        try:
            claimed = await self._parts.queue.claim(batch_id, size, release=release, ahead=ahead)
            if isinstance(claimed, ClaimedBatch):
                self._begin(claimed, ahead=ahead)
                return True
        finally:
            self._claiming.discard(batch_id)
        self._not_before_s = claimed.until_s
        if claimed.why == "probe":
            self._group.create_task(self._probe(), name="parse-probe")
        elif claimed.why == "none":
            self.depth = 0
        elif claimed.why == "few":
            self.depth = min(self.depth, size - 1)
        return False

    async def _probe(self) -> None:
        """Sends the probe image, for which this replica has the lease."""
        await self._parts.breaker.probe()
        self.wake()

    # One batch ahead

    def _ahead_in_s(self) -> float:
        """Seconds until a batch should be claimed ahead of its slot; infinite if none should."""
        most, now = self._options.max_batch_size, self._parts.clock.monotonic()
        if self._ahead is not None or not self._ends_at or self.depth < most or not self.model.measured:
            return math.inf
        if self._stopping or self._behind() or self._paused() or now < self._not_ahead_before_s:
            return math.inf
        if self._parts.disk.is_full:
            return math.inf
        first, *others = sorted(self._ends_at.values())
        # If less than a full batch is best, its size is decided when the slot is free.
        if batch_size(self.depth, [end - first for end in others], most, self.model) < most:
            return math.inf
        return first - _AHEAD_S - now

    async def _claim_ahead(self) -> None:
        """Claims and sends the next batch while all slots are taken, so that the backend has it when one is free."""
        if self._ahead_in_s() <= 0:
            async with self._claiming_ahead:
                await self._claim(_new_id(), self._options.max_batch_size, ahead=True)

    async def _place_ahead(self, slot: _Slot) -> None:
        """Takes a free slot, if there is one, for the batch that was claimed ahead."""
        self._ahead = None  # so that `release` does not give it a second one
        placed: bool | None = False
        try:
            placed = await self._parts.queue.take_slot(slot.batch_id)
        finally:
            task = self._tasks.get(slot.batch_id)
            if task is None:
                pass  # all its callers have left
            elif placed is None:
                task.cancel()
            elif placed:
                self._grant_slot(slot)
            else:
                self._ahead = slot

    def _grant_slot(self, slot: _Slot) -> None:
        now = self._parts.clock.monotonic()
        slot.since_s = now
        self._ends_at[slot.batch_id] = now + self.model.seconds(slot.images)
        if not slot.permit.granted.done():
            self._filling[slot.batch_id] = now
            slot.permit.granted.set_result(None)

    async def _hand_over(self, left: str, batch_id: str) -> None:
        """Records that the slot, which this replica holds, belongs to another batch now."""
        while batch_id in self._tasks:
            try:
                await self._parts.queue.take_slot(batch_id, release=left)
            except CoordinationError:
                await asyncio.sleep(_SLOT_RETRY_S)
            else:
                return

    def refused(self) -> None:
        """The backend has rejected a batch that was sent ahead."""
        self._not_ahead_before_s = self._parts.clock.monotonic() + _NOT_AHEAD_S

    def _paused(self) -> bool:
        """Whether the breaker permits no calls now."""
        return self._not_before_s > self._parts.clock.now()

    def _behind(self) -> bool:
        """Whether too many batches wait for their results to be written."""
        return len(self._tasks) >= _MAX_UNWRITTEN * self._options.slots

    def _others_busy_s(self, release: str) -> list[float]:
        """Returns how long each other slot is taken, as far as this replica knows."""
        self._ends_at.pop(release, None)
        now = self._parts.clock.monotonic()
        busy = [max(0.0, end - now) for end in self._ends_at.values()]
        others = self._options.slots - 1
        return (busy + [0.0] * others)[:others]

    def _has(self, batch_id: str) -> bool:
        return batch_id in self._tasks or batch_id in self._claiming

    def has_request(self, request_id: str) -> bool:
        """Whether this replica is sending a batch with this request."""
        return request_id in self._requests

    def sent(self, batch_id: str) -> None:
        """The batch has been written to the backend."""
        self._filling.pop(batch_id, None)

    def wanted(self) -> bool:
        """Whether a free slot would get a batch."""
        return self.depth > 0 or self.arriving > 0 or self._ahead is not None

    async def release(self, batch_id: str) -> None:
        """Gives back a batch's slot and claims the next batch in the same script call."""
        async with self._claiming_ahead:  # otherwise a later batch would get the slot
            ahead = self._ahead
        if ahead is not None and ahead.batch_id == batch_id:  # it has ended without a slot
            self._ahead = None
            self.wake()
            return
        if ahead is not None and not self._paused():
            self._ahead = None
            self._ends_at.pop(batch_id, None)
            self._grant_slot(ahead)
            self.wake()
            await self._hand_over(batch_id, ahead.batch_id)
            return
        try:
            started = await self._next(release=batch_id)
        except CoordinationError:
            started = False
        if not started and self.wanted():
            self.wake()

    def _begin(self, batch: ClaimedBatch, *, ahead: bool) -> None:
        self.depth = batch.depth_left
        metrics = self._parts.metrics
        metrics.batches_formed.inc()
        metrics.batch_size.observe(len(batch.requests))
        now = self._parts.clock.now()
        for one in batch.requests:
            metrics.wait.observe(max(0.0, now - one.enqueued_at))
        now = self._parts.clock.monotonic()
        self._formed.append(now)
        while self._formed and self._formed[0] < now - _MINUTE_S:
            self._formed.popleft()
        metrics.formation_rate.set(len(self._formed))
        metrics.queue_depth.set(batch.depth_left)
        self._requests.update(one.id for one in batch.requests)
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        slot = _Slot(self, batch.id, len(batch.requests), SendPermit(granted, lambda: self.sent(batch.id)))
        if ahead:
            self._ahead = slot
        else:
            granted.set_result(None)
            self._grant_slot(slot)
        task = self._group.create_task(self._send(batch, slot), name=f"parse-{batch.id}")
        task.add_done_callback(lambda _: self._ended(batch, slot))
        self._tasks[batch.id] = task

    async def _send(self, batch: ClaimedBatch, slot: _Slot) -> None:
        slot.has_begun = True
        sender = BatchSender(self._parts, self._options.sender, batch, slot)
        try:
            await sender.run()
        except asyncio.CancelledError:
            await self._put_back(batch)
            if not self._stopping:
                raise
        except Exception:
            _LOG.exception("a batch failed unexpectedly")
            await self._put_back(batch)
        finally:
            self._forget(batch, slot)

    def _ended(self, batch: ClaimedBatch, slot: _Slot) -> None:
        """A task that is cancelled before its first step runs nothing of `_send`: its batch is put back here."""
        if slot.has_begun:
            return
        self._forget(batch, slot)
        if not self._stopping:
            self._group.create_task(self._put_back(batch), name=f"parse-{batch.id}-back")

    def _forget(self, batch: ClaimedBatch, slot: _Slot) -> None:
        self._tasks.pop(batch.id, None)
        if self._ahead is slot:
            self._ahead = None
        self._filling.pop(batch.id, None)
        self._ends_at.pop(batch.id, None)
        self._requests.difference_update(one.id for one in batch.requests)
        if self.wanted():
            self.wake()

    async def _put_back(self, batch: ClaimedBatch) -> None:
        """Returns the batch's requests to the queue at once, so that they don't wait for a heartbeat to expire."""
        with suppress(QuireError):
            await self._reclaim(batch.id, self._parts.queue.replica)

    async def _reclaim(self, batch_id: str, owner: str) -> int:
        error = PageError("The image could not be read: every process that sent it has died.")
        moved, unneeded = await self._parts.queue.reclaim(batch_id, owner, error.as_dict())
        self._parts.delete_objects(unneeded)
        if moved > 0:
            self.depth += moved
            self.wake()
        return max(0, moved)


def _new_id() -> str:
    return f"batch_{secrets.token_hex(6)}"


@dataclass(slots=True)
class _Slot:
    """The slot of one batch."""

    former: BatchFormer
    batch_id: str
    images: int
    permit: SendPermit
    since_s: float = 0.0
    has_begun: bool = False
    """Whether the batch's task has taken its first step."""

    def refused(self) -> None:
        self.former.refused()

    def wanted(self) -> bool:
        return self.former.wanted()

    def requeued(self, count: int) -> None:
        self.former.depth += count

    async def release(self) -> None:
        await self.former.release(self.batch_id)
