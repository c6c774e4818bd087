"""The housekeeper, one process at a time: delayed entries, dead workers' entries, deadlines, lost units, expiry."""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from quire.coordination.ai_leases import AiLeases
from quire.coordination.housekeeping_records import HousekeepingRecords
from quire.coordination.job_records import Suspect, Sweep
from quire.coordination.liveness import held_unit
from quire.coordination.waiting_pages import Waiting
from quire.domain.job import JobPriority, UnitKind, unit_kind
from quire.errors import (
    CatalogError,
    CoordinationCommandError,
    CoordinationError,
    NotStartedError,
    ObjectsError,
)
from quire.pipeline.object_keys import job_prefix
from quire.pipeline.parts import Parts
from quire.pipeline.side_tasks import keep_running
from quire.pipeline.stages.download_stage import forget_old_downloads
from quire.pipeline.stages.export_stage import forget_local_result
from quire.pipeline.upkeep.dead_workers import DeadWorkers
from quire.pipeline.upkeep.reconciler import Reconciler
from quire.pipeline.upkeep.record_archive import RecordArchive
from quire.pipeline.upkeep.retention import apply_retention

if TYPE_CHECKING:
    from quire.pipeline.vault.vault import Vault

_LOG = logging.getLogger(__name__)
_LEASE_S = 3.0
_RENEW_S = 1.0
_RELEASE_S = 1.0
_TICK_S = 0.02
_IDLE_TICK_S = 0.5
_LOCK_LOOKS, _LOCK_EVERY_S = 2, 7.5
"""How often other processes look at the lock in the time of WORKER_TTL, and how long they wait at most between two
looks. They notice at once that its holder on the same host has ended."""
_ROUND_S = 1.0
_TRIM_EVERY_S = 30.0
_GRACE_S = 10.0
_SWEEP_AGAIN_S = 10.0
_CATALOG_S = 2.0
_ASK_AGAIN_S = 600.0
_BEING_DELETED_S = 60.0


class Housekeeper:
    """Runs in every process; only the one that holds the lock does anything."""

    def __init__(
        self,
        parts: Parts,
        records: HousekeepingRecords,
        worker_id: str,
        vault: Vault | None = None,
        reconciler: Reconciler | None = None,
    ) -> None:
        self._parts = parts
        self._records = records
        self._id = worker_id
        self._vault = vault
        self._reconciler = reconciler
        self._ours = False
        self._trim_at = 0.0
        self._archive = RecordArchive(parts.jobs, parts.objects)
        self._dead = DeadWorkers(parts.workers, parts.clock)
        self._leases = AiLeases(records.connection, parts.workers)
        self._waiting = (
            Waiting(records.connection, parts.queues, parts.clock) if parts.ai is None else parts.ai.waiting
        )
        self._delivered: dict[tuple[UnitKind, JobPriority], float] = {}
        """How far each stream was delivered, as read in this round."""

    async def run(self) -> None:
        await self._remove_local_leftovers()
        with suppress(CoordinationError):  # else the first worker creates them
            await self._parts.queues.ensure_groups(UnitKind)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._run_rounds(), name="housekeeping-rounds")
                if self._reconciler is not None:
                    running = partial(self._reconciler.run, self.is_leader)
                    group.create_task(keep_running("reconciler", running), name="reconciler")
        finally:
            # The lease ends by itself: a process that stops does not wait for a server that is away.
            with suppress(CoordinationError, TimeoutError):
                async with asyncio.timeout(_RELEASE_S):
                    await self._parts.workers.release_housekeeping(self._id)

    async def _remove_local_leftovers(self) -> None:
        """Runs in every process, because every machine has local copies of objects."""
        with suppress(ObjectsError):
            if swept := await self._parts.objects.sweep_temporaries():
                _LOG.info("half-written files of killed processes removed", extra={"files": swept})
        await forget_old_downloads(self._parts)

    def is_leader(self) -> bool:
        """Whether this process holds the lock of the housekeeper."""
        return self._ours

    async def _run_rounds(self) -> None:
        queues, clock = self._parts.queues, self._parts.clock
        next_round, renew_at = clock.monotonic(), clock.monotonic()
        while True:
            next_due_s = math.inf
            try:
                if not self._ours or clock.monotonic() >= renew_at:
                    renew_at = clock.monotonic() + _RENEW_S
                    self._ours = await self._parts.workers.hold_housekeeping(self._id, _LEASE_S)
                if self._ours:
                    next_due_s = await queues.move_all_due()
                    if clock.monotonic() >= next_round:
                        next_round = clock.monotonic() + _ROUND_S
                        await self._round()
            except (CatalogError, CoordinationError, ObjectsError) as error:
                self._ours = False
                _LOG.warning("housekeeping postponed", extra={"code": error.code})
                await asyncio.sleep(1)
                continue
            except CoordinationCommandError as error:
                self._ours = False
                _LOG.error("housekeeping failed", exc_info=error)
                await asyncio.sleep(1)
                continue
            if self._ours:
                await queues.wait_for_delayed(min(_IDLE_TICK_S, max(_TICK_S, next_due_s)))
            else:
                await self._wait_for_lock()

    async def _wait_for_lock(self) -> None:
        wait_s = min(self._parts.workers.ttl_s / _LOCK_LOOKS, _LOCK_EVERY_S)
        for _ in range(max(1, int(wait_s / _IDLE_TICK_S))):
            await asyncio.sleep(_IDLE_TICK_S)
            if self._parts.workers.is_housekeeper_dead():
                return

    async def _round(self) -> None:
        await self._recover_dead_workers()
        self._delivered.clear()
        # Asked together, the three lists cost one round trip: most rounds find them empty.
        sweep, expired, retained = await asyncio.gather(
            self._records.due_for_sweep(), self._records.expired(), self._parts.jobs.retained.due()
        )
        for job_id in sweep:
            try:
                await self._sweep_job(job_id)
            except CoordinationCommandError as error:
                await self._break(job_id, error)
        for job_id in expired:
            await self._expire(job_id)
        await apply_retention(self._parts, retained)
        if self._parts.clock.monotonic() >= self._trim_at:
            self._trim_at = self._parts.clock.monotonic() + _TRIM_EVERY_S
            await self._parts.workers.trim_expired()

    async def _break(self, job_id: str, error: CoordinationCommandError) -> None:
        """Ends a job that a script could not process, and sweeps it again later: others must not wait for it."""
        _LOG.error("internal error in the coordination plane", exc_info=error, extra={"job_id": job_id})
        await self._parts.jobs.fail_broken(job_id, "", error)
        await self._records.sweep_again(job_id, self._parts.clock.now() + _SWEEP_AGAIN_S)

    async def _is_lost(self, job_id: str, suspect: Suspect, priority: JobPriority) -> bool:
        """Whether no worker works on the unit and no queue entry will start it: its worker is dead or does not have it,
        or later entries were delivered before it.

        A unit whose entry still waits in the stream is not lost, however long it waits: one entry for each unit.
        """
        if suspect.owner:
            workers = self._parts.workers
            named = held_unit(job_id, suspect.unit)
            return not await workers.alive(suspect.owner) or await workers.denies(
                suspect.owner, named, suspect.since
            )
        stream = (unit_kind(suspect.unit), priority)
        if stream not in self._delivered:
            self._delivered[stream] = await self._parts.queues.delivered_until(*stream)
        return suspect.since + _GRACE_S < self._delivered[stream]

    def _expiry_in_queue(self, swept: Sweep) -> float | None:
        """When a job that no worker has claimed yet ends by JOB_SLA_MAX_AGE."""
        max_age_s = self._parts.settings.jobs.sla_max_age_s
        return swept.queued_at + max_age_s if max_age_s and swept.queued_at is not None else None

    async def _end_unclaimed(self, job_id: str) -> None:
        max_age_s = self._parts.settings.jobs.sla_max_age_s
        alive = await self._parts.workers.count_alive()
        cause = "All workers are busy" if alive else "No worker is running"
        error = NotStartedError(
            f"No worker started the document within {max_age_s:g} s (JOB_SLA_MAX_AGE). {cause}; retry it later."
        )
        if await self._parts.jobs.end_unclaimed(job_id, error):
            _LOG.warning("document ended unclaimed", extra={"job_id": job_id, "workers_alive": alive})

    async def _expire(self, job_id: str) -> None:
        """Deletes a job's objects, unless the job has not ended or ended later than expected at its creation."""
        if await self._is_held_by_vault(job_id):
            return
        until = await self._parts.jobs.objects_kept_until(job_id)
        if until > self._parts.clock.now():
            await self._records.keep_objects(job_id, until)
            return
        await self._parts.objects.delete_prefix(job_prefix(job_id))
        await forget_local_result(self._parts, job_id)
        # A worker that had a deleted document in hand may have kept an answer for it.
        if self._vault is not None:
            await self._vault.forget_answers(job_id)
        await self._records.forget_objects(job_id)

    async def _is_held_by_vault(self, job_id: str) -> bool:
        """Whether the vault holds the objects; then they stay. Deletes the rest of a document whose deletion was
        interrupted."""
        job = await self._archive.job(job_id)
        if job is None or job.vault is None:
            return False
        now = self._parts.clock.now()
        held: bool | None = None
        being_deleted = False
        if self._vault is not None:
            with suppress(CatalogError, TimeoutError):
                async with asyncio.timeout(_CATALOG_S):
                    held = await self._vault.has_document(job.vault)
                    being_deleted = await self._vault.steps.is_deleted(job_id)
        if self._vault is not None and held is False:
            await self._vault.purge(job.vault.team, job.vault.document_id)
        elif held and being_deleted:  # its row is being deleted, and the process that deletes it may die
            await self._records.keep_objects(job_id, now + _BEING_DELETED_S)
        else:
            again_s = max(self._parts.jobs.ttl_s, _ASK_AGAIN_S) if held else _ASK_AGAIN_S
            await self._records.keep_objects(job_id, now + again_s)
        return True

    async def _recover_dead_workers(self) -> None:
        """Requeues the entries of dead workers and releases their AI leases.

        Each queue has a list of its consumers. With many workers these are long, so they are read when a heartbeat is
        missing, and else every few seconds.
        """
        if not await self._dead.is_scan_due():
            return
        await self._release_dead_leases()  # before their pages are queued, which then find a free candidate
        alive: dict[str, bool] = {}
        found = await asyncio.gather(*(self._parts.queues.consumers(kind) for kind in UnitKind))
        for kind, consumers in zip(UnitKind, found, strict=True):
            for consumer, pending in consumers.items():
                if consumer not in alive:
                    alive[consumer] = await self._parts.workers.alive(consumer)
                if alive[consumer]:
                    continue
                if pending:
                    await self._take_over(kind, consumer)
                else:
                    await self._parts.queues.forget_consumer(kind, consumer)
                    await self._parts.queues.signals(self._id).send([kind])  # it may have received one
        unacknowledged = {kind: sum(one.values()) for kind, one in zip(UnitKind, found, strict=True)}
        # A process that dies right after adding entries may not have signalled.
        await self._parts.queues.signals(self._id).send(await self._parts.queues.undelivered(unacknowledged))
        self._dead.scanned()

    async def _release_dead_leases(self) -> None:
        """Lets other pages have the AI calls that dead processes had in flight, and wakes as many."""
        released = await self._leases.release_dead()
        if released:
            _LOG.info("AI leases of dead processes released", extra={"leases": released})
            await self._waiting.wake(released)

    async def _take_over(self, kind: UnitKind, dead: str) -> None:
        """The units are released as well, so that the check of running jobs does not queue them a second time."""
        moved = await self._parts.queues.take_over(kind, dead)
        for hint in moved:
            await self._parts.jobs.reissue(hint.job_id, [Suspect(hint.unit, dead)])
        _LOG.info("entries of a dead worker requeued", extra={"queue": kind.value, "entries": len(moved)})

    async def _sweep_job(self, job_id: str) -> None:
        jobs = self._parts.jobs
        now = self._parts.clock.now()
        swept = await jobs.sweep(job_id, _GRACE_S)
        over = swept.status is None or swept.status.terminal
        if over and not swept.suspects:
            work = await jobs.working(job_id)
            if not work:
                await jobs.stop_sweeping(job_id, now)
                return
        if swept.deadline_at is not None and swept.deadline_at <= now:
            fell_back = await jobs.deadline(job_id, swept.epoch)
            if fell_back is not None:
                self._parts.reports.deadline_reached(job_id, fell_back)
        lost = [suspect for suspect in swept.suspects if await self._is_lost(job_id, suspect, swept.priority)]
        if lost:
            units = await jobs.reissue(job_id, lost)
            _LOG.info("lost units requeued", extra={"job_id": job_id, "units": len(units)})
            await jobs.requeue(job_id, swept.epoch, units)
        again = now + _SWEEP_AGAIN_S
        expires_at = self._expiry_in_queue(swept)
        if expires_at is not None:
            if expires_at <= now:
                await self._end_unclaimed(job_id)
            again = min(again, max(expires_at, now + _IDLE_TICK_S))
        if swept.deadline_at is not None and swept.deadline_at > now:
            again = min(again, swept.deadline_at)
        await self._records.sweep_again(job_id, again)
