"""Job records and their state changes. Each change is one script; the units that it returns are queued right after.

If the process dies between the two, the units are in the job's work and the housekeeper queues them.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from quire.clock import Clock, now_ms
from quire.coordination import keys
from quire.coordination.answer_index import AnswerIndex
from quire.coordination.connection import Arg, RedisConnection, pairs
from quire.coordination.early_pages import EarlyPages
from quire.coordination.ghost_records import GhostRecords
from quire.coordination.housekeeping_records import Fetches, QueueOrder, Retained, SweepSchedule
from quire.coordination.job_observer import JobObserver, UnobservedJobs
from quire.coordination.job_records import (
    Claim,
    JobIdInUse,
    JobState,
    NewJob,
    PageOutcome,
    Refused,
    Suspect,
    Sweep,
    as_json,
    flat,
    job_from_fields,
    loaded,
    new_fields,
    objects_kept_ms,
    read_claim,
)
from quire.coordination.lost_state import LostState
from quire.coordination.parked_units import Counted, ParkedUnits
from quire.coordination.streams import PAGE_ENTRY_FIELDS, Hint, Queues
from quire.coordination.waiting_units import WaitingUnits
from quire.domain.job import JobPriority, JobStatus, MainJob, PageRecord
from quire.errors import CoordinationCommandError, QuireError

_FIRST_SWEEP_S = 15.0
_INDEX_BOUND = 100_000
_LEAST_RUNNING_TTL_S = 30 * 86_400.0
"""A job that has not ended is kept at least so long, even if JOB_TTL is shorter: it was accepted."""
_RESTORED_KEPT_MS = 3_600_000
_RESTORED_AT_ONCE = 500
_REMOVED_AGAIN_MS = 3_600_000


class JobStore:
    def __init__(
        self,
        connection: RedisConnection,
        queues: Queues,
        clock: Clock,
        ttl_s: float,
        *,
        sla_s: float | None = None,
    ) -> None:
        """`sla_s`: a job that no worker has claimed after so long is swept at that moment."""
        self._connection = connection
        self._queues = queues
        self._clock = clock
        self.ttl_s = ttl_s
        self._first_sweep_ms = int(min(_FIRST_SWEEP_S, sla_s or _FIRST_SWEEP_S) * 1000)
        self.ghost = GhostRecords(connection, queues, clock, self.running_ttl_ms)
        self.fetches = Fetches(connection)
        self.answers = AnswerIndex(connection)
        self.order = QueueOrder(connection)
        self.waiting = WaitingUnits(connection)
        self.parked = ParkedUnits(connection, queues)
        self.early = EarlyPages(connection, queues, clock)
        self.retained = Retained(connection, clock)
        self.lost = LostState(connection, queues, clock)
        self.observer: JobObserver = UnobservedJobs()
        self._sweeps = SweepSchedule(connection, clock)

    async def create(self, new: NewJob, call: str = "") -> JobIdInUse | None:
        """Creates the job and queues its first unit; None if created, else the job that has the id.

        The active index is written first: the housekeeper finds a job there whose unit was never queued. A job that was
        created with the same `call` (a recovery from its journal) is this one.
        """
        now = now_ms(self._clock)
        await self._connection.commands(
            [
                ("ZADD", keys.ACTIVE, now + self._first_sweep_ms, new.id),
                ("ZADD", keys.ORDER, "NX", now, new.id),
                ("ZADD", keys.EXPIRY, now + self._objects_ms(), new.id),
                ("ZADD", keys.index(new.team), now, new.id),
                ("ZREMRANGEBYSCORE", keys.index(new.team), "-inf", now - self._ttl_ms()),
                ("ZREMRANGEBYRANK", keys.index(new.team), 0, -_INDEX_BOUND - 1),
                ("PEXPIRE", keys.index(new.team), self._objects_ms()),
            ]
        )
        first = "split" if new.content_ref else "download"
        call = call or secrets.token_hex(4)
        fields = new_fields(new)
        if trace := self.observer.trace_of_new_job():
            fields["trace"] = trace
        answer = await self._run("create", new.id, now, self.running_ttl_ms, first, call, *flat(fields))
        if answer[0] == 0:
            # The job that has the id may have ended, or have a deadline before the sweep that was just scheduled.
            await self._sweeps.sweep_by(new.id, self._clock.now())
            return JobIdInUse(JobStatus(answer[1]), answer[2], answer[3])
        await self._queues.put_units(new.id, 1, [first], new.content_ref or "", new.options.priority)
        self.observer.accepted(new)
        return None

    async def claim(self, hint: Hint, owner: str, token: str, dead: str = "") -> Claim | Refused:
        answer = await self._run(
            "claim", hint.job_id, hint.unit, hint.epoch, owner, token, dead, now_ms(self._clock)
        )
        found = read_claim(hint, token, answer)
        if isinstance(found, Claim):
            await self._sweeps.sweep_by(hint.job_id, found.job.deadline_at)
        return found

    async def park(self, claim: Claim, not_before_s: float, *, failed: bool) -> bool:
        """Releases a unit until not_before_s; `failed` if this attempt counts."""
        return await self.parked.park(claim, not_before_s, Counted.FAILED if failed else Counted.STARTED)

    async def fetched(self, claim: Claim, found: Mapping[str, Arg]) -> None:
        claim.outcome_write.begun = True
        job = claim.job
        units = await self._run("fetched", job.id, job.epoch, now_ms(self._clock), *flat(found))
        await self._queue(job, job.epoch, units, str(found.get("content_ref", "")))

    async def split_done(
        self, claim: Claim, total: int, chunk: int, window: int, found: Mapping[str, Arg]
    ) -> None:
        claim.outcome_write.begun = True
        job = claim.job
        units = await self._run(
            "split_done", job.id, job.epoch, now_ms(self._clock), total, chunk, window, *flat(found)
        )
        await self._queue(job, job.epoch, units)

    async def pages_done(self, claim: Claim, outcomes: Sequence[PageOutcome]) -> int:
        """Records a unit's pages; returns how many were accepted."""
        claim.outcome_write.begun = True
        job = claim.job
        args: list[Arg] = []
        tokens_in = tokens_out = cost_micro = 0
        for record, outcome in ((one.record, one) for one in outcomes):
            args += (record.number, outcome.letter, as_json(record.packed()))
            tokens_in += record.tokens_in
            tokens_out += record.tokens_out
            cost_micro += round(record.cost_usd * 1_000_000)
        answer = await self._run(
            *("pages_done", job.id, claim.hint.unit, claim.hint.epoch, now_ms(self._clock)),
            *(tokens_in, tokens_out, cost_micro, len(PAGE_ENTRY_FIELDS), *PAGE_ENTRY_FIELDS),
            *args,
        )
        queued = self._queue(job, claim.hint.epoch, answer[3:], described=answer[2])
        if answer[1]:
            await asyncio.gather(queued, self._sweeps.sweep_by(job.id, int(answer[1]) / 1000))
        else:
            await queued
        if answer[0]:
            self.observer.pages_recorded([outcome.record for outcome in outcomes])
        return int(answer[0])

    async def merged(self, claim: Claim, result: dict[str, Any]) -> bool:
        claim.outcome_write.begun = True
        job = claim.job
        now = now_ms(self._clock)
        answer = await self._run("merged", job.id, claim.hint.epoch, now, self._ttl_ms(), as_json(result))
        if answer[0]:
            await self.after_end(job.id, job.epoch, answer[1:], now)
        return bool(answer[0])

    async def fail(self, claim: Claim, error: QuireError) -> bool:
        """The whole job fails because this unit can't be done."""
        claim.outcome_write.begun = True
        answer = await self._end(claim.job.id, "failed", error, claim.hint.unit, claim.hint.epoch)
        return bool(answer[0] == 1)

    async def fail_broken(self, job_id: str, unit: str, error: CoordinationCommandError) -> bool:
        """Ends a job that a script could not process; False if it had ended, or its record can't be read.

        Needs no claim: the claim itself may be what could not be processed.
        """
        now = now_ms(self._clock)
        answer = await self._run("break", job_id, now, self._ttl_ms(), as_json(error.as_dict()), unit)
        if answer[0]:
            await self.after_end(job_id, None, answer[1:], now)
        return bool(answer[0])

    async def cancel(self, job_id: str, why: QuireError | None = None) -> JobStatus | None:
        """Returns the status afterwards; None if there is no such job."""
        answer = await self._end(job_id, "cancelled", why, "", 0)
        if answer[0] == -1:
            return None
        return JobStatus.CANCELLED if answer[0] == 1 else JobStatus(answer[1])

    async def retry(
        self, job: MainJob, what: str, pages: Iterable[int] = (), *, first: str = "", key: str = ""
    ) -> str:
        """Starts a new epoch: `started`, `running` (nothing done), `repeated` (same key) or `missing`."""
        now = now_ms(self._clock)
        await self._connection.commands(
            [
                ("ZADD", keys.ACTIVE, now + self._first_sweep_ms, job.id),
                ("ZADD", keys.ORDER, now, job.id),
                ("ZADD", keys.EXPIRY, now + self._objects_ms(), job.id),
            ]
        )
        answer = await self._run(
            "retry", job.id, what, now, self.running_ttl_ms, key, first, job.epoch, *pages
        )
        if answer[0] == 1:
            await self._queue(job, answer[1], answer[2:])
        return {1: "started", 0: "running", 2: "repeated"}.get(answer[0], "missing")

    async def deadline(self, job_id: str, epoch: int) -> int | None:
        """Applies a deadline that has passed; returns how many pages fell back, None if it was applied before."""
        answer = await self._run("deadline", job_id, now_ms(self._clock))
        await self.requeue(job_id, epoch, answer[1:])
        return None if answer[0] < 0 else int(answer[0])

    async def sweep(self, job_id: str, grace_s: float) -> Sweep:
        answer = await self._run("sweep", job_id, now_ms(self._clock), int(grace_s * 1000))
        rows = zip(answer[5::3], answer[6::3], answer[7::3], strict=True)
        return Sweep(
            status=JobStatus(answer[0]) if answer[0] else None,
            deadline_at=float(answer[1]) / 1000 if answer[1] else None,
            epoch=int(answer[2]),
            queued_at=float(answer[3]) / 1000 if answer[3] else None,
            priority=JobPriority(answer[4] or JobPriority.NORMAL),
            suspects=tuple(Suspect(unit, owner, float(since) / 1000) for unit, owner, since in rows),
        )

    async def reissue(self, job_id: str, units: Iterable[Suspect]) -> list[str]:
        """Releases units whose owner is dead or whose entry is lost; returns those that the caller is to queue."""
        flat = [part for one in units for part in (one.unit, one.owner, round(one.since * 1000))]
        return list(await self._run("reissue", job_id, now_ms(self._clock), *flat))

    async def end_unclaimed(self, job_id: str, error: QuireError) -> bool:
        """Fails a job that no worker has claimed; False if one has meanwhile."""
        answer = await self._end(job_id, "failed", error, "", 0, only=JobStatus.QUEUED)
        return bool(answer[0] == 1)

    async def remove(self, job: MainJob, fingerprint: str) -> str:
        """Deletes the record of a job that has ended: `removed`, `running` or `missing`.

        Its objects are registered for deletion first and stay so: the housekeeper deletes what a caller that dies has
        left, and what a late worker writes.
        """
        later = now_ms(self._clock) + _REMOVED_AGAIN_MS
        marked = ("SET", keys.removed_job(job.id), 1, "PX", _REMOVED_AGAIN_MS)
        await self._connection.commands([("ZADD", keys.EXPIRY, later, job.id), marked])
        owned = (*keys.JobKeys.of(job.id).all(), keys.ai_pages(job.id), keys.ai_answers_of(job.id))
        removed = await self._connection.script("job/remove", owned)
        if removed == 1:
            await self.forget_content(job.team, fingerprint, job.id)
            await self._connection.commands(
                [
                    ("ZREM", keys.index(job.team), job.id),
                    ("ZREM", keys.ACTIVE, job.id),
                    ("ZREM", keys.ORDER, job.id),
                    ("ZREM", keys.RETAINED, job.id),
                ]
            )
        return {1: "removed", 0: "running"}.get(removed, "missing")

    async def requeue(self, job_id: str, epoch: int, units: Sequence[str]) -> None:
        if not units:
            return
        content_ref, priority = await self._connection.command(
            "HMGET", keys.JobKeys.of(job_id).job, "content_ref", "priority"
        )
        await self._queues.put_units(
            job_id, epoch, units, content_ref or "", JobPriority(priority or JobPriority.NORMAL)
        )

    async def drop_unit(self, claim: Claim) -> None:
        now = self._clock.now()
        dropped = await self._run("drop_unit", claim.job.id, claim.hint.unit, claim.hint.epoch, claim.token)
        if dropped == 2 and claim.job.status.terminal:
            await self.stop_sweeping(claim.job.id, now)

    async def stop_sweeping(self, job_id: str, over_at_s: float) -> None:
        """Removes a job that had ended at that time from the active index, unless a retry has started since."""
        # The active index last: the housekeeper does both again for a job that a dying process has left there.
        await self.order.leave(job_id, int(over_at_s * 1000))
        await self._connection.script(
            "plain/cancel_look", [keys.ACTIVE], job_id, int(over_at_s * 1000) + self._first_sweep_ms
        )

    async def get(self, job_id: str) -> MainJob | None:
        found = await self.fields(job_id)
        return job_from_fields(job_id, found) if found else None

    async def states_of(self, job_ids: Sequence[str]) -> dict[str, JobState]:
        """The states of these jobs, in one round trip; jobs that no longer exist are left out."""
        if not job_ids:
            return {}
        rows = await self._connection.commands(
            [("HMGET", keys.JobKeys.of(job_id).job, "status", "error", "epoch") for job_id in job_ids]
        )
        found = zip(job_ids, rows, strict=True)
        return {
            one: JobState(JobStatus(row[0]), loaded(row[1]), int(row[2] or 0)) for one, row in found if row[0]
        }

    async def fields(self, job_id: str) -> dict[str, str]:
        """The fields of the record, for the archive; empty if there is none."""
        return pairs(await self._connection.command("HGETALL", keys.JobKeys.of(job_id).job))

    async def revive(self, job_id: str, fields: Mapping[str, str]) -> bool:
        """Restores an archived record, unless there is one."""
        return bool(await self._run("revive", job_id, self._ttl_ms(), *flat(fields)))

    async def pages(self, job_id: str, numbers: Sequence[int] | None = None) -> dict[int, PageRecord]:
        """The page records in Redis, which only a running job has."""
        key = keys.JobKeys.of(job_id).pages
        if numbers is not None:
            raws = await self._connection.command("HMGET", key, *numbers) if numbers else []
            rows: Iterable[tuple[int, str | None]] = zip(numbers, raws, strict=True)
        else:
            found = pairs(await self._connection.command("HGETALL", key))
            rows = ((int(number), raw) for number, raw in found.items())
        return {number: PageRecord.unpack(number, json.loads(raw)) for number, raw in rows if raw}

    async def restore_pages(self, job_id: str, records: Iterable[PageRecord]) -> None:
        """Restores the records of a finished job before a retry, unless another retry was first.

        The merge removes them again.
        """
        known = list(records)
        for first in range(0, len(known), _RESTORED_AT_ONCE):
            batch: list[Arg] = []
            for record in known[first : first + _RESTORED_AT_ONCE]:
                batch += (record.number, as_json(record.packed()))
            await self._run("restore", job_id, _RESTORED_KEPT_MS, *batch)

    async def working(self, job_id: str) -> dict[str, str]:
        """Open units and their owners ('' = not claimed)."""
        found = pairs(await self._connection.command("HGETALL", keys.JobKeys.of(job_id).work))
        return {unit: json.loads(raw)["o"] for unit, raw in found.items()}

    async def newest(self, team: str, limit: int, before_s: float | None) -> list[MainJob]:
        """A team's jobs, the newest first."""
        top = "+inf" if before_s is None else f"({int(before_s * 1000)}"
        ids = await self._connection.command(
            "ZREVRANGEBYSCORE", keys.index(team), top, "-inf", "LIMIT", 0, limit
        )
        found = await asyncio.gather(*(self.get(job_id) for job_id in ids))
        return [job for job in found if job is not None]

    async def count_unfinished(self) -> int:
        """Documents that have not ended. The active index has more: steps, deliveries, ended jobs to be looked at."""
        return await self.order.count()

    async def register_objects(self, job_id: str, for_s: float, *, extend: bool = False) -> float:
        """Schedules the deletion of the objects of a job that does not exist yet, and returns when they are deleted.
        Creating the job extends it. `extend` replaces an earlier time."""
        until = now_ms(self._clock) + int(for_s * 1000)
        await self._connection.command("ZADD", keys.EXPIRY, "GT" if extend else "NX", until, job_id)
        return until / 1000

    async def objects_kept_until(self, job_id: str) -> float:
        """When a job's objects may be deleted: after its record, which is kept for ttl_s from the job's end."""
        job = await self.get(job_id)
        if job is None:
            return 0.0
        since = job.completed_at if job.status.terminal else None
        return (since or self._clock.now()) + self._objects_ms() / 1000

    async def job_for_content(self, team: str, fingerprint: str) -> str | None:
        """The job that is registered for this content and these options, for dedupe; None if there is none."""
        found = await self._connection.command("GET", keys.dedup(team, fingerprint))
        return found or None

    async def register_content(self, team: str, fingerprint: str, job_id: str, seen: str | None) -> str:
        """Registers job_id if the registered job is still `seen`; returns the job that is registered now."""
        current = await self._connection.script(
            "plain/swap_value", [keys.dedup(team, fingerprint)], seen or "", job_id, self._ttl_ms()
        )
        return str(current)

    async def forget_content(self, team: str, fingerprint: str, job_id: str) -> None:
        """Removes the registration of job_id for this content; a job that has replaced it stays."""
        await self.register_content(team, fingerprint, "", seen=job_id)

    async def _end(
        self,
        job_id: str,
        status: str,
        error: QuireError | None,
        unit: str,
        epoch: int,
        *,
        only: JobStatus | None = None,
    ) -> list[Any]:
        shown = as_json(error.as_dict()) if error else ""
        now = now_ms(self._clock)
        answer: list[Any] = await self._run(
            "end", job_id, status, now, self._ttl_ms(), shown, unit, epoch, only.value if only else ""
        )
        if answer[0] == 1:
            await self.after_end(job_id, None, answer[1:], now)
        return answer

    async def after_end(self, job_id: str, epoch: int | None, units: Sequence[str], ended_ms: int) -> None:
        """Queues the units that follow a job's end; without any, removes the job from the active index."""
        await self.observer.ended(job_id)
        if not units:
            await self.stop_sweeping(job_id, ended_ms / 1000)
            return
        await self.order.leave(job_id, ended_ms)
        if epoch is None:
            found = await self._connection.command("HGET", keys.JobKeys.of(job_id).job, "epoch")
            epoch = int(found or 1)
        await self._queues.put_units(job_id, epoch, units, "")

    async def _queue(
        self,
        job: MainJob,
        epoch: int,
        units: Sequence[str],
        content_ref: str | None = None,
        *,
        described: Sequence[str | None] = (),
    ) -> None:
        ref = job.content_ref if content_ref is None else content_ref
        await self._queues.put_units(
            job.id, epoch, units, ref or "", job.options.priority, described=described
        )

    async def _run(self, name: str, job_id: str, *args: Arg) -> Any:
        return await self._connection.job_script(name, job_id, *args)

    def _ttl_ms(self) -> int:
        return int(self.ttl_s * 1000)

    @property
    def running_ttl_ms(self) -> int:
        return max(self._ttl_ms(), int(_LEAST_RUNNING_TTL_S * 1000))

    def _objects_ms(self) -> int:
        return objects_kept_ms(self._ttl_ms())
