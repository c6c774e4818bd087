"""AI pages that wait for a free candidate, and units that wait for a broken model to recover.

A waiting page is in the delayed set and, in order of arrival, in a list of its own. The worker that ends a call wakes
the next pages of that list, so that no slot stays free until a timer fires.

Weakness: a page that is added just after the last call ended waits for its timer, a quarter of a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from quire.clock import Clock
from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import Claim
from quire.coordination.streams import QUEUES, Hint, Queues
from quire.domain.job import JobPriority

_EACH_S = 0.02
_LONGEST_S = 10.0
_MOVED_AT_ONCE = 500
_EMPTY_S = 1.0
"""How long a process does not ask for waiting pages after there were none; the process that parks one wakes it."""
_LINE_KEPT_MS = 7 * 86_400_000
_LATER_MS = {JobPriority.HIGH: -60_000, JobPriority.NORMAL: 0, JobPriority.LOW: 60_000}
"""A page of high priority goes before those that came up to a minute earlier. Bounded, so that none waits for ever."""


class Waiting:
    """Raises CoordinationError during an outage of the server."""

    def __init__(self, connection: RedisConnection, queues: Queues, clock: Clock) -> None:
        self.connection = connection
        self.queues = queues
        self.clock = clock
        self.take: Callable[[Hint], bool] | None = None
        """Starts a woken unit in this process; False if there is no room for it. Else the unit is queued."""
        self._length = 0
        """The length of the list when it was last seen, and what this process has added since."""
        self._parked = asyncio.Event()
        self._empty_until = 0.0
        """Until when the list counts as empty, because nothing was in it."""

    async def pause(self, least_s: float, most_s: float) -> None:
        """Returns after least_s if pages may be waiting; else when this process parks one, or after most_s."""
        if not self._length:
            self._parked.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(most_s):
                    await self._parked.wait()
        await asyncio.sleep(least_s)

    async def park(self, claim: Claim, wait_s: float, *, in_line: bool, tried: bool = True) -> bool:
        """Returns a unit to the queue until it is woken, at the latest after wait_s; False if the claim was lost.

        `in_line`: it waits for other calls to end, which wake it; its timer is only a safeguard, so it is set later
        the longer the list is. `tried`: something is stored about its calls.
        """
        if in_line:
            wait_s = max(wait_s, min(wait_s + self._length * _EACH_S, _LONGEST_S))
        return await self._release(claim, wait_s, keys.AI_WAITING, failed=False, tried=tried)

    async def park_until_recovery(self, claim: Claim, wait_s: float, *, failed: bool) -> bool:
        """Returns a unit to the queue until a breaker closes, at the latest after wait_s; False if the claim was lost.

        `failed`: counts a failed attempt.
        """
        return await self._release(claim, wait_s, keys.AI_RECOVERING, failed=failed, tried=True)

    async def _release(self, claim: Claim, wait_s: float, line: str, *, failed: bool, tried: bool) -> bool:
        claim.outcome_write.begun = True
        hint = claim.hint
        now = self.clock.now()
        until_ms = int((now + wait_s) * 1000)
        given = await self.connection.script(
            "job/wait",
            keys.JobKeys.of(hint.job_id).all(),
            *(hint.unit, hint.epoch, claim.token, until_ms, int(failed), int(tried)),
        )
        if not given:
            return False
        at_ms = int(now * 1000) + _LATER_MS[hint.priority]
        await asyncio.gather(
            self.queues.put_later(hint, until_ms / 1000),
            self.connection.command("ZADD", line, "NX", at_ms, hint.packed()),
        )
        if line == keys.AI_WAITING:
            self._expect(1)
        else:
            await self.connection.command("PEXPIRE", line, _LINE_KEPT_MS)
        return True

    def _expect(self, added: int) -> None:
        """This process has added units to the list: it is to wake them."""
        self._length += added
        self._empty_until = 0.0
        self._parked.set()

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
            self._expect(len(hints))
        return moved

    async def wake(self, count: int) -> int:
        """Queues the next waiting pages at once; returns how many."""
        woken = 0
        while woken < count and self.clock.monotonic() >= self._empty_until:
            wanted = count - woken
            hints = await self._first(wanted, keys.AI_WAITING)
            if len(hints) < wanted:
                self._length = 0
                self._empty_until = self.clock.monotonic() + _EMPTY_S
            if not hints:
                break
            gone = await self.connection.commands(
                ("ZREM", QUEUES[hint.kind].delayed, hint.packed()) for hint in hints
            )
            # Pages that are no longer delayed were woken by their timer: the next ones follow.
            awake = [hint for hint, was_there in zip(hints, gone, strict=True) if was_there]
            await self.queues.put([hint for hint in awake if self.take is None or not self.take(hint)])
            woken += len(awake)
        return woken

    async def _first(self, count: int, line: str) -> list[Hint]:
        answer = await self.connection.command("ZPOPMIN", line, count)
        # The client returns pairs; a raw answer alternates members and scores.
        paired = answer and not isinstance(answer[0], str)
        popped: list[str] = [row[0] for row in answer] if paired else answer[::2]
        return [Hint.unpack(packed) for packed in popped]

    async def length(self) -> int:
        """How many units wait. Also bounds how long the list is kept if no process wakes them any more."""
        self._length = int(await self.connection.command("ZCARD", keys.AI_WAITING))
        if self._length:
            self._empty_until = 0.0
            await self.connection.command("PEXPIRE", keys.AI_WAITING, _LINE_KEPT_MS)
        return self._length
