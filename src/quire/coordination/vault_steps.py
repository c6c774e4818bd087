"""The jobs of vault documents: steps of one unit each, and the records of conversions that outlive Redis.

Ids are made of team and document, so a step exists once. It is started for an attempt at the document; started
again for the same attempt, nothing happens, and started for a later one, whatever the earlier one still does no
longer counts.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any

from quire.clock import Clock
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

_STEPS = (JobType.CLASSIFY, JobType.EMBED)
_FOLLOWED = (JobType.CLASSIFY,)
"""Steps after whose end the document is taken further."""
_FIRST_LOOK_S = 15.0
_LETTERS_LOOKED_AT = 10_000
_NEWS_KEPT = 1_000
_NEWS_KEPT_S = 86_400


class Steps:
    def __init__(self, connection: RedisConnection, queues: Queues, jobs: JobStore, clock: Clock) -> None:
        self._connection = connection
        self._queues = queues
        self._jobs = jobs
        self._clock = clock

    async def start(self, step: JobType, link: VaultLink, filename: str) -> bool:
        """Starts a step for the link's attempt; False if it was started for this or a later one before."""
        job_id = step_job_id(step, link.team, link.document_id)
        now = self._now_ms()
        # Known to whoever looks after jobs first: a step that was made but never queued is found there.
        look_at = now + int(_FIRST_LOOK_S * 1000)
        await self._connection.command("ZADD", keys.ACTIVE, look_at, job_id)
        fields = {
            "team": link.team,
            "type": step.value,
            "vault": json.dumps(link.as_dict()),
            "follow": "1" if step in _FOLLOWED else "0",
            "options": json.dumps(JobOptions().as_dict()),
            "source": json.dumps({"kind": "vault", "document_id": link.document_id}),
            "filename": filename,
        }
        flat = [part for pair in fields.items() for part in pair]
        started, epoch = await self._script(
            "step", job_id, step.value, link.attempt, now, self._jobs.running_ttl_ms, *flat
        )
        if started:
            await self._queues.put([Hint(job_id, step.value, int(epoch))])
        else:
            # It may be over, and then nobody needs to look; whoever does finds that out.
            await self._connection.command("ZADD", keys.ACTIVE, "XX", "LT", now, job_id)
        return bool(started)

    async def get(self, step: JobType, team: str, document_id: str) -> MainJob | None:
        return await self._jobs.get(step_job_id(step, team, document_id))

    async def done(
        self, claim: Claim, *, tokens_in: int = 0, tokens_out: int = 0, cost_usd: float = 0.0
    ) -> bool:
        """Ends the step well; False if that came late."""
        claim.settlement.begun = True
        now = self._now_ms()
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
        """Removes all that Redis has of a document: its jobs, their work, pages and events."""
        main = conversion_job_id(team, document_id)
        ids = [main, *(step_job_id(step, team, document_id) for step in _STEPS)]
        for one in ids:
            await self._jobs.cancel(one)
        await self._forget_dead_letters(ids)
        commands: list[tuple[str | int, ...]] = [("ZREM", keys.index(team), main)]
        for one in ids:
            commands += [("DEL", key) for key in (*keys.JobKeys.of(one).all(), keys.ai_pages(one))]
            commands += [("ZREM", index, one) for index in (keys.ACTIVE, keys.RETAINED)]
        commands += [("DEL", keys.vault_revivals(team, document_id))]
        await self._connection.commands(commands)

    async def _forget_dead_letters(self, ids: Sequence[str]) -> None:
        for kind in UnitKind:
            for letter in await self._queues.dead_letters(kind, _LETTERS_LOOKED_AT):
                if letter.job_id in ids:
                    await self._queues.unbury(letter)

    # ---- answers of models that were kept --------------------------------------------------------------------

    async def answers_of(self, job_id: str) -> list[str]:
        """The fingerprints of kept answers that the document's pages and questions got."""
        return sorted(await self._connection.command("SMEMBERS", keys.ai_answers_of(job_id)))

    async def forget_answers(self, job_id: str, fingerprints: Sequence[str]) -> None:
        commands: list[tuple[str | int, ...]] = [("DEL", keys.ai_answer(one)) for one in fingerprints]
        commands += [("ZREM", keys.EXPIRY, f"answer-{one}") for one in fingerprints]
        await self._connection.commands([*commands, ("DEL", keys.ai_answers_of(job_id))])

    # ---- deleted documents -----------------------------------------------------------------------------------

    async def mark_deleted(self, job_id: str) -> None:
        """Only with this mark may anybody remove what is left: a row that isn't there proves nothing.

        It stays for a day, because somebody who had the document in hand may still write something.
        """
        await self._connection.command("SET", keys.vault_deleted(job_id), 1, "EX", _NEWS_KEPT_S)

    async def is_deleted(self, job_id: str) -> bool:
        return bool(await self._connection.command("EXISTS", keys.vault_deleted(job_id)))

    # ---- words of deleted documents --------------------------------------------------------------------------

    async def mark_untidy(self) -> None:
        await self._connection.command("SET", keys.VAULT_UNTIDY, secrets.token_hex(6), "EX", 7 * _NEWS_KEPT_S)

    async def untidy(self) -> str:
        """A mark of the latest deletion after which nobody has tidied up; '' if there is none."""
        return str(await self._connection.command("GET", keys.VAULT_UNTIDY) or "")

    async def is_tidy(self, mark: str) -> None:
        """Everything deleted before this mark is tidied up."""
        await self._connection.script("plain/swap_value", [keys.VAULT_UNTIDY], mark, "", 0)

    # ---- objects and revivals --------------------------------------------------------------------------------

    async def expire_at(self, job_id: str, at_s: float) -> None:
        """From then on somebody asks whether the objects of this job are still wanted."""
        await self._connection.command("ZADD", keys.EXPIRY, int(at_s * 1000), job_id)

    async def count_revival(self, team: str, document_id: str, attempt: int) -> int:
        """How often this attempt had to be taken up again, this time included."""
        key = keys.vault_revivals(team, document_id)
        count, _ = await self._connection.commands(
            [("HINCRBY", key, str(attempt), 1), ("EXPIRE", key, _NEWS_KEPT_S)]
        )
        return int(count)

    # ---- news for dashboards ---------------------------------------------------------------------------------

    async def tell(self, team: str, document_id: str, status: str, attempt: int) -> None:
        """Says that a document has changed. Carries nothing of what is in it."""
        key = keys.JobKeys.of(news_id(team)).events
        data = {
            "document_id": document_id,
            "status": status,
            "attempt": attempt,
            "at": round(self._clock.now(), 3),
        }
        entry = await self._connection.command(
            "XADD", key, "MAXLEN", "~", _NEWS_KEPT, "*", "t", "document", "d", json.dumps(data)
        )
        await self._connection.commands([("EXPIRE", key, _NEWS_KEPT_S), ("PUBLISH", key, entry)])

    async def newest_news(self, team: str) -> str:
        """The id of the latest event, from which a new listener goes on."""
        key = keys.JobKeys.of(news_id(team)).events
        rows = await self._connection.command("XREVRANGE", key, "+", "-", "COUNT", 1)
        return str(rows[0][0]) if rows else "0-0"

    async def forget_news(self, team: str, document_id: str) -> None:
        """Takes what was told of a document out of the events."""
        key = keys.JobKeys.of(news_id(team)).events
        rows = await self._connection.command("XRANGE", key, "-", "+", "COUNT", 2 * _NEWS_KEPT)
        gone = [entry for entry, fields in rows if document_id in str(fields)]
        if gone:
            await self._connection.command("XDEL", key, *gone)

    async def _script(self, name: str, job_id: str, *args: str | int) -> Any:
        return await self._connection.script(f"job/{name}", keys.JobKeys.of(job_id).all(), *args)

    def _now_ms(self) -> int:
        return int(self._clock.now() * 1000)


def news_id(team: str) -> str:
    """Under this name `Events` finds the news of a team's vault."""
    return f"vault_{team}"
