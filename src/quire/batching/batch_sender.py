"""Sends one claimed batch, bisects it when it fails, and records and delivers the outcome of each request."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from quire.batching.backend_breaker import BackendBreaker, has_results
from quire.batching.backend_protocol import Backend, BatchAnswer, ImageAnswer, SendPermit, SentImage
from quire.batching.batch_traces import BatchTraces
from quire.batching.body_memory import BodyMemory, Bytes
from quire.batching.object_shelves import Shelves
from quire.batching.parse_errors import BackendDownError, BackendFailedError
from quire.batching.waiting_callers import Failed, ParseOutcome, ParseResult, Waiters
from quire.clock import Clock
from quire.coordination.parse_queue import ParseQueue
from quire.coordination.parse_requests import (
    ClaimedBatch,
    ClaimedRequest,
    Outcome,
    RequestOutcome,
)
from quire.errors import CoordinationError, MissingError, ObjectsError, PageError
from quire.objects.disk_guard import DiskGuard
from quire.objects.object_store import ObjectStore
from quire.telemetry.metrics import BatchingMetrics

_LOG = logging.getLogger(__name__)
_MISSES_BEFORE_ALONE = 3
_PLANE_RETRY_S = 0.5
_WRITE_HEAD_START_S = 0.005

T = TypeVar("T")


class Slot(Protocol):
    """A batch's slot at the backend."""

    @property
    def permit(self) -> SendPermit: ...

    @property
    def since_s(self) -> float:
        """When the batch got the slot."""
        ...

    def refused(self) -> None:
        """The backend rejects batches that are sent ahead of their slot."""

    def wanted(self) -> bool:
        """Whether another batch waits for it."""

    def requeued(self, count: int) -> None:
        """This many images of the batch went back to the queue."""

    async def release(self) -> None:
        """Gives the slot back. Called once, when the backend has finished with the batch."""


@dataclass(frozen=True, slots=True)
class SenderOptions:
    max_retry_count: int
    retry_delay_s: float


@dataclass(frozen=True, slots=True)
class SenderParts:
    queue: ParseQueue
    backend: Backend
    breaker: BackendBreaker
    objects: ObjectStore
    disk: DiskGuard
    shelves: Shelves
    memory: BodyMemory
    waiters: Waiters
    clock: Clock
    metrics: BatchingMetrics
    delete_objects: Callable[[Collection[str]], None]
    traces: BatchTraces | None = None


@dataclass(slots=True)
class _SingleFailures:
    """The failures of an image that was sent alone."""

    since_s: float
    count: int = 0


@dataclass(slots=True)
class BatchSender:
    parts: SenderParts
    options: SenderOptions
    batch: ClaimedBatch
    slot: Slot
    _groups: deque[list[ClaimedRequest]] = field(default_factory=deque)
    _alone: dict[str, _SingleFailures] = field(default_factory=dict)
    _open: dict[str, ClaimedRequest] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _released: bool = False
    _called: bool = False

    async def run(self) -> None:
        """Finishes every request of the batch or puts it back into the queue. Raises only when cancelled."""
        traces = self.parts.traces
        with traces.batch(self.batch) if traces is not None else nullcontext():
            await self._run()

    async def _run(self) -> None:
        self._open = {one.id: one for one in self.batch.requests}
        self._names = {one.id: one.filename for one in self.batch.requests}
        together = [one for one in self.batch.requests if one.misses < _MISSES_BEFORE_ALONE]
        if together:
            self._groups.append(together)
        self._groups.extend([one] for one in self.batch.requests if one.misses >= _MISSES_BEFORE_ALONE)
        while self._groups:
            group = self._groups.popleft()
            images = await self._load_images(group)
            if images is None:
                await self._requeue()
                return
            if not images:
                continue
            # The claim permits the first call only.
            permitted = not self._called or await self.parts.breaker.permits(self.batch.id)
            if not permitted or not await self._send(group, images):
                await self._requeue()
                return
        await self._end()

    async def _send(self, group: list[ClaimedRequest], images: list[SentImage]) -> bool:
        """Sends one group; False if the backend fails, so that the rest of the batch has to wait."""
        parts = self.parts
        self._called = True
        fields = {"batch_id": self.batch.id, "images": len(images)}
        _LOG.info("batch sent", extra={**fields, "waiting": self.batch.depth_left})
        began = parts.clock.monotonic()
        try:
            answer = await self._call(images)
        except BackendDownError as error:
            parts.metrics.call_ended("down", self._seconds_since(began))
            _LOG.warning("batch backend unavailable", extra={**fields, "reason": str(error)})
            await parts.breaker.record("down", batch_id=self.batch.id, images=len(images))
            return False
        except BackendFailedError as error:
            parts.metrics.call_ended("failed", self._seconds_since(began))
            _LOG.warning("batch failed", extra={**fields, "reason": str(error)})
            if not await self._backend_works(len(images)):
                return False
            return await self._retry_or_fail([one for one in group if one.id in self._open])
        seconds = self._seconds_since(began)
        parts.metrics.call_ended("ok", seconds)
        _LOG.debug("batch answered", extra={**fields, "latency_ms": round(seconds * 1000)})
        await self._apply_answer(images, answer, seconds)
        return True

    async def _backend_works(self, images: int) -> bool:
        """Records a failed call; False if it has opened the breaker and the probe image fails too."""
        breaker = self.parts.breaker
        state = await breaker.record("failed", batch_id=self.batch.id, images=images)
        if state is None:
            return False
        return await breaker.probe(self.batch.id) if state.opened else not breaker.is_open(state)

    async def _call(self, images: list[SentImage]) -> BatchAnswer:
        """Calls the backend. If its slot is not free yet, the call starts ahead of it and is repeated on failure."""
        permit = self.slot.permit
        early = not permit.granted.done()
        try:
            answer = await self._parse(images, permit)
        except (BackendDownError, BackendFailedError) as error:
            if not early:
                raise
            _LOG.info("backend rejected a batch sent ahead of its slot", extra={"reason": str(error)})
            self.slot.refused()
            if permit.is_sent and isinstance(error, BackendFailedError):
                raise  # the backend may have read it
            await permit.wait()
            return await self._parse(images, permit)
        await permit.wait()
        return answer

    async def _parse(self, images: list[SentImage], permit: SendPermit) -> BatchAnswer:
        traces = self.parts.traces
        with traces.backend_call(len(images)) if traces is not None else nullcontext():
            answer = await self.parts.backend.parse(images, permit)
        if not has_results(answer):
            raise BackendFailedError("the answer has no usable result")
        return answer

    def _seconds_since(self, began_s: float) -> float:
        return self.parts.clock.monotonic() - max(began_s, self.slot.since_s)

    async def _load_images(self, group: list[ClaimedRequest]) -> list[SentImage] | None:
        """Returns the images whose callers still wait, with bodies; None if the object plane is unavailable."""
        outcomes = [Outcome(one.id, RequestOutcome.DROP) for one in group if self._caller_left(one)]
        wanted = [one for one in group if not self._caller_left(one)]
        bodies: list[Bytes | None] = [self.parts.memory.get(one.id) for one in wanted]
        elsewhere = [place for place, data in enumerate(bodies) if data is None]
        try:
            read = await asyncio.gather(*(self._read(wanted[place]) for place in elsewhere))
        except ObjectsError as error:
            _LOG.warning("bodies could not be read", extra={"code": error.code})
            return None
        for place, found in zip(elsewhere, read, strict=True):
            bodies[place] = found
        images = []
        for one, data in zip(wanted, bodies, strict=True):
            if data is None:
                lost = MissingError("The image expired before it could be read. Send it again.")
                outcomes.append(Outcome(one.id, RequestOutcome.ERROR, error=lost.as_dict()))
            else:
                images.append(SentImage(one.id, one.filename, data))
        if outcomes:
            await self._finish(outcomes, {})
        return images

    def _caller_left(self, one: ClaimedRequest) -> bool:
        return one.holder == self.parts.queue.replica and not one.keyed and one.id not in self.parts.waiters

    async def _read(self, one: ClaimedRequest) -> bytes | None:
        try:
            pieces = [
                piece
                async for piece in self.parts.objects.stream(
                    one.object_key, start=one.offset, end=one.offset + one.length
                )
            ]
        except MissingError:
            return None
        data = b"".join(pieces)
        return data if len(data) == one.length else None

    async def _apply_answer(self, images: Sequence[SentImage], answer: BatchAnswer, seconds: float) -> None:
        for what in ("unknown", "repeated", "malformed"):
            if count := getattr(answer, what):
                self.parts.metrics.odd_results.labels(what).inc(count)
        over = not self._groups
        if over and self.slot.wanted():
            await self._release()  # first, because another batch waits for it
        outcomes: list[Outcome] = []
        fragments: dict[str, bytes] = {}
        for position, image in enumerate(images):
            found = answer.images.get(image.request_id)
            if found is not None and not found.error:
                fragments[image.request_id] = self._fragment(found, position, len(images))
                outcomes.append(
                    Outcome(
                        image.request_id,
                        RequestOutcome.DONE,
                        position=position,
                        size=len(images),
                        seconds=round(seconds, 3),  # as it is stored, so that both answers are the same
                    )
                )
            elif found is not None and found.final:
                error = PageError(found.error).as_dict()
                outcomes.append(
                    Outcome(image.request_id, RequestOutcome.ERROR, error=error, seconds=round(seconds, 3))
                )
            else:
                self.parts.metrics.odd_results.labels("missing").inc()
                outcomes.append(Outcome(image.request_id, RequestOutcome.AGAIN))
        storing = asyncio.ensure_future(self._store(outcomes, fragments))
        try:
            if not self._released:
                # No batch waits for the slot: after a short wait, all is written in one round trip.
                await asyncio.wait([storing], timeout=_WRITE_HEAD_START_S)
            breaker = self.parts.breaker
            work: list[Awaitable[object]] = [
                breaker.record("ok", batch_id=self.batch.id, images=len(images), seconds=seconds)
            ]
            if outcomes:
                work.append(self._record(storing, fragments))
            if over:
                work.append(self._release())
            await asyncio.gather(*work)
        finally:
            storing.cancel()

    async def _retry_or_fail(self, group: list[ClaimedRequest]) -> bool:
        """Sends a failed group again in halves; a single image a few times, then its caller gets an error.

        False if a single image can't be blamed, because the backend does not read the probe image either.
        """
        if len(group) > 1:
            middle = (len(group) + 1) // 2
            self._groups += [group[:middle], group[middle:]]
            return True
        for one in group:
            failures = self._alone.setdefault(one.id, _SingleFailures(self.parts.clock.now()))
            failures.count += 1
            if failures.count < self.options.max_retry_count:
                await asyncio.sleep(self.options.retry_delay_s / 10 * 2 ** (failures.count - 1))
                self._groups.append([one])
                continue
            if not await self._is_to_blame(failures.since_s):
                return False
            error = PageError(
                f"The image could not be read: {failures.count} attempts failed. Other images were not affected."
            )
            await self._finish([Outcome(one.id, RequestOutcome.ERROR, error=error.as_dict())], {})
        return True

    async def _is_to_blame(self, since_s: float) -> bool:
        """Whether an image that has failed alone since then is the cause: other images, or the probe, succeeded."""
        breaker = self.parts.breaker
        try:
            state = (await self.parts.queue.status()).backend
        except CoordinationError:
            return False
        if state.last_success_s >= since_s:
            return True
        return await breaker.permits(self.batch.id) and await breaker.probe(self.batch.id)

    def _fragment(self, found: ImageAnswer, position: int, size: int) -> bytes:
        return b"".join(
            (
                b'"results":',
                found.elements,
                b',"metadata":{"total_elements":%d,"batch_id":"%s","position_in_batch":%d,"batch_size":%d}'
                % (found.count, self.batch.id.encode(), position, size),
            )
        )

    async def _requeue(self) -> None:
        """Puts the rest of the batch back to its place in the queue, as if it had not been sent."""
        await self._finish([Outcome(one, RequestOutcome.BACK) for one in self._open], {})

    async def _end(self) -> None:
        if self._open:
            await self._requeue()
        await self._release()

    async def _finish(self, outcomes: list[Outcome], fragments: dict[str, bytes]) -> None:
        """Records the outcomes first, then delivers them."""
        await self._record(self._store(outcomes, fragments), fragments)

    async def _record(
        self, storing: Awaitable[tuple[str, list[Outcome]]], fragments: dict[str, bytes]
    ) -> None:
        key, outcomes = await storing
        for one in outcomes:
            self._open.pop(one.id, None)
        last = not self._open
        now = int(self.parts.clock.now() * 1000) / 1000  # the precision of the record
        unneeded = await self._retry_until_written(
            lambda: self.parts.queue.finish(self.batch.id, outcomes, at_s=now, result_key=key, last=last)
        )
        for one in outcomes:
            if one.ending in (RequestOutcome.DONE, RequestOutcome.ERROR, RequestOutcome.DROP):
                self.parts.memory.drop(one.id)
            self._deliver(one, fragments, now)
        self.parts.delete_objects(unneeded)
        self.slot.requeued(sum(one.ending in (RequestOutcome.AGAIN, RequestOutcome.BACK) for one in outcomes))
        if last:
            await self._release()

    async def _store(self, outcomes: list[Outcome], fragments: dict[str, bytes]) -> tuple[str, list[Outcome]]:
        if not fragments:
            return "", outcomes
        placed, pieces, offset = [], [], 0
        for one in outcomes:
            fragment = fragments.get(one.id)
            if fragment is None:
                placed.append(one)
                continue
            placed.append(
                Outcome(
                    one.id,
                    one.ending,
                    offset,
                    len(fragment),
                    position=one.position,
                    size=one.size,
                    seconds=one.seconds,
                )
            )
            pieces.append(fragment)
            offset += len(fragment)
        data = b"".join(pieces)
        key = await self._retry_until_written(lambda: self.parts.shelves.new_key("results"))
        await self._retry_until_written(lambda: self.parts.objects.put(key, data))
        return key, placed

    def _deliver(self, one: Outcome, fragments: dict[str, bytes], now: float) -> None:
        settled: ParseOutcome | None = None
        if one.ending is RequestOutcome.DONE:
            filename = self._names[one.id]
            settled = ParseResult(one.id, filename, one.seconds, now, fragments[one.id])
        elif one.ending is RequestOutcome.ERROR and one.error is not None:
            settled = Failed(one.id, one.error)
        if settled is not None:
            self.parts.waiters.deliver(settled)

    async def _release(self) -> None:
        if not self._released:
            self._released = True
            await self.slot.release()

    async def _retry_until_written(self, write: Callable[[], Awaitable[T]]) -> T:
        """Repeats a write until the plane is available again, so that no computed result is lost."""
        while True:
            try:
                return await write()
            except (CoordinationError, ObjectsError) as error:
                self.parts.disk.note_error(error)
                _LOG.warning("results not written yet", extra={"code": error.code})
                await asyncio.sleep(_PLANE_RETRY_S)
