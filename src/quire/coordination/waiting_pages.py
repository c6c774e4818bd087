"""AI pages that wait for a free candidate, and units that wait for a broken model to recover.

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
_MOVED_AT_ONCE = 500
_LINE_KEPT_MS = 7 * 86_400_000
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
        if in_line:
            line = int(await self.connection.command("ZCARD", keys.AI_WAITING))
            wait_s = max(wait_s, min(wait_s + line * _EACH_S, _LONGEST_S))
        return await self._release(claim, wait_s, keys.AI_WAITING, failed=False)

    async def park_until_recovery(self, claim: Claim, wait_s: float, *, failed: bool) -> bool:
        """Returns a unit to the queue until a breaker closes, at the latest after wait_s; False if the claim was lost.

        `failed`: counts a failed attempt.
        """
        return await self._release(claim, wait_s, keys.AI_RECOVERING, failed=failed)

    async def _release(self, claim: Claim, wait_s: float, line: str, *, failed: bool) -> bool:
        claim.settlement.begun = True
        hint = replace(claim.hint, entry_id=None)
        now = self.clock.now()
        until_ms = int((now + wait_s) * 1000)
        given = await self.connection.script(
            "job/wait",
            keys.JobKeys.of(hint.job_id).all(),
            *(hint.unit, hint.epoch, claim.token, until_ms, int(failed)),
        )
        if not given:
            return False
        await asyncio.gather(
            self.queues.put_later(hint, until_ms / 1000),
            self.connection.commands(
                [
                    ("ZADD", line, "NX", int(now * 1000) + _LATER_MS[hint.priority], hint.packed()),
                    ("PEXPIRE", line, _LINE_KEPT_MS),
                ]
            ),
        )
        return True

    async def resume_recovering(self) -> int:
        """Moves the units that wait for a broken model to the waiting ones; returns how many.

        If this process dies in between, a unit is in both lists or in none: its timer still wakes it.
        """
        moved = 0
        while hints := await self._first(_MOVED_AT_ONCE, keys.AI_RECOVERING):
            now_ms = int(self.clock.now() * 1000)
            added = [part for hint in hints for part in (now_ms + _LATER_MS[hint.priority], hint.packed())]
            await self.connection.command("ZADD", keys.AI_WAITING, "NX", *added)
            moved += len(hints)
        return moved

    async def wake(self, count: int) -> int:
        """Queues the next waiting pages at once; returns how many."""
        woken = 0
        while woken < count:
            hints = await self._first(count - woken, keys.AI_WAITING)
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

    async def _first(self, count: int, line: str) -> list[Hint]:
        answer = await self.connection.command("ZPOPMIN", line, count)
        # The client returns pairs; a raw answer alternates members and scores.
        paired = answer and not isinstance(answer[0], str)
        popped: list[str] = [row[0] for row in answer] if paired else answer[::2]
        return [Hint.unpack(packed) for packed in popped]

    async def length(self) -> int:
        return int(await self.connection.command("ZCARD", keys.AI_WAITING))
