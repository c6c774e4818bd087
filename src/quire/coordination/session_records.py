"""Sign-in attempts and ended sessions of the dashboard, shared by all replicas."""

from __future__ import annotations

import hashlib
import math

from quire.clock import Clock, now_ms
from quire.coordination import keys
from quire.coordination.connection import RedisConnection


class SessionRecords:
    """Kept in Redis, so that every replica sees them and a restart keeps them. Raises CoordinationError."""

    def __init__(self, connection: RedisConnection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def attempt(self, client: str, a_minute: int) -> float:
        """Counts one attempt of this client. Returns 0 if it is allowed, else the seconds until the next one is."""
        name = hashlib.sha256(client.encode()).hexdigest()[:32]
        wait_ms: int = await self._connection.script(
            "parse/rate", [keys.login_attempts(name)], now_ms(self._clock), a_minute
        )
        return wait_ms / 1000

    async def end(self, session_id: str, for_s: float) -> None:
        """Revokes the session in all replicas for the rest of its lifetime."""
        await self._connection.command(
            "SET", keys.ended_session(session_id), 1, "EX", max(1, math.ceil(for_s))
        )

    async def ended(self, session_id: str) -> bool:
        return bool(await self._connection.command("EXISTS", keys.ended_session(session_id)))
