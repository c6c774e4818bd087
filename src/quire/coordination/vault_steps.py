"""The step jobs of vault documents (classify, embed) in Redis, and the vault's events and deletion marks.

A step's id is made of team and document, so it exists once. A step belongs to an attempt: starting it again for the
same attempt does nothing, starting it for a later one makes results of the earlier one stale.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

from quire.clock import Clock, now_ms
from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import Claim
from quire.coordination.job_store import JobStore
from quire.coordination.streams import Hint, Queues
from quire.domain.job import (
    JobOptions,
    JobType,
    MainJob,
    UnitKind,
    VaultLink,
    conversion_job_id,
    step_job_id,
)
from quire.domain.payer import Payer

_FOLLOWED = (JobType.CLASSIFY,)
"""Steps whose end advances the document."""
_FIRST_CHECK_S = 15.0
_EVENTS_KEPT = 1_000
_EVENTS_KEPT_S = 86_400
_RATE_KEPT_S = 5
_COMPARED_AT_ONCE = 500
_RUN_KEPT_S = 400 * 86_400


_KINDS = tuple(kind for kind in UnitKind if kind.name.startswith(("VAULT", "CLASSIFY", "EMBED")))
"""The kinds of units that documents of the vault have beside their conversion."""


class Steps:
    def __init__(self, connection: RedisConnection, queues: Queues, jobs: JobStore, clock: Clock) -> None:
        self._connection = connection
        self._queues = queues
        self._jobs = jobs
        self._clock = clock

    async def start(
        self,
        step: JobType,
        link: VaultLink,
        filename: str,
        *,
        image: bool = False,
        payer: Payer | None = None,
    ) -> bool:
        """Starts a step for the link's attempt; False if it was started before for this or a later attempt."""
        job_id = step_job_id(step, link.team, link.document_id, image=image)
        unit = UnitKind.CLASSIFY_IMAGE.value if image else step.value
        now = now_ms(self._clock)
        # Registered for the housekeeper first: it finds a step that was created but never queued.
        check_at = now + int(_FIRST_CHECK_S * 1000)
        await self._connection.command("ZADD", keys.ACTIVE, check_at, job_id)
        fields = {
            "team": link.team,
            "type": step.value,
            "vault": json.dumps(link.as_dict()),
            "follow": "1" if step in _FOLLOWED else "0",
            "options": json.dumps(JobOptions().as_dict()),
            "source": json.dumps({"kind": "vault", "document_id": link.document_id}),
            "filename": filename,
            "payer": payer.as_text() if payer else "",
        }
        flat = [part for pair in fields.items() for part in pair]
        started, epoch = await self._script(
            "step", job_id, unit, link.attempt, now, self._jobs.running_ttl_ms, *flat
        )
        if started:
            await self._queues.put([Hint(job_id, unit, int(epoch))])
        else:
            # If it has ended, the housekeeper drops it from the set at its next visit.
            await self._connection.command("ZADD", keys.ACTIVE, "XX", "LT", now, job_id)
        return bool(started)

    async def get(self, step: JobType, team: str, document_id: str, *, image: bool = False) -> MainJob | None:
        return await self._jobs.get(step_job_id(step, team, document_id, image=image))

    async def start_delay_s(self, per_second: int) -> float:
        """Counts the start of a job; returns 0 if it may run now, else the time to wait for a free second."""
        now_s = self._clock.now()
        key = keys.vault_rate(int(now_s))
        count, _ = await self._connection.commands([("INCR", key), ("EXPIRE", key, _RATE_KEPT_S)])
        behind = (int(count) - 1) // per_second
        return behind - now_s % 1 if behind else 0.0

    async def done(
        self, claim: Claim, *, tokens_in: int = 0, tokens_out: int = 0, cost_usd: float = 0.0
    ) -> bool:
        """Completes the step; False if its epoch has passed."""
        claim.outcome_write.begun = True
        now = now_ms(self._clock)
        answer = await self._script(
            *(
                "step_done",
                claim.job.id,
                claim.hint.unit,
                claim.hint.epoch,
                now,
                int(self._jobs.ttl_s * 1000),
            ),
            *(tokens_in, tokens_out, round(cost_usd * 1_000_000)),
        )
        if answer[0]:
            await self._jobs.after_end(claim.job.id, claim.hint.epoch, answer[1:], now)
        return bool(answer[0])

    async def reseal(self, job_id: str, sealed: str) -> None:
        """Replaces the sealed secrets of a conversion, for its next epoch."""
        await self._script("reseal", job_id, sealed)

    async def forget(self, team: str, document_id: str) -> None:
        """Removes a document's jobs, units, pages and events from Redis."""
        main = conversion_job_id(team, document_id)
        ids = [main, *step_ids(team, document_id)]
        for one in ids:
            await self._jobs.cancel(one)
        await self._queues.remove_dead_letters_of(ids)
        await self._queues.remove_delayed_of(ids, _KINDS)
        commands: list[tuple[str | int, ...]] = [("ZREM", keys.index(team), main)]
        for one in ids:
            commands += [("DEL", key) for key in (*keys.JobKeys.of(one).all(), keys.ai_pages(one))]
            commands += [("ZREM", index, one) for index in (keys.ACTIVE, keys.RETAINED)]
        commands += [("DEL", keys.vault_revivals(team, document_id))]
        await self._connection.commands(commands)

    # ---- lost documents --------------------------------------------------------------------------------------

    async def conversions(self) -> AsyncIterator[list[str]]:
        """The conversions of documents that Redis has, some at a time."""
        cursor: str | int = 0
        while True:
            cursor, found = await self._connection.command(
                "ZSCAN", keys.EXPIRY, cursor, "COUNT", _COMPARED_AT_ONCE
            )
            job_ids = list(found[::2])
            links = await self._connection.commands(
                ("HGET", keys.JobKeys.of(one).job, "vault") for one in job_ids
            )
            yield [one for one, link in zip(job_ids, links, strict=True) if link]
            if int(cursor) == 0:
                return

    async def compared_run(self) -> str:
        return str(await self._connection.command("GET", keys.CATALOG_RUN) or "")

    async def set_compared_run(self, run: str) -> None:
        await self._connection.command("SET", keys.CATALOG_RUN, run, "EX", _RUN_KEPT_S)

    # ---- deleted documents -----------------------------------------------------------------------------------

    async def mark_deleted(self, job_id: str) -> None:
        """Marks a document as deleted. Its objects are removed only with this mark: a missing row proves nothing.

        The mark is kept for a day, because a worker that holds the document may still write an object.
        """
        await self._connection.command("SET", keys.vault_deleted(job_id), 1, "EX", _EVENTS_KEPT_S)

    async def is_deleted(self, job_id: str) -> bool:
        return bool(await self._connection.command("EXISTS", keys.vault_deleted(job_id)))

    # ---- words of deleted documents --------------------------------------------------------------------------

    async def mark_untidy(self) -> None:
        await self._connection.command(
            "SET", keys.VAULT_UNTIDY, secrets.token_hex(6), "EX", 7 * _EVENTS_KEPT_S
        )

    async def untidy(self) -> str:
        """Returns the mark of the latest deletion whose words are still in the full-text index; '' if there is none."""
        return str(await self._connection.command("GET", keys.VAULT_UNTIDY) or "")

    async def is_tidy(self, mark: str) -> None:
        """Clears the mark, unless a later deletion has replaced it."""
        await self._connection.script("plain/swap_value", [keys.VAULT_UNTIDY], mark, "", 0)

    # ---- objects and revivals --------------------------------------------------------------------------------

    async def expire_at(self, job_id: str, at_s: float) -> None:
        """Schedules the housekeeper to check at this time whether the job's objects are still needed."""
        await self._connection.command("ZADD", keys.EXPIRY, int(at_s * 1000), job_id)

    async def count_revival(self, team: str, document_id: str, attempt: int, apart_s: float) -> int | None:
        """Counts a resumption of this attempt and returns the count; None if one was counted less than apart_s ago.

        The vault sweepers of all processes see the same stale document: only one of them is to resume it.
        """
        claim = keys.vault_revived(team, document_id, attempt)
        if not await self._connection.command("SET", claim, 1, "NX", "PX", max(1, int(apart_s * 1000))):
            return None
        key = keys.vault_revivals(team, document_id)
        count, _ = await self._connection.commands(
            [("HINCRBY", key, str(attempt), 1), ("EXPIRE", key, _EVENTS_KEPT_S)]
        )
        return int(count)

    # ---- events for dashboards -------------------------------------------------------------------------------

    async def publish_change(self, team: str, document_id: str, status: str, attempt: int) -> None:
        """Publishes that a document has changed; the event has no content of the document."""
        key = keys.JobKeys.of(vault_events_id(team)).events
        data = {
            "document_id": document_id,
            "status": status,
            "attempt": attempt,
            "at": round(self._clock.now(), 3),
        }
        entry = await self._connection.command(
            "XADD", key, "MAXLEN", "~", _EVENTS_KEPT, "*", "t", "document", "d", json.dumps(data)
        )
        await self._connection.commands([("EXPIRE", key, _EVENTS_KEPT_S), ("PUBLISH", key, entry)])

    async def latest_event_id(self, team: str) -> str:
        """Returns the id of the latest event, after which a new listener starts."""
        key = keys.JobKeys.of(vault_events_id(team)).events
        rows = await self._connection.command("XREVRANGE", key, "+", "-", "COUNT", 1)
        return str(rows[0][0]) if rows else "0-0"

    async def remove_events(self, team: str, document_id: str) -> None:
        """Removes a document's events."""
        key = keys.JobKeys.of(vault_events_id(team)).events
        rows = await self._connection.command("XRANGE", key, "-", "+", "COUNT", 2 * _EVENTS_KEPT)
        gone = [entry for entry, fields in rows if document_id in str(fields)]
        if gone:
            await self._connection.command("XDEL", key, *gone)

    async def _script(self, name: str, job_id: str, *args: str | int) -> Any:
        return await self._connection.job_script(name, job_id, *args)


def step_ids(team: str, document_id: str) -> tuple[str, ...]:
    """Returns the ids of all step jobs that a document may have."""
    return (
        step_job_id(JobType.CLASSIFY, team, document_id),
        step_job_id(JobType.CLASSIFY, team, document_id, image=True),
        step_job_id(JobType.EMBED, team, document_id),
    )


def vault_events_id(team: str) -> str:
    """Returns the id under which `Events` stores the events of a team's vault."""
    return f"vault_{team}"
