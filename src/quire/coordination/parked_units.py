"""Units that are released until a time, and what of the attempt counts.

If the process dies between the script and the delayed entry, the housekeeper queues the unit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import Claim
from quire.coordination.streams import Queues


class Counted(Enum):
    """What counts when a unit is parked."""

    FAILED = "failed"
    """The attempt."""
    STARTED = "started"
    """Only the start."""
    WAITING = "waiting"
    """Nothing: the unit waits for something else."""
    OUTAGE = "outage"
    """Nothing but how often the unit has waited for a plane (`Claim.outages`)."""


@dataclass(frozen=True, slots=True)
class ParkedUnits:
    """Raises CoordinationError or CoordinationCommandError."""

    connection: RedisConnection
    queues: Queues

    async def park(self, claim: Claim, not_before_s: float, counted: Counted) -> bool:
        """Releases a unit until not_before_s; False if the claim was no longer valid."""
        claim.outcome_write.begun = True
        hint = claim.hint
        args = (hint.unit, hint.epoch, claim.token, int(not_before_s * 1000), counted.value)
        parked = await self.connection.job_script("park", hint.job_id, *args)
        if parked:
            await self.queues.put_later(replace(hint, entry_id=None), not_before_s)
        return bool(parked)
