"""Answers that were paid for once: same page of the same content, same words, same model, same settings.

An answer lies in the object plane; a small key in Redis says where, for as long as it is kept. The fingerprint is
keyed and holds the team, so that nobody can find out by trying what others have had read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.errors import MissingError, ObjectsError
from quire.objects.object_store import ObjectStore


class Expiry(Protocol):
    """Whoever deletes objects when their time is up."""

    async def expect_objects(self, job_id: str, for_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    text: str
    confidence: float | None

    def __repr__(self) -> str:
        return f"CachedAnswer({len(self.text)} characters)"


@dataclass(frozen=True, slots=True)
class AnswerCache:
    connection: RedisConnection
    objects: ObjectStore
    expiry: Expiry
    ttl_s: float

    async def find(
        self, fingerprints: Sequence[str], owner: str | None = None
    ) -> tuple[int, CachedAnswer] | None:
        """The first that is known, and its place. `owner` is the vault document's job that is served by it."""
        if not self.ttl_s or not fingerprints:
            return None
        found = await self.connection.commands(("GET", keys.ai_answer(one)) for one in fingerprints)
        for place, key in enumerate(found):
            if not key:
                continue
            try:
                data = json.loads(await self.objects.get(key))
            except (MissingError, ObjectsError):
                continue
            await self._belongs(fingerprints[place], owner)
            return place, CachedAnswer(data["text"], data["confidence"])
        return None

    async def keep(self, fingerprint: str, answer: CachedAnswer, owner: str | None = None) -> None:
        if not self.ttl_s or not fingerprint:
            return
        await self._belongs(fingerprint, owner)
        folder = f"answer-{fingerprint}"
        key = f"jobs/{folder}/answer"
        # Known to the housekeeper first: what is stored can't be forgotten.
        await self.expiry.expect_objects(folder, self.ttl_s + 3_600)
        data = {"text": answer.text, "confidence": answer.confidence}
        await self.objects.put(key, json.dumps(data).encode())
        await self.connection.command("SET", keys.ai_answer(fingerprint), key, "PX", int(self.ttl_s * 1000))

    async def _belongs(self, fingerprint: str, owner: str | None) -> None:
        """Remembered before anything is stored: a document that is deleted takes its answers with it."""
        if owner is not None:
            key = keys.ai_answers_of(owner)
            await self.connection.commands(
                [("SADD", key, fingerprint), ("PEXPIRE", key, int(self.ttl_s * 1000) + 3_600_000)]
            )
