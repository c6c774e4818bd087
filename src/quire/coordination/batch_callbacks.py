"""The Redis records of batches that wait to call back: when to look at them next, and how often a call failed."""

from __future__ import annotations

from quire.clock import Clock, now_ms
from quire.coordination import keys
from quire.coordination.connection import RedisConnection

_ATTEMPTS_KEPT_MS = 7 * 86_400_000
_LONGEST_CLAIM_MS = 120_000


class BatchCallbacks:
    """An entry leaves when its callback was delivered or given up, or when its batch no longer exists."""

    def __init__(self, connection: RedisConnection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def add(self, batch_id: str) -> None:
        await self._connection.command("ZADD", keys.BATCH_CALLBACKS, "NX", now_ms(self._clock), batch_id)

    async def due(self, limit: int = 20) -> list[str]:
        now = now_ms(self._clock)
        found = await self._connection.command(
            "ZRANGEBYSCORE", keys.BATCH_CALLBACKS, "-inf", now, "LIMIT", 0, limit
        )
        return list(found)

    async def claim(self, batch_id: str) -> bool:
        """Whether this process may look at the batch now; the claim of a process that dies expires."""
        key = keys.batch_claim(batch_id)
        return bool(await self._connection.command("SET", key, "1", "NX", "PX", _LONGEST_CLAIM_MS))

    async def again(self, batch_id: str, in_s: float) -> None:
        """Ends the claim; the batch is due again after in_s."""
        at = now_ms(self._clock) + int(in_s * 1000)
        await self._connection.command("ZADD", keys.BATCH_CALLBACKS, "XX", at, batch_id)
        await self._connection.command("DEL", keys.batch_claim(batch_id))

    async def failed(self, batch_id: str) -> int:
        """Counts a failed call; returns how many there were."""
        key = keys.batch_attempts(batch_id)
        count, _ = await self._connection.commands([("INCR", key), ("PEXPIRE", key, _ATTEMPTS_KEPT_MS)])
        return int(count)

    async def remove(self, batch_id: str) -> None:
        await self._connection.command("ZREM", keys.BATCH_CALLBACKS, batch_id)
        await self._connection.commands(
            [("DEL", keys.batch_attempts(batch_id)), ("DEL", keys.batch_claim(batch_id))]
        )
