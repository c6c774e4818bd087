"""Units of a running job that go on after a plane lost something: claims are checked, lost pages are read again."""

from __future__ import annotations

from collections.abc import Sequence

from quire.clock import Clock, now_ms
from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import Claim
from quire.coordination.server_mark import ServerMark
from quire.coordination.streams import Queues


class LostState:
    """Raises CoordinationError or CoordinationCommandError."""

    def __init__(self, connection: RedisConnection, queues: Queues, clock: Clock) -> None:
        self._connection = connection
        self._queues = queues
        self._clock = clock

    async def is_comparison_due(self) -> bool:
        """Whether jobs may be missing that the reconciler has not put back yet."""
        return await ServerMark(self._connection).is_missing()

    async def check_claims(self, held: Sequence[Claim]) -> list[bool]:
        """For claims of one job: whether each is still valid."""
        claims = ((one.hint.unit, one.hint.epoch, one.token) for one in held)
        flat = [part for claim in claims for part in claim]
        answer = await self._connection.job_script("check_claims", held[0].job.id, *flat)
        return [bool(flag) for flag in answer]

    async def reread(self, claim: Claim, numbers: Sequence[int]) -> str:
        """Gives up a merge and has these pages read again, because their texts are gone.

        Returns `started`, `late` (the claim was no longer valid), or `too often`: nothing was done.
        """
        claim.outcome_write.begun = True
        job, epoch = claim.job, claim.hint.epoch
        now = now_ms(self._clock)
        answer = await self._connection.job_script("reread", job.id, epoch, claim.token, now, *numbers)
        await self._queues.put_units(job.id, epoch, answer[1:], job.content_ref or "", job.options.priority)
        return {1: "started", 0: "late"}.get(answer[0], "too often")
