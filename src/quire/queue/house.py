"""What the housekeeper goes through: running jobs by when to look at them, objects by when to delete them."""

from __future__ import annotations

from quire.clock import Clock
from quire.queue import keys
from quire.queue.connection import Connection


class House:
    def __init__(self, connection: Connection, clock: Clock) -> None:
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
