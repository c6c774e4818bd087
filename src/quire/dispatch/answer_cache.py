"""The cache of AI answers: same page of the same content, same prompt, same model, same settings.

An answer is stored in the object plane; an index in Redis has its key for as long as it is kept. The fingerprint is a
keyed hash that includes the team, so that one team can't find out which documents another team had read.

The name of an answer's object has its expiry and the job that got it, and a marker object beside it names each further
job: the index can be restored from a listing, without an answer that lives longer or that no deletion finds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from quire.coordination.answer_index import AnswerIndex
from quire.errors import MissingError, ObjectsError
from quire.objects.object_store import ObjectStore
from quire.settings import Settings

_ANSWER, _OWNER = "answer", "owner"
_DELETED_LATER_S = 3_600.0


class Expiry(Protocol):
    """Deletes objects after a time; returns when."""

    async def register_objects(self, job_id: str, for_s: float) -> float: ...


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    text: str
    confidence: float | None

    def __repr__(self) -> str:
        return f"CachedAnswer({len(self.text)} characters)"


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What the names of an answer's objects say. `expires_at` is None for an answer of an earlier version."""

    fingerprint: str
    key: str
    expires_at: float | None
    owners: tuple[str, ...]

    @classmethod
    def of(cls, fingerprint: str, names: Iterable[str]) -> StoredAnswer | None:
        """The newest answer among the objects of a fingerprint; None if there is no answer."""
        found: list[tuple[float, str]] = []
        owners: set[str] = set()
        for name in names:
            kind, _, rest = name.partition("-")
            expiry, _, owner = rest.partition("-") if kind == _ANSWER else ("", "", rest)
            if kind == _ANSWER:
                found.append((float(expiry) if expiry.isdecimal() else 0.0, name))
            if owner and kind in (_ANSWER, _OWNER):
                owners.add(owner)
        if not found:
            return None
        expires_at, name = max(found)
        key = f"{_folder(fingerprint)}/{name}"
        return cls(fingerprint, key, expires_at or None, tuple(sorted(owners)))


def _folder(fingerprint: str) -> str:
    return f"jobs/answer-{fingerprint}"


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
                await self._add_receiver(fingerprints[place], owner)
            except (MissingError, ObjectsError):
                continue
            return place, CachedAnswer(data["text"], data["confidence"])
        return None

    async def keep(self, fingerprint: str, answer: CachedAnswer, owner: str | None = None) -> None:
        if not self.ttl_s or not fingerprint:
            return
        # Recorded before anything is stored: the deletion of a document must find all its answers.
        if owner is not None:
            await self.index.add_owner(fingerprint, owner, self.ttl_s)
        # Registered for deletion first: an object that is stored is always deleted at some time.
        deleted_at = await self.expiry.register_objects(
            f"answer-{fingerprint}", self.ttl_s + _DELETED_LATER_S
        )
        key = f"{_folder(fingerprint)}/{_ANSWER}-{int(deleted_at - _DELETED_LATER_S)}-{owner or ''}"
        data = {"text": answer.text, "confidence": answer.confidence}
        # The index first: a stored answer is found even if the process dies now. A key without its object is a miss.
        await self.index.store(fingerprint, key, self.ttl_s)
        await self.objects.put(key, json.dumps(data).encode())

    async def _add_receiver(self, fingerprint: str, owner: str | None) -> None:
        """Records a further job that receives a stored answer, with a marker beside the answer."""
        if owner is not None and not await self.index.has_owner(fingerprint, owner):
            await self.objects.put(f"{_folder(fingerprint)}/{_OWNER}-{owner}", b"")
            await self.index.add_owner(fingerprint, owner, self.ttl_s)


def answers_kept_s(settings: Settings) -> float:
    """Answers of AI hold the text of pages: they are not kept longer than results are."""
    results_s = settings.retention.results_s
    return settings.ai.cache_ttl_s if results_s is None else min(settings.ai.cache_ttl_s, results_s)
