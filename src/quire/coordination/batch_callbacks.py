"""Owns the Redis records of batches that wait to call back: when each is due, and how often a try was in vain."""

from __future__ import annotations

from quire.clock import Clock, now_ms
from quire.coordination import keys
from quire.coordination.connection import RedisConnection

CLAIM_S = 120.0
_COUNTS_KEPT_MS = 7 * 86_400_000


class BatchCallbacks:
    """An entry leaves when its callback was delivered or given up, or when its batch does not exist.

    The entry is written before its batch is stored, due only some time later. So a process that dies between the two
    leaves either an entry without a batch, which is removed, or a batch whose callback is sent a little late.
    """

    def __init__(self, connection: RedisConnection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def add(self, batch_id: str, in_s: float) -> None:
        """Makes the batch due after in_s; an entry that exists is moved."""
        await self._connection.command("ZADD", keys.BATCH_CALLBACKS, self._in_ms(in_s), batch_id)

    async def restore(self, batch_id: str) -> bool:
        """Makes a batch due whose entry was lost; False if there is an entry."""
        now = now_ms(self._clock)
        return bool(await self._connection.command("ZADD", keys.BATCH_CALLBACKS, "NX", now, batch_id))

    async def due(self, limit: int) -> list[str]:
        """The batches that are due and not claimed, the longest due first."""
        now = now_ms(self._clock)
        found = await self._connection.command(
            "ZRANGEBYSCORE", keys.BATCH_CALLBACKS, "-inf", now, "LIMIT", 0, limit
        )
        return list(found)

    async def claim(self, batch_id: str) -> bool:
        """Whether this process may check the batch now. A claim expires with CLAIM_S; until then it is not due."""
        key = keys.batch_claim(batch_id)
        claimed = await self._connection.command("SET", key, "1", "NX", "PX", int(CLAIM_S * 1000))
        if claimed:
            await self._connection.command("ZADD", keys.BATCH_CALLBACKS, "XX", self._in_ms(CLAIM_S), batch_id)
        return bool(claimed)

    async def renew(self, batch_id: str) -> None:
        """Lengthens the claim."""
        key = keys.batch_claim(batch_id)
        await self._connection.command("SET", key, "1", "PX", int(CLAIM_S * 1000))
        await self._connection.command("ZADD", keys.BATCH_CALLBACKS, "XX", self._in_ms(CLAIM_S), batch_id)

    async def again(self, batch_id: str, in_s: float) -> None:
        """Ends the claim; the batch is due again after in_s."""
        await self._connection.command("ZADD", keys.BATCH_CALLBACKS, "XX", self._in_ms(in_s), batch_id)
        await self._connection.command("DEL", keys.batch_claim(batch_id))

    async def failed(self, batch_id: str) -> int:
        """Counts a failed call; returns how many there were."""
        return await self._count(keys.batch_attempts(batch_id))

    async def missed(self, batch_id: str) -> int:
        """Counts a check that found the batch, or some of its jobs, missing; returns how many there were."""
        return await self._count(keys.batch_misses(batch_id))

    async def remove(self, batch_id: str) -> None:
        await self._connection.command("ZREM", keys.BATCH_CALLBACKS, batch_id)
        owned = (keys.batch_attempts(batch_id), keys.batch_misses(batch_id), keys.batch_claim(batch_id))
        await self._connection.commands([("DEL", key) for key in owned])

    async def _count(self, key: str) -> int:
        count, _ = await self._connection.commands([("INCR", key), ("PEXPIRE", key, _COUNTS_KEPT_MS)])
        return int(count)

    def _in_ms(self, in_s: float) -> int:
        return now_ms(self._clock) + int(in_s * 1000)
