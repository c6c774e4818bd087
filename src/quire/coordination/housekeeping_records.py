"""Jobs of which something is to be deleted before the job itself goes, by when to look at them.

How far the download of a job has come, for whoever asks and whoever follows.

What the housekeeper goes through: running jobs by when to look at them, objects by when to delete them.
"""

from __future__ import annotations

from quire.clock import Clock
from quire.coordination import keys
from quire.coordination.connection import RedisConnection


class Fetches:
    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection

    async def progress(self, job_id: str, epoch: int, token: str, done: int, total: int | None) -> bool:
        """Keeps the figures and tells them as an event; False if this download is no longer wanted."""
        kept = await self._connection.script(
            "job/fetching", keys.JobKeys.of(job_id).all(), epoch, token, done, total or 0
        )
        return bool(kept)


_FIRST_LOOK_S = 2.0


class Retained:
    def __init__(self, connection: RedisConnection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def add(self, job_id: str) -> None:
        """Soon somebody looks at the job; to be called before and after the job is made or made again.

        Before, because the process may die right after; after, because the look may have come too early.
        """
        await self._put(job_id, self._clock.now() + _FIRST_LOOK_S)

    async def due(self, limit: int = 200) -> list[str]:
        now_ms = int(self._clock.now() * 1000)
        return list(
            await self._connection.command("ZRANGEBYSCORE", keys.RETAINED, "-inf", now_ms, "LIMIT", 0, limit)
        )

    async def look_again(self, job_id: str, at_s: float) -> None:
        await self._put(job_id, at_s)

    async def has_objects(self, job_id: str) -> bool:
        """Whether anything of the job may lie in the object plane: it stands on the list of what expires."""
        return await self._connection.command("ZSCORE", keys.EXPIRY, job_id) is not None

    async def forget(self, job_id: str) -> None:
        await self._connection.command("ZREM", keys.RETAINED, job_id)

    async def deleted(self, job_id: str, epoch: int, what: str, key: str) -> bool:
        """Writes down that the job's `original` or `result` is gone; False if the job runs again."""
        done = await self._connection.script("job/deleted", keys.JobKeys.of(job_id).all(), epoch, what, key)
        return bool(done)

    async def _put(self, job_id: str, at_s: float) -> None:
        await self._connection.command("ZADD", keys.RETAINED, int(at_s * 1000), job_id)


class House:
    def __init__(self, connection: RedisConnection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def due_for_a_look(self, limit: int = 500) -> list[str]:
        return await self._due(keys.ACTIVE, limit)

    async def look_again(self, job_id: str, at_s: float) -> None:
        await self._connection.command("ZADD", keys.ACTIVE, "XX", int(at_s * 1000), job_id)

    async def expired(self, limit: int = 50) -> list[str]:
        """Jobs whose objects are to be deleted."""
        return await self._due(keys.EXPIRY, limit)

    async def keep_objects(self, job_id: str, until_s: float) -> None:
        await self._connection.command("ZADD", keys.EXPIRY, "XX", int(until_s * 1000), job_id)

    async def forget_objects(self, job_id: str) -> None:
        await self._connection.command("ZREM", keys.EXPIRY, job_id)

    async def _due(self, key: str, limit: int) -> list[str]:
        now_ms = int(self._clock.now() * 1000)
        return list(await self._connection.command("ZRANGEBYSCORE", key, "-inf", now_ms, "LIMIT", 0, limit))
