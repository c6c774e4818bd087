"""Puts jobs back into Redis that were lost from it, from fields that were kept elsewhere."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from quire.clock import Clock, now_ms
from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import objects_kept_ms
from quire.coordination.streams import Queues
from quire.domain.job import JobPriority, JobStatus

_FIRST_SWEEP_MS = 15_000
_WITHOUT_RESULT = frozenset({JobStatus.FAILED.value, JobStatus.CANCELLED.value})


class RecoveredJobs:
    """Raises CoordinationError. Every call may be repeated: a job that is there is left as it is."""

    def __init__(self, connection: RedisConnection, queues: Queues, clock: Clock, ttl_s: float) -> None:
        self._connection = connection
        self._queues = queues
        self._clock = clock
        self._ttl_ms = int(ttl_s * 1000)
        self._objects_ms = objects_kept_ms(self._ttl_ms)

    async def known(self, job_ids: Sequence[str]) -> set[str]:
        """Those of these jobs that Redis has, or that were deleted on purpose lately."""
        there = await self._connection.commands(("EXISTS", keys.JobKeys.of(one).job) for one in job_ids)
        # Asked afterwards: a job that is deleted meanwhile has its mark before it goes.
        gone = await self._connection.commands(("EXISTS", keys.removed_job(one)) for one in job_ids)
        return {one for one, here, deleted in zip(job_ids, there, gone, strict=True) if here or deleted}

    async def sweep_soon(self, job_ids: Sequence[str]) -> None:
        """Has the housekeeper check jobs that have not ended by their journal: their queue entries may be lost."""
        now = now_ms(self._clock)
        await self._connection.commands(("ZADD", keys.ACTIVE, "NX", now, one) for one in job_ids)

    async def restore_finished(self, job_id: str, fields: Mapping[str, str]) -> bool:
        """Restores the record of a job that has ended, for the rest of its time; False if that is over."""
        ended = int(float(fields.get("completed_at") or 0))
        left = ended + self._ttl_ms - now_ms(self._clock)
        if left <= 0:
            await self.forget(job_id)
            return False
        await self._index(job_id, fields, ended + self._objects_ms)
        return bool(await self._connection.job_script("revive", job_id, left, *_flat(fields)))

    async def restore_accepted(self, job_id: str, fields: Mapping[str, str]) -> bool:
        """Creates a job again that was accepted and had not ended; it starts from the beginning."""
        now = now_ms(self._clock)
        await self._connection.commands(
            [("ZADD", keys.ACTIVE, now + _FIRST_SWEEP_MS, job_id), ("ZADD", keys.ORDER, "NX", now, job_id)]
        )
        await self._index(job_id, fields, now + self._objects_ms)
        content_ref = fields.get("content_ref", "")
        first = "split" if content_ref else "download"
        ttl_ms = max(self._ttl_ms, 86_400_000)
        call = fields.get("call") or secrets.token_hex(4)
        kept = {name: value for name, value in fields.items() if name != "call"}
        answer = await self._connection.job_script("create", job_id, now, ttl_ms, first, call, *_flat(kept))
        if answer[0] == 1:
            priority = JobPriority(fields.get("priority") or JobPriority.NORMAL)
            await self._queues.put_units(job_id, 1, [first], content_ref, priority)
        return bool(answer[0] == 1)

    async def is_result_deleted(self, job_id: str) -> bool:
        """Whether retention has deleted the result."""
        return bool(await self._connection.command("HEXISTS", keys.JobKeys.of(job_id).job, "result.deleted"))

    async def forget(self, job_id: str) -> None:
        """Has the housekeeper delete the objects of a job that there is no record of."""
        await self._connection.command("ZADD", keys.EXPIRY, "NX", now_ms(self._clock), job_id)

    async def _index(self, job_id: str, fields: Mapping[str, str], objects_until: int) -> None:
        team, created = fields["team"], int(float(fields.get("created_at") or now_ms(self._clock)))
        await self._connection.commands(
            [
                ("ZADD", keys.EXPIRY, objects_until, job_id),
                ("ZADD", keys.index(team), "NX", created, job_id),
                ("PEXPIRE", keys.index(team), self._objects_ms),
                *self._registration(job_id, fields),
            ]
        )

    def _registration(self, job_id: str, fields: Mapping[str, str]) -> list[tuple[str | int, ...]]:
        """Registers the job for its content, for dedupe, unless another one is registered by now.

        One without a result is left out: it would keep the place of one that has a result.
        """
        fingerprint = fields.get("fingerprint")
        if not fingerprint or not fields.get("sha256") or fields.get("status") in _WITHOUT_RESULT:
            return []
        place = keys.dedup(fields["team"], fingerprint)
        return [("SET", place, job_id, "NX", "PX", self._ttl_ms)]


def _flat(fields: Mapping[str, str]) -> list[str]:
    return [part for pair in fields.items() for part in pair]
