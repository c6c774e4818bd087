"""One batch, from its claim to the last of its outcomes: sent, cut in two where it fails, written down, delivered."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from quire.batching.backend_protocol import Backend, BatchAnswer, ImageAnswer, Passage, SentImage
from quire.batching.body_memory import BodyMemory, Bytes
from quire.batching.object_shelves import Shelves
from quire.batching.parse_errors import BackendDownError, BackendFailedError
from quire.batching.waiting_callers import Failed, ParseResult, Settled, Waiters
from quire.clock import Clock
from quire.coordination.parse_queue import ParseQueue
from quire.coordination.parse_requests import Claimed, ClaimedBatch, Observed, Outcome, RequestOutcome
from quire.errors import CoordinationError, MissingError, ObjectsError, PageError
from quire.objects.object_store import ObjectStore
from quire.telemetry.metrics import BatchingMetrics

_LOG = logging.getLogger(__name__)
_MISSES_BEFORE_ALONE = 3
_PLANE_RETRY_S = 0.5
_MOMENT_S = 0.005

T = TypeVar("T")


class Slot(Protocol):
    """A batch's place at the backend, which it may have to wait for."""

    @property
    def passage(self) -> Passage: ...

    @property
    def since_s(self) -> float:
        """When it was given the place."""
        ...

    def refused(self) -> None:
        """The backend does not take batches before their turn."""

    def wanted(self) -> bool:
        """Whether another batch waits for it."""

    def requeued(self, count: int) -> None:
        """So many images of the batch wait in the queue again."""

    async def release(self) -> None:
        """The backend has nothing of the batch any more. Called once."""


@dataclass(frozen=True, slots=True)
class SenderOptions:
    max_retry_count: int
    retry_delay_s: float


@dataclass(frozen=True, slots=True)
class SenderParts:
    queue: ParseQueue
    backend: Backend
    objects: ObjectStore
    shelves: Shelves
    memory: BodyMemory
    waiters: Waiters
    clock: Clock
    metrics: BatchingMetrics
    unneeded: Callable[[Collection[str]], None]
    """Told of objects that may be deleted."""
    observed: Callable[[Observed], None]
    """Told how the breaker and the model stand after each call."""


@dataclass(slots=True)
class Sender:
    parts: SenderParts
    options: SenderOptions
    batch: ClaimedBatch
    slot: Slot
    _groups: deque[list[Claimed]] = field(default_factory=deque)
    _alone: dict[str, int] = field(default_factory=dict)
    _open: dict[str, Claimed] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _released: bool = False
    _succeeded: bool = False

    async def run(self) -> None:
        """Every request of the batch ends, or is back in the queue. Raises only when cancelled."""
        self._open = {one.id: one for one in self.batch.requests}
        self._names = {one.id: one.filename for one in self.batch.requests}
        together = [one for one in self.batch.requests if one.misses < _MISSES_BEFORE_ALONE]
        if together:
            self._groups.append(together)
        self._groups.extend([one] for one in self.batch.requests if one.misses >= _MISSES_BEFORE_ALONE)
        while self._groups:
            group = self._groups.popleft()
            images = await self._images(group)
            if images is None:
                await self._give_back()
                return
            if images and not await self._send(group, images):
                return
        await self._end_if_over()

    async def _send(self, group: list[Claimed], images: list[SentImage]) -> bool:
        """Whether to go on with the next group."""
        parts = self.parts
        began = parts.clock.monotonic()
        try:
            answer = await self._answer(images)
        except BackendDownError as error:
            parts.metrics.call_ended("down", self._seconds_since(began))
            _LOG.warning("batch backend is away", extra={"reason": str(error), "images": len(images)})
            await self._observe("down")
            await self._give_back()
            return False
        except BackendFailedError as error:
            parts.metrics.call_ended("failed", self._seconds_since(began))
            _LOG.warning("batch failed", extra={"reason": str(error), "images": len(images)})
            # An image that fails alone, after others went well, says nothing about the backend.
            if len(images) > 1 or not self._succeeded:
                await self._observe("failed")
            await self._failed([one for one in group if one.id in self._open])
            return True
        seconds = self._seconds_since(began)
        parts.metrics.call_ended("ok", seconds)
        self._succeeded = True
        await self._answered(images, answer, seconds)
        return True

    async def _answer(self, images: list[SentImage]) -> BatchAnswer:
        """Sent before its turn if it has to wait for it; if that fails, nothing is lost but the head start."""
        passage = self.slot.passage
        early = not passage.turn.done()
        try:
            answer = await self.parts.backend.parse(images, passage)
        except (BackendDownError, BackendFailedError) as error:
            if not early:
                raise
            _LOG.info("a batch was not taken before its turn", extra={"reason": str(error)})
            self.slot.refused()
            if passage.is_sent and isinstance(error, BackendFailedError):
                raise  # it may have been read
            await passage.wait()
            return await self.parts.backend.parse(images, passage)
        await passage.wait()
        return answer

    def _seconds_since(self, began_s: float) -> float:
        return self.parts.clock.monotonic() - max(began_s, self.slot.since_s)

    async def _images(self, group: list[Claimed]) -> list[SentImage] | None:
        """The images with their bodies, without those nobody waits for; None if the object plane is away."""
        outcomes = [Outcome(one.id, RequestOutcome.DROP) for one in group if self._left(one)]
        wanted = [one for one in group if not self._left(one)]
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
                lost = MissingError("The image has expired before it could be read. Send it again.")
                outcomes.append(Outcome(one.id, RequestOutcome.ERROR, error=lost.as_dict()))
            else:
                images.append(SentImage(one.id, one.filename, data))
        if outcomes:
            await self._finish(outcomes, {})
        return images

    def _left(self, one: Claimed) -> bool:
        return one.holder == self.parts.queue.replica and not one.keyed and one.id not in self.parts.waiters

    async def _read(self, one: Claimed) -> bytes | None:
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

    async def _answered(self, images: Sequence[SentImage], answer: BatchAnswer, seconds: float) -> None:
        for what in ("unknown", "repeated", "malformed"):
            if count := getattr(answer, what):
                self.parts.metrics.odd_results.labels(what).inc(count)
        over = not self._groups and not self._to_repeat(images, answer)
        if over and self.slot.wanted():
            await self._release()  # before everything else, because it stands idle
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
                        seconds=seconds,
                    )
                )
            elif found is not None and found.final:
                error = PageError(found.error).as_dict()
                outcomes.append(Outcome(image.request_id, RequestOutcome.ERROR, error=error, seconds=seconds))
            elif len(images) > 1:
                self.parts.metrics.odd_results.labels("missing").inc()
                outcomes.append(Outcome(image.request_id, RequestOutcome.AGAIN))
            else:
                await self._failed([self._open[image.request_id]])
        storing = asyncio.ensure_future(self._store(outcomes, fragments))
        try:
            if not self._released:
                # Nobody waits for the slot: a moment later, all is written in one round trip.
                await asyncio.wait([storing], timeout=_MOMENT_S)
            work = [self._observe("ok", len(images), seconds)]
            if outcomes:
                work.append(self._write_down(storing, fragments))
            if over:
                work.append(self._release())
            await asyncio.gather(*work)
        finally:
            storing.cancel()

    def _to_repeat(self, images: Sequence[SentImage], answer: BatchAnswer) -> bool:
        """Whether an image has to be sent again at once: one that was alone and has no usable answer."""
        found = answer.images.get(images[0].request_id)
        return len(images) == 1 and (found is None or bool(found.error and not found.final))

    async def _failed(self, group: list[Claimed]) -> None:
        """A group that failed is sent again in halves; a single image a few times, then its caller is told."""
        if len(group) > 1:
            middle = (len(group) + 1) // 2
            self._groups += [group[:middle], group[middle:]]
            return
        for one in group:
            failures = self._alone[one.id] = self._alone.get(one.id, 0) + 1
            if failures < self.options.max_retry_count:
                await asyncio.sleep(self.options.retry_delay_s / 10 * 2 ** (failures - 1))
                self._groups.append([one])
                continue
            error = PageError(
                f"The image could not be read: {failures} attempts failed. Other images were not affected."
            )
            await self._finish([Outcome(one.id, RequestOutcome.ERROR, error=error.as_dict())], {})

    def _fragment(self, found: ImageAnswer, position: int, size: int) -> bytes:
        return b"".join(
            (
                b'"results":',
                found.elements,
                b',"metadata":{"total_elements":%d,"batch_id":"%s","position_in_batch":%d,"batch_size":%d}'
                % (found.count, self.batch.id.encode(), position, size),
            )
        )

    async def _give_back(self) -> None:
        """What is left of the batch waits in the queue again, where it was, as if it had not been sent."""
        await self._finish([Outcome(one, RequestOutcome.BACK) for one in self._open], {})

    async def _end_if_over(self) -> None:
        if self._open:
            await self._give_back()
        await self._release()

    async def _finish(self, outcomes: list[Outcome], fragments: dict[str, bytes]) -> None:
        """Written down first, then told to whoever waits."""
        await self._write_down(self._store(outcomes, fragments), fragments)

    async def _write_down(
        self, storing: Awaitable[tuple[str, list[Outcome]]], fragments: dict[str, bytes]
    ) -> None:
        key, outcomes = await storing
        for one in outcomes:
            self._open.pop(one.id, None)
        last = not self._open
        now = int(self.parts.clock.now() * 1000) / 1000  # as it is kept
        unneeded = await self._until_written(
            lambda: self.parts.queue.finish(self.batch.id, outcomes, at_s=now, result_key=key, last=last)
        )
        for one in outcomes:
            if one.ending in (RequestOutcome.DONE, RequestOutcome.ERROR, RequestOutcome.DROP):
                self.parts.memory.drop(one.id)
            self._tell(one, fragments, now)
        self.parts.unneeded(unneeded)
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
        key = await self._until_written(lambda: self.parts.shelves.place("results"))
        await self._until_written(lambda: self.parts.objects.put(key, data))
        return key, placed

    def _tell(self, one: Outcome, fragments: dict[str, bytes], now: float) -> None:
        settled: Settled | None = None
        if one.ending is RequestOutcome.DONE:
            filename = self._names[one.id]
            settled = ParseResult(one.id, filename, one.seconds, now, fragments[one.id])
        elif one.ending is RequestOutcome.ERROR and one.error is not None:
            settled = Failed(one.id, one.error)
        if settled is not None:
            self.parts.waiters.deliver(settled)

    async def _observe(self, what: str, images: int = 0, seconds: float = 0.0) -> None:
        try:
            self.parts.observed(await self.parts.queue.observe(what, images, seconds))
        except CoordinationError as error:
            _LOG.warning("a call of the backend was not noted", extra={"code": error.code})

    async def _release(self) -> None:
        if not self._released:
            self._released = True
            await self.slot.release()

    async def _until_written(self, write: Callable[[], Awaitable[T]]) -> T:
        """A result that was paid for is not given up because a plane is away for a while."""
        while True:
            try:
                return await write()
            except (CoordinationError, ObjectsError) as error:
                _LOG.warning("results not written yet", extra={"code": error.code})
                await asyncio.sleep(_PLANE_RETRY_S)
