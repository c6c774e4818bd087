"""The index of cached AI answers in Redis: fingerprint to object key, and the fingerprints of each job."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Sequence

from quire.coordination import keys
from quire.coordination.connection import RedisConnection

_TTL_SET_EVERY_S = 60.0
_OWNER_EXTRA_S = (2 * _TTL_SET_EVERY_S, 3600.0)
"""The list of an owner's answers outlives the answers by as long again, within these bounds, so that a deletion finds
all of them."""
_OWNERS_KNOWN = 1000


class AnswerIndex:
    """Raises CoordinationError during an outage of the server."""

    def __init__(self, connection: RedisConnection) -> None:
        self.connection = connection
        self._ttl_set_at: OrderedDict[str, float] = OrderedDict()

    async def find(self, fingerprints: Sequence[str]) -> list[str | None]:
        """Returns for each fingerprint the key of the object with its answer, or None."""
        names = [keys.ai_answer(one) for one in fingerprints]
        if self.connection.is_cluster:  # they are on different nodes
            return await self.connection.commands(("GET", name) for name in names)
        return list(await self.connection.command("MGET", *names))

    async def store(self, fingerprint: str, object_key: str, ttl_s: float) -> None:
        await self.connection.command("SET", keys.ai_answer(fingerprint), object_key, "PX", int(ttl_s * 1000))

    async def of(self, owner: str) -> list[str]:
        """Returns the fingerprints of the answers that a job got."""
        return sorted(await self.connection.command("SMEMBERS", keys.ai_answers_of(owner)))

    async def forget(self, owner: str, fingerprints: Sequence[str]) -> None:
        """Removes a job's answers from the index; the caller deletes their objects."""
        commands: list[tuple[str | int, ...]] = [("DEL", keys.ai_answer(one)) for one in fingerprints]
        commands += [("ZREM", keys.EXPIRY, f"answer-{one}") for one in fingerprints]
        await self.connection.commands([*commands, ("DEL", keys.ai_answers_of(owner))])

    async def has_owner(self, fingerprint: str, owner: str) -> bool:
        return bool(await self.connection.command("SISMEMBER", keys.ai_answers_of(owner), fingerprint))

    async def restore(self, fingerprint: str, object_key: str, ttl_s: float) -> bool:
        """Adds an answer whose object is stored, unless the index has it; returns whether it was missing."""
        key, ttl_ms = keys.ai_answer(fingerprint), int(ttl_s * 1000)
        return bool(await self.connection.command("SET", key, object_key, "NX", "PX", ttl_ms))

    async def add_owner(self, fingerprint: str, owner: str, ttl_s: float) -> None:
        """Records that the job `owner` got this answer: when its document is deleted, the answer is deleted."""
        key = keys.ai_answers_of(owner)
        commands: list[tuple[str | int, ...]] = [("SADD", key, fingerprint)]
        now = asyncio.get_running_loop().time()
        is_due = now - self._ttl_set_at.get(owner, -math.inf) >= _TTL_SET_EVERY_S
        if is_due:
            least_s, most_s = _OWNER_EXTRA_S
            kept_s = ttl_s + min(max(ttl_s, least_s), most_s)
            commands.append(("PEXPIRE", key, int(kept_s * 1000)))
        await self.connection.commands(commands)
        if is_due:
            self._ttl_set_at[owner] = now
            while len(self._ttl_set_at) > _OWNERS_KNOWN:
                self._ttl_set_at.popitem(last=False)
