"""The index of cached AI answers in Redis: fingerprint to object key, and the fingerprints of each job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.coordination import keys
from quire.coordination.connection import RedisConnection

_OWNER_EXTRA_MS = 3_600_000
"""The list of an owner's answers is kept longer than the answers, so that a deletion finds all of them."""


@dataclass(frozen=True, slots=True)
class AnswerIndex:
    """Raises CoordinationError during an outage of the server."""

    connection: RedisConnection

    async def find(self, fingerprints: Sequence[str]) -> list[str | None]:
        """Returns for each fingerprint the key of the object with its answer, or None."""
        return await self.connection.commands(("GET", keys.ai_answer(one)) for one in fingerprints)

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
        await self.connection.commands(
            [("SADD", key, fingerprint), ("PEXPIRE", key, int(ttl_s * 1000) + _OWNER_EXTRA_MS)]
        )
