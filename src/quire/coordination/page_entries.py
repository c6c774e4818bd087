"""The fields of a page's stream entry that an external dispatcher needs (docs/protocol.md).

They are read from the job when the entry is queued, so a requeued entry has the current attempt. For an expired job
it has the defaults, and its report is answered 404."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.coordination.streams import PAGE_ENTRY_FIELDS, Hint
from quire.domain.job import unit_page


@dataclass(frozen=True, slots=True)
class EngineNames:
    """The providers in their order, and each one's model for each tier."""

    order: tuple[str, ...]
    models: Mapping[str, Mapping[str, str]]

    def preferred(self, engine: str | None) -> tuple[str, ...]:
        """Returns the order with `engine` first, if it is known."""
        if engine not in self.order:
            return self.order
        return (engine, *(name for name in self.order if name != engine))


class PageEntries:
    """Describes pages. `content_url` makes an address of a job's `content_ref`."""

    def __init__(
        self, connection: RedisConnection, engines: EngineNames, content_url: Callable[[str], str]
    ) -> None:
        self._connection = connection
        self._engines = engines
        self._content_url = content_url

    async def describe(
        self, hints: Sequence[Hint], described: Sequence[str | None] = ()
    ) -> list[dict[str, str]]:
        """Returns the further fields of each page's entry: two commands for each job, in one round trip.

        `described` has the values of PAGE_ENTRY_FIELDS if the pages are new ones of one job: nothing is read then.
        """
        if described:
            job = dict(zip(PAGE_ENTRY_FIELDS, described, strict=True))
            return [self._fields(hint, job, None) for hint in hints]
        units: dict[str, list[str]] = {}
        for hint in hints:
            units.setdefault(hint.job_id, []).append(hint.unit)
        commands: list[tuple[str, ...]] = []
        for job_id, pages in units.items():
            of = keys.JobKeys.of(job_id)
            commands += [("HMGET", of.job, *PAGE_ENTRY_FIELDS), ("HMGET", of.work, *pages)]
        answers = await self._connection.commands(commands)
        jobs, works = (
            dict(zip(units, answers[::2], strict=True)),
            dict(zip(units, answers[1::2], strict=True)),
        )
        return [
            self._fields(
                hint,
                dict(zip(PAGE_ENTRY_FIELDS, jobs[hint.job_id], strict=True)),
                works[hint.job_id][units[hint.job_id].index(hint.unit)],
            )
            for hint in hints
        ]

    def _fields(self, hint: Hint, job: Mapping[str, str | None], work: str | None) -> dict[str, str]:
        options, export, vault = (_loaded(job[name]) for name in ("options", "export", "vault"))
        tier = options.get("model_tier") or "primary"
        order = self._engines.preferred(options.get("engine"))
        primary, secondary = (*order, None, None)[:2]
        content = self._content_url(job["content_ref"] or hint.content_ref)
        opts = {
            "vision_mode": "ocr",
            "media_type": job["mime"],
            "deadline_at": int(job["deadline_at"]) / 1000 if job["deadline_at"] else None,
        }
        traced = {"traceparent": job["trace"].partition(" ")[0]} if job["trace"] else {}
        return {
            **traced,
            "doc_id": vault.get("document_id") or export.get("file_id") or hint.job_id,
            "content_ref": f"{content}#page={unit_page(hint.unit)}",
            "engine_pref": json.dumps({"primary": primary, "secondary": secondary}),
            "model_hint": self._engines.models.get(primary or "", {}).get(tier, ""),
            "force_fast": json.dumps(tier == "fast"),
            "opts": json.dumps(opts),
            "attempt": str(int(_loaded(work).get("f", 0)) + 1),
        }


def _loaded(text: str | None) -> dict[str, Any]:
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}
