"""AI pages that wait for a free candidate.

A waiting page is in the delayed set and, in order of arrival, in a list of its own. The worker that ends a call wakes
the next pages of that list, so that no slot stays free until a timer fires.

Weakness: a page that is added just after the last call ended waits for its timer, a quarter of a second.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from quire.clock import Clock
from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import Claim
from quire.coordination.streams import QUEUES, Hint, Queues
from quire.domain.job import JobPriority

_EACH_S = 0.02
_LONGEST_S = 10.0
_LATER_MS = {JobPriority.HIGH: -60_000, JobPriority.NORMAL: 0, JobPriority.LOW: 60_000}
"""A page of high priority goes before those that came up to a minute earlier. Bounded, so that none waits for ever."""


@dataclass(frozen=True, slots=True)
class Waiting:
    connection: RedisConnection
    queues: Queues
    clock: Clock

    async def park(self, claim: Claim, wait_s: float, *, in_line: bool) -> bool:
        """Returns a unit to the queue until it is woken, at the latest after wait_s; False if the claim was lost.

        `in_line`: it waits for other calls to end, which wake it; its timer is only a safeguard, so it is set later
        the longer the list is.
        """
        claim.settlement.begun = True
        hint = replace(claim.hint, entry_id=None)
        now = self.clock.now()
        if in_line:
            line = int(await self.connection.command("ZCARD", keys.AI_WAITING))
            wait_s = max(wait_s, min(wait_s + line * _EACH_S, _LONGEST_S))
        until_ms = int((now + wait_s) * 1000)
        given = await self.connection.script(
            "job/wait",
            keys.JobKeys.of(hint.job_id).all(),
            *(hint.unit, hint.epoch, claim.token, until_ms),
        )
        if not given:
            return False
        await asyncio.gather(
            self.queues.put_later(hint, until_ms / 1000),
            self.connection.command(
                "ZADD", keys.AI_WAITING, "NX", int(now * 1000) + _LATER_MS[hint.priority], hint.packed()
            ),
        )
        return True

    async def wake(self, count: int) -> int:
        """Queues the next waiting pages at once; returns how many."""
        woken = 0
        while woken < count:
            hints = await self._first(count - woken)
            if not hints:
                break
            gone = await self.connection.commands(
                ("ZREM", QUEUES[hint.kind].delayed, hint.packed()) for hint in hints
            )
            # Pages that are no longer delayed were woken by their timer: the next ones follow.
            awake = [hint for hint, was_there in zip(hints, gone, strict=True) if was_there]
            await self.queues.put(awake)
            woken += len(awake)
        return woken

    async def _first(self, count: int) -> list[Hint]:
        answer = await self.connection.command("ZPOPMIN", keys.AI_WAITING, count)
        # The client returns pairs; a raw answer alternates members and scores.
        paired = answer and not isinstance(answer[0], str)
        popped: list[str] = [row[0] for row in answer] if paired else answer[::2]
        return [Hint.unpack(packed) for packed in popped]

    async def length(self) -> int:
        return int(await self.connection.command("ZCARD", keys.AI_WAITING))
