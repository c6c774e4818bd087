"""AI pages that wait for a free candidate. They lie among the delayed entries and, in the order in which they came,
in a line of their own, from which whoever ends a call wakes the next ones: no slot stays free until a timer rings.

Weakness: a page that is put in the line just after the last call ended waits for its timer, a quarter of a second.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from quire.clock import Clock
from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import Claim
from quire.coordination.streams import QUEUES, Hint, Queues

_EACH_S = 0.02
_LONGEST_S = 10.0


@dataclass(frozen=True, slots=True)
class Waiting:
    connection: RedisConnection
    queues: Queues
    clock: Clock

    async def park(self, claim: Claim, wait_s: float, *, in_line: bool) -> bool:
        """Gives a unit back until somebody wakes it, at the latest after wait_s; False if it was no longer ours.

        `in_line`: calls of others are what it waits for. The longer the line, the later its timers: they are only
        for when nobody wakes it.
        """
        claim.settlement.begun = True
        hint = Hint(claim.hint.job_id, claim.hint.unit, claim.hint.epoch, content_ref=claim.hint.content_ref)
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
            self.connection.command("ZADD", keys.AI_WAITING, "NX", int(now * 1000), hint.packed()),
        )
        return True

    async def wake(self, count: int) -> int:
        """Queues the next of the line at once; answers how many."""
        woken = 0
        while woken < count:
            hints = await self._first(count - woken)
            if not hints:
                break
            gone = await self.connection.commands(
                ("ZREM", QUEUES[hint.kind].delayed, hint.packed()) for hint in hints
            )
            # Those that are no longer delayed were woken by their timer: the next ones take their turn.
            awake = [hint for hint, was_there in zip(hints, gone, strict=True) if was_there]
            await self.queues.put(awake)
            woken += len(awake)
        return woken

    async def _first(self, count: int) -> list[Hint]:
        answer = await self.connection.command("ZPOPMIN", keys.AI_WAITING, count)
        # The client gives pairs; a plain answer has members and scores in turn.
        paired = answer and not isinstance(answer[0], str)
        popped: list[str] = [row[0] for row in answer] if paired else answer[::2]
        return [Hint.unpack(packed) for packed in popped]

    async def length(self) -> int:
        return int(await self.connection.command("ZCARD", keys.AI_WAITING))
