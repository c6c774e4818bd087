"""Restores the index of cached AI answers from the names of their objects, with the expiry and the owners of each."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping

from quire.dispatch.answer_cache import StoredAnswer, answers_kept_s
from quire.pipeline.parts import Parts

_FOLDER = "answer-"
_OBJECTS_OUTLIVE_S = 3_600.0
_AT_ONCE = 200


class AnswerRecovery:
    """Raises CoordinationError. Every call may be repeated: an answer that the index has is left as it is."""

    def __init__(self, parts: Parts) -> None:
        self._jobs = parts.jobs
        self._clock = parts.clock
        self._kept_s = answers_kept_s(parts.settings)

    async def run(self, names: Mapping[str, set[str]]) -> int:
        """Restores the answers among these folders of objects; returns how many the index did not have.

        An answer that has expired, or that the settings no longer allow, is deleted by the housekeeper.
        """
        found = (
            StoredAnswer.of(folder.removeprefix(_FOLDER), names[folder])
            for folder in sorted(names)
            if folder.startswith(_FOLDER)
        )
        stored, restored = (one for one in found if one is not None), 0
        while some := list(itertools.islice(stored, _AT_ONCE)):
            restored += sum(await asyncio.gather(*map(self._restore, some)))
        return restored

    async def _restore(self, answer: StoredAnswer) -> bool:
        left_s = self._kept_s
        if answer.expires_at is not None:
            left_s = min(left_s, answer.expires_at - self._clock.now())
        await self._jobs.register_objects(
            f"{_FOLDER}{answer.fingerprint}", left_s + _OBJECTS_OUTLIVE_S if left_s > 0 else 0.0
        )
        if left_s <= 0:
            return False
        for owner in answer.owners:  # first: a deletion must find every answer that the index has
            await self._jobs.answers.add_owner(answer.fingerprint, owner, self._kept_s)
        return await self._jobs.answers.restore(answer.fingerprint, answer.key, left_s)
