"""The indexes that the housekeeper works through, and the progress of downloads.

The indexes hold running jobs by their next sweep, objects by their expiry, and jobs by their next retention check.
"""

from __future__ import annotations

from collections import OrderedDict

from quire.clock import Clock, now_ms
from quire.coordination import keys
from quire.coordination.connection import RedisConnection

_SCHEDULED_AGAIN_S = 5.0
_DEADLINES_KNOWN = 1000


class Fetches:
    """The progress of downloads."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection

    async def progress(self, job_id: str, epoch: int, token: str, done: int, total: int | None) -> bool:
        """Stores the progress of a download and publishes it as an event; False if the claim is no longer valid."""
        kept = await self._connection.job_script("fetching", job_id, epoch, token, done, total or 0)
        return bool(kept)


class QueueOrder:
    """Documents that have not ended, in the order in which they were queued."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection

    async def position(self, job_id: str) -> int | None:
        """1 for the document that was queued first; None if it has ended."""
        rank = await self._connection.command("ZRANK", keys.ORDER, job_id)
        return None if rank is None else int(rank) + 1

    async def count(self) -> int:
        return int(await self._connection.command("ZCARD", keys.ORDER))

    async def leave(self, job_id: str, over_at_ms: int) -> None:
        """The documents behind it move up, unless a retry has queued it again."""
        await self._connection.script("plain/cancel_look", [keys.ORDER], job_id, over_at_ms + 1)


class SweepSchedule:
    """Sweeps that must not be later than a deadline."""

    def __init__(self, connection: RedisConnection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._scheduled: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def sweep_by(self, job_id: str, deadline_at: float | None) -> None:
        """Schedules the job's next sweep for its deadline at the latest."""
        if deadline_at is None:
            return
        # Repeated from time to time: a sweep at the same moment may have postponed the next one.
        known = deadline_at, self._clock.monotonic() // _SCHEDULED_AGAIN_S
        if self._scheduled.get(job_id) == known:
            return
        await self._connection.command("ZADD", keys.ACTIVE, "XX", "LT", int(deadline_at * 1000), job_id)
        self._scheduled[job_id] = known
        while len(self._scheduled) > _DEADLINES_KNOWN:
            self._scheduled.popitem(last=False)


_FIRST_CHECK_S = 2.0


class Retained:
    """Jobs whose original or result is to be deleted before the job itself, by their next check."""

    def __init__(self, connection: RedisConnection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def add(self, job_id: str) -> None:
        """Schedules a retention check soon. Call it before and after the job is created or retried:

        before, because the process may die right after; after, because the first check may have come too early.
        """
        await self._put(job_id, self._clock.now() + _FIRST_CHECK_S)

    async def due(self, limit: int = 200) -> list[str]:
        now = now_ms(self._clock)
        return list(
            await self._connection.command("ZRANGEBYSCORE", keys.RETAINED, "-inf", now, "LIMIT", 0, limit)
        )

    async def check_again(self, job_id: str, at_s: float) -> None:
        await self._put(job_id, at_s)

    async def has_objects(self, job_id: str) -> bool:
        """Whether the job may have objects: it is in the expiry index."""
        return await self._connection.command("ZSCORE", keys.EXPIRY, job_id) is not None

    async def forget(self, job_id: str) -> None:
        await self._connection.command("ZREM", keys.RETAINED, job_id)

    async def deleted(self, job_id: str, epoch: int, what: str, key: str) -> bool:
        """Records that the job's `original` or `result` was deleted; False if the job runs again."""
        done = await self._connection.job_script("deleted", job_id, epoch, what, key)
        return bool(done)

    async def _put(self, job_id: str, at_s: float) -> None:
        await self._connection.command("ZADD", keys.RETAINED, int(at_s * 1000), job_id)


class HousekeepingRecords:
    """Running jobs by their next sweep, objects by their expiry."""

    def __init__(self, connection: RedisConnection, clock: Clock) -> None:
        self.connection = connection
        self._clock = clock

    async def due_for_sweep(self, limit: int = 500) -> list[str]:
        return await self._due(keys.ACTIVE, limit)

    async def sweep_again(self, job_id: str, at_s: float) -> None:
        await self.connection.command("ZADD", keys.ACTIVE, "XX", int(at_s * 1000), job_id)

    async def expired(self, limit: int = 50) -> list[str]:
        """Jobs whose objects are to be deleted."""
        return await self._due(keys.EXPIRY, limit)

    async def keep_objects(self, job_id: str, until_s: float) -> None:
        await self.connection.command("ZADD", keys.EXPIRY, "XX", int(until_s * 1000), job_id)

    async def forget_objects(self, job_id: str) -> None:
        await self.connection.command("ZREM", keys.EXPIRY, job_id)

    async def _due(self, key: str, limit: int) -> list[str]:
        now = now_ms(self._clock)
        return list(await self.connection.command("ZRANGEBYSCORE", key, "-inf", now, "LIMIT", 0, limit))
