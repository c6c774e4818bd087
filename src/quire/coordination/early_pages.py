"""Pages that are read by OCR while they wait for AI: the unit that does it, and the right to read each page once.

The unit `early` is issued with a time before which no worker claims it. If the process dies between the script and the
delayed entry, the housekeeper queues the unit.
"""

from __future__ import annotations

import json
from enum import Enum

from quire.clock import Clock, now_ms
from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import Claim, as_json
from quire.coordination.keys import QUEUES
from quire.coordination.streams import Hint, Queues
from quire.domain.job import PageRecord, UnitKind


class OcrRight(Enum):
    """The answer to a unit that asks for the right to read a page by OCR."""

    TAKEN = "taken"
    HELD = "held"
    GONE = "gone"


class EarlyPages:
    """Raises CoordinationError during an outage of the server."""

    def __init__(self, connection: RedisConnection, queues: Queues, clock: Clock) -> None:
        self._connection = connection
        self._queues = queues
        self._clock = clock

    async def issue(self, claim: Claim, delay_s: float) -> None:
        """Issues the unit that reads the job's waiting pages early, unless it has one."""
        now = now_ms(self._clock)
        later = now + int(delay_s * 1000)
        epoch = claim.hint.epoch
        if await self._connection.job_script("early_issue", claim.job.id, epoch, now, later):
            unit = UnitKind.EARLY.value
            await self._queues.put_later(Hint(claim.job.id, unit, epoch), later / 1000)

    async def forget(self, job_id: str, epoch: int) -> None:
        """Removes the delayed entry of a job that has ended."""
        hint = Hint(job_id, UnitKind.EARLY.value, epoch)
        await self._connection.command("ZREM", QUEUES[UnitKind.EARLY].delayed, hint.packed())

    async def take(self, claim: Claim, number: int) -> OcrRight | PageRecord:
        """Asks for the right to read a page by OCR. A page that has a text, or has ended, is answered by its record."""
        answer = await self._right(claim, number, "take")
        if answer[0] == "done":
            return PageRecord.unpack(number, json.loads(answer[1]))
        return OcrRight(answer[0])

    async def give_back(self, claim: Claim, number: int) -> None:
        """Returns the right to a page that could not be read."""
        await self._right(claim, number, "give")

    async def keep(self, claim: Claim, record: PageRecord) -> bool:
        """Stores the text of a page that still waits for AI; False if the page has ended."""
        epoch, packed = claim.hint.epoch, as_json(record.packed())
        return bool(
            await self._connection.job_script("early_page", claim.job.id, epoch, record.number, packed)
        )

    async def file(self, claim: Claim) -> bool:
        """Has the vault file the text that is there, if the job is a conversion of the vault.

        False if the vault's unit is there already and may miss the newest pages: the caller asks again.
        """
        epoch = claim.hint.epoch
        answer = await self._connection.job_script("early_file", claim.job.id, epoch, now_ms(self._clock))
        await self._queues.put_units(claim.job.id, epoch, answer[1:], "")
        return bool(answer[0])

    async def _right(self, claim: Claim, number: int, what: str) -> list[str]:
        hint = claim.hint
        found: list[str] = await self._connection.job_script(
            "early_claim", hint.job_id, hint.unit, hint.epoch, claim.token, number, what
        )
        return found
