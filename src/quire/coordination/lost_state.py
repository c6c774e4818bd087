"""Units of a running job that go on after a plane lost something or was away.

Claims are checked, pages without text are read again, and units wait for a plane that is away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quire.clock import Clock, now_ms
from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import Claim
from quire.coordination.streams import Queues


class LostState:
    """Raises CoordinationError or CoordinationCommandError."""

    def __init__(self, connection: RedisConnection, queues: Queues, clock: Clock) -> None:
        self._connection = connection
        self._queues = queues
        self._clock = clock

    async def check_claims(self, held: Sequence[Claim]) -> list[bool]:
        """For claims of one job: whether each is still valid."""
        claims = ((one.hint.unit, one.hint.epoch, one.token) for one in held)
        flat = [part for claim in claims for part in claim]
        answer = await self._connection.job_script("check_claims", held[0].job.id, *flat)
        return [bool(flag) for flag in answer]

    async def postpone(self, claim: Claim, not_before_s: float) -> bool:
        """Releases a unit that waits for another plane; neither an attempt nor a start is counted."""
        claim.settlement.begun = True
        hint = claim.hint
        args = (hint.unit, hint.epoch, claim.token, int(not_before_s * 1000), "2")
        parked = await self._connection.job_script("park", hint.job_id, *args)
        if parked:
            await self._queues.put_later(replace(hint, entry_id=None), not_before_s)
        return bool(parked)

    async def reread(self, claim: Claim, numbers: Sequence[int]) -> str:
        """Gives up a merge and has these pages read again, because their texts are gone.

        Returns `started`, `late` (the claim was no longer valid), or `too often`: nothing was done.
        """
        claim.settlement.begun = True
        job, epoch = claim.job, claim.hint.epoch
        now = now_ms(self._clock)
        answer = await self._connection.job_script("reread", job.id, epoch, claim.token, now, *numbers)
        await self._queues.put_units(job.id, epoch, answer[1:], job.content_ref or "", job.options.priority)
        return {1: "started", 0: "late"}.get(answer[0], "too often")
