"""The cache of AI answers: same page of the same content, same prompt, same model, same settings.

An answer is stored in the object plane; an index in Redis has its key for as long as it is kept. The fingerprint is a
keyed hash that includes the team, so that one team can't find out which documents another team had read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quire.coordination.answer_index import AnswerIndex
from quire.errors import MissingError, ObjectsError
from quire.objects.object_store import ObjectStore
from quire.settings import Settings


class Expiry(Protocol):
    """Deletes objects after a time."""

    async def register_objects(self, job_id: str, for_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    text: str
    confidence: float | None

    def __repr__(self) -> str:
        return f"CachedAnswer({len(self.text)} characters)"


@dataclass(frozen=True, slots=True)
class AnswerCache:
    """With `ttl_s` 0 nothing is cached."""

    index: AnswerIndex
    objects: ObjectStore
    expiry: Expiry
    ttl_s: float

    async def find(
        self, fingerprints: Sequence[str], owner: str | None = None
    ) -> tuple[int, CachedAnswer] | None:
        """Returns the first cached answer and its position. `owner` is the vault document's job that receives it."""
        if not self.ttl_s or not fingerprints:
            return None
        for place, key in enumerate(await self.index.find(fingerprints)):
            if not key:
                continue
            try:
                data = json.loads(await self.objects.get(key))
            except (MissingError, ObjectsError):
                continue
            await self._add_owner(fingerprints[place], owner)
            return place, CachedAnswer(data["text"], data["confidence"])
        return None

    async def keep(self, fingerprint: str, answer: CachedAnswer, owner: str | None = None) -> None:
        if not self.ttl_s or not fingerprint:
            return
        await self._add_owner(fingerprint, owner)
        folder = f"answer-{fingerprint}"
        key = f"jobs/{folder}/answer"
        # Registered for deletion first: an object that is stored is always deleted at some time.
        await self.expiry.register_objects(folder, self.ttl_s + 3_600)
        data = {"text": answer.text, "confidence": answer.confidence}
        await self.objects.put(key, json.dumps(data).encode())
        await self.index.store(fingerprint, key, self.ttl_s)

    async def _add_owner(self, fingerprint: str, owner: str | None) -> None:
        """Recorded before anything is stored: the deletion of a document must find all its answers."""
        if owner is not None:
            await self.index.add_owner(fingerprint, owner, self.ttl_s)


def answers_kept_s(settings: Settings) -> float:
    """Answers of AI hold the text of pages: they are not kept longer than results are."""
    results_s = settings.retention.results_s
    return settings.ai.cache_ttl_s if results_s is None else min(settings.ai.cache_ttl_s, results_s)
