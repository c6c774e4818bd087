"""The worker: claims units from the queues, runs their stages, and releases what it can't finish.

No error ends a worker: a side task that fails is logged and started again, a unit that fails unexpectedly is released.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from quire.coordination.job_records import Claim, Refused
from quire.coordination.liveness import BEATS_IN_A_TTL, held_unit
from quire.coordination.server_clock import clock_offset
from quire.coordination.streams import Hint
from quire.domain.job import UnitKind
from quire.errors import CoordinationCommandError, CoordinationError, QuireError
from quire.pipeline.entry_reader import EntryReader
from quire.pipeline.overtaking import Overtaking
from quire.pipeline.parts import Parts
from quire.pipeline.side_tasks import keep_running
from quire.pipeline.stages.callback_stage import run_callback
from quire.pipeline.stages.download_stage import run_download
from quire.pipeline.stages.early_stage import run_early
from quire.pipeline.stages.export_stage import run_export
from quire.pipeline.stages.merge_stage import run_merge
from quire.pipeline.stages.read_stage import PageReader
from quire.pipeline.stages.split_stage import run_split
from quire.pipeline.unit_failures import UnitFailures
from quire.pipeline.unreceived_entries import UnreceivedEntries
from quire.reading.pool.fair_slots import sharing

if TYPE_CHECKING:
    from quire.telemetry.tracer import Tracer

_LOG = logging.getLogger(__name__)
_WATCH_EVERY_S = 0.8  # a cancelled document stops its readers within a second
_SERVER_AWAY_S = 0.5
_MAX_STARTS = 50
"""How often a unit may be started at all. Failed attempts are bounded by JOB_MAX_ATTEMPTS; this bounds units whose
workers keep dying, and is high because workers also die for reasons of their own."""

Stage = Callable[[Claim, Parts], Awaitable[None]]


async def _run_chunk(claim: Claim, parts: Parts) -> None:
    await PageReader(claim, parts).chunk()


async def _run_page(claim: Claim, parts: Parts) -> None:
    await PageReader(claim, parts).page()


STAGES: Mapping[UnitKind, Stage] = {
    UnitKind.DOWNLOAD: run_download,
    UnitKind.SPLIT: run_split,
    UnitKind.READ: _run_chunk,
    UnitKind.PAGE: _run_page,
    UnitKind.EARLY: run_early,
    UnitKind.MERGE: run_merge,
    UnitKind.EXPORT: run_export,
    UnitKind.CALLBACK: run_callback,
}


@dataclass(slots=True)
class _Held:
    claim: Claim
    task: asyncio.Task[None]
    unwanted: bool = False

    def stop(self, *, unwanted: bool = False) -> None:
        """Interrupts the stage, unless its outcome is already being written."""
        if not self.claim.outcome_write.begun:
            self.unwanted = unwanted
            self.task.cancel()


class Worker:
    """Runs until cancelled; `drain` lets it finish first."""

    def __init__(
        self,
        parts: Parts,
        worker_id: str,
        slots: Mapping[UnitKind, int],
        stages: Mapping[UnitKind, Stage] = STAGES,
    ) -> None:
        self._parts = parts
        self.id = worker_id
        self._slots = slots
        self._stages = stages
        self._held: dict[str, _Held] = {}
        self._stopping = asyncio.Event()
        self._busy = asyncio.Event()
        """Set while units are claimed; the watch of a worker at rest waits for it."""
        self._beaten = asyncio.Event()
        self._disk_reported = False
        self._disk = parts.disk
        self._failures = UnitFailures(parts)
        unreceived = UnreceivedEntries(parts.queues, worker_id, parts.clock)
        self._entries = EntryReader(
            parts.queues, worker_id, slots, unreceived, self._stopping, may_read=self._has_room
        )
        self._fairness = Overtaking(parts, slots, self._teams_in_hand, self._handle)
        if parts.ai is not None:
            parts.ai.waiting.take = self._entries.offer

    async def run(self) -> None:
        """Takes and runs units until drained or cancelled."""
        await self._parts.queues.ensure_groups(self._slots)
        _LOG.info("worker started", extra={"worker": self.id, "queues": [kind.value for kind in self._slots]})
        try:
            async with asyncio.TaskGroup() as group:
                beat = group.create_task(keep_running("heartbeat", self._beat), name="worker-heartbeat")
                watch = group.create_task(keep_running("watch", self._watch), name="worker-watch")
                listen = group.create_task(keep_running("signals", self._entries.run), name="worker-signals")
                await self._beaten.wait()
                fairness = partial(self._fairness.run, self._stopping)
                fair = group.create_task(keep_running("fairness", fairness), name="worker-fairness")
                readers = [
                    group.create_task(self._consume(kind, slots), name=f"worker-{kind.value}")
                    for kind, slots in self._slots.items()
                ]
                await asyncio.gather(*readers, fair)  # units that have overtaken end like the others
                beat.cancel()
                watch.cancel()
                listen.cancel()
        finally:
            with suppress(QuireError):
                await self._parts.queues.removals.flush()
                await self._entries.leave()
                await self._parts.workers.leave(self.id)
            _LOG.info("worker stopped", extra={"worker": self.id, "in_hand": self.in_hand})

    async def drain(self, timeout_s: float) -> None:
        """Stops claiming units; units that are not finished in time are released at once."""
        self._stopping.set()
        self._fairness.wake()
        tasks = {held.task for held in self._held.values()}
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
        for held in list(self._held.values()):
            held.stop()

    @property
    def in_hand(self) -> int:
        return len(self._held)

    def _has_room(self) -> bool:
        """Whether this host has disk space for more units."""
        return not self._disk.is_full

    def _units_in_hand(self) -> list[str]:
        """The units that this worker works on, for its heartbeat: the server may believe that it has others."""
        return [held_unit(one.claim.job.id, one.claim.hint.unit) for one in self._held.values()]

    def _teams_in_hand(self, kind: UnitKind) -> list[str]:
        """The team of each unit of this kind that the worker has claimed; none overtakes while its disk is full."""
        if self._disk.is_full:
            return []
        return [one.claim.job.team for one in self._held.values() if one.claim.hint.kind is kind]

    async def _consume(self, kind: UnitKind, slots: int) -> None:
        free = asyncio.Semaphore(slots)
        async with asyncio.TaskGroup() as group:
            while not self._stopping.is_set():
                await free.acquire()
                room = 1
                while room < slots and not free.locked():
                    await free.acquire()
                    room += 1
                hints = await self._entries.next(kind, room)
                for _ in range(room - len(hints)):
                    free.release()
                for hint in hints:
                    task = group.create_task(self._handle(hint), name=f"unit-{hint.unit}")
                    task.add_done_callback(lambda _: free.release())

    async def _handle(self, hint: Hint) -> None:
        token = secrets.token_hex(6)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - we are inside one
        try:
            claim = await self._claim(hint, token)
            if claim is not None and self._stopping.is_set():  # `drain` did not see it
                await self._release(hint, token)
                return
            if claim is not None:
                self._held[token] = _Held(claim, task)
                self._fairness.wake()
                self._busy.set()
                await self._attempt(claim)
                self._held.pop(token)
                self._fairness.unit_ended(claim.job.team)
            self._parts.queues.done_soon(hint)
        except asyncio.CancelledError:
            held = self._held.pop(token, None)
            unwanted = held is not None and held.unwanted
            if not unwanted and not self._stopping.is_set():
                raise
            task.uncancel()
            if unwanted:
                with suppress(CoordinationError):  # it is found again among the unreceived entries
                    await self._parts.queues.done(hint)
            else:
                await self._release(hint, token)
        except CoordinationCommandError as error:
            self._held.pop(token, None)
            await self._break(hint, error)
        except CoordinationError as error:
            _LOG.warning(
                "unit released", extra={"job_id": hint.job_id, "unit": hint.unit, "code": error.code}
            )
            await self._release_later(hint, token)
        except Exception:
            _LOG.exception(
                "unit released after an unexpected error", extra={"job_id": hint.job_id, "unit": hint.unit}
            )
            await self._release_later(hint, token)
        finally:
            self._held.pop(token, None)
            self._entries.done(hint)

    async def _release_later(self, hint: Hint, token: str) -> None:
        """Releases the unit as soon as the server answers. This worker is alive, so no other process will."""
        self._held.pop(token, None)
        while not self._stopping.is_set():
            await asyncio.sleep(_SERVER_AWAY_S)
            if await self._release(hint, token):
                break

    async def _claim(self, hint: Hint, token: str) -> Claim | None:
        answer = await self._parts.jobs.claim(hint, self.id, token)
        if isinstance(answer, Refused) and answer.why == "held":
            if await self._parts.workers.alive(answer.owner):
                return None
            answer = await self._parts.jobs.claim(hint, self.id, token, dead=answer.owner)
        if isinstance(answer, Refused):
            if answer.why == "early":  # by this machine's clock, or a doubled entry
                await self._parts.queues.put_later(replace(hint, entry_id=None), answer.not_before_s)
            return None
        return answer

    async def _attempt(self, claim: Claim) -> None:
        if claim.starts > _MAX_STARTS:
            # It has a dead letter: an operator may replay it when what killed the workers is mended.
            text = "The unit was started too often: its workers died each time."
            await self._failures.give_up(claim, QuireError(text, retryable=True))
            return
        stage = self._stages[claim.hint.kind]
        try:
            with sharing(claim.job.team, claim.job.id):
                if self._parts.tracer is None:
                    await stage(claim, self._parts)
                else:
                    await _traced(self._parts.tracer, stage, claim, self._parts)
            self._failures.plane_answers()
        except (CoordinationError, CoordinationCommandError):
            raise
        except Exception as error:
            await self._failures.handle(claim, error)

    async def _break(self, hint: Hint, error: CoordinationCommandError) -> None:
        """Ends the document of a unit that a script could not process: another attempt would fail alike."""
        _LOG.error(
            "internal error in the coordination plane",
            exc_info=error,
            extra={"job_id": hint.job_id, "unit": hint.unit},
        )
        try:
            if await self._parts.jobs.fail_broken(hint.job_id, hint.unit, error):
                await self._parts.queues.add_dead_letter(hint, error.public)
            await self._parts.queues.done(hint)
        except (CoordinationError, CoordinationCommandError) as again:  # the housekeeper requeues the unit
            _LOG.warning("document not ended", extra={"job_id": hint.job_id, "code": again.code})

    async def _release(self, hint: Hint, token: str) -> bool:
        """Releases the unit at once, before its lease would end; False if the call must be repeated."""
        try:
            answer = await self._parts.jobs.claim(hint, self.id, token)
            if isinstance(answer, Claim):
                await self._parts.jobs.park(answer, self._parts.clock.now(), failed=False)
            await self._parts.queues.done(hint)
        except CoordinationError:
            return False
        except CoordinationCommandError as error:
            await self._break(hint, error)
        return True

    async def _beat(self) -> None:
        while True:
            try:
                is_full = self._disk.is_full
                await self._parts.workers.beat(self.id, self._units_in_hand())
                if is_full or self._disk_reported:
                    await self._parts.workers.report_disk(self.id, is_full=is_full)
                self._disk_reported = is_full
                if offset_s := clock_offset(self._parts.clock):
                    await self._parts.workers.report_clock(self.id, offset_s)
                self._beaten.set()
            except (CoordinationError, CoordinationCommandError) as error:
                _LOG.warning("heartbeat failed", exc_info=error, extra={"code": error.code})
            await asyncio.sleep(self._parts.workers.ttl_s / BEATS_IN_A_TTL)

    async def _watch(self) -> None:
        """Stops units whose claim is no longer valid: cancelled, past the deadline, or taken over by another worker."""
        while True:
            if not self._held:
                self._busy.clear()
            await self._busy.wait()
            await asyncio.sleep(_WATCH_EVERY_S)
            by_job: dict[str, list[_Held]] = {}
            for held in self._held.values():
                if not held.claim.outcome_write.begun:
                    by_job.setdefault(held.claim.job.id, []).append(held)
            try:
                answers = await asyncio.gather(*map(self._check_claims, by_job.values()))
            except CoordinationError:
                continue
            for in_hand, flags in zip(by_job.values(), answers, strict=True):
                for one, wanted in zip(in_hand, flags, strict=True):
                    if not wanted:
                        one.stop(unwanted=True)

    async def _check_claims(self, held: list[_Held]) -> list[bool]:
        """Whether each claim of one job is still valid. What can't be checked runs on until it settles."""
        claims = [one.claim for one in held]
        try:
            return await self._parts.jobs.lost.check_claims(claims)
        except CoordinationCommandError:
            return [True] * len(held)


async def _traced(tracer: Tracer, stage: Stage, claim: Claim, parts: Parts) -> None:
    attributes = {"job_id": claim.job.id, "unit": claim.hint.unit, "start": claim.starts}
    with tracer.unit(claim.hint.kind.value, claim.job.trace, attributes):
        await stage(claim, parts)


def default_slots(concurrency: int, reader_processes: int, classifications: int) -> dict[UnitKind, int]:
    """Units that one worker claims at a time, by kind: two chunks for each reader process keep it busy."""
    return {
        UnitKind.DOWNLOAD: 4,
        UnitKind.SPLIT: max(2, reader_processes),
        UnitKind.READ: reader_processes * 2,
        UnitKind.PAGE: concurrency,
        UnitKind.EARLY: 4,
        UnitKind.MERGE: 2,
        UnitKind.EXPORT: 4,
        UnitKind.CALLBACK: 4,
        UnitKind.VAULT: 4,
        UnitKind.CLASSIFY: classifications,
        UnitKind.CLASSIFY_IMAGE: classifications,
        UnitKind.EMBED: 2,
    }
