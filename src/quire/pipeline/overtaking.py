"""Fair claims: while one team's units hold most slots of a kind, waiting units of other teams overtake.

Streams are read in order, so a team that queued many slow units first would otherwise hold every slot of a worker. This
module looks at the entries that wait and starts units of other teams in a few extra slots. The entry is deleted when
its unit has been worked on; if it is delivered before that, it is dropped like every doubled entry.

Weakness: it sees the first entries of a stream only, so a team that queues more units than that delays the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from quire.coordination.streams import Hint
from quire.domain.job import UnitKind
from quire.errors import CoordinationCommandError, CoordinationError
from quire.pipeline.parts import Parts

_LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.05
_LONGEST_PAUSE_S = 0.4
"""Where no unit could overtake, as in a service of one team, looks at a long queue become rare."""
_LONGEST_PAUSE_OF_PAGES_S = 1.6
"""A page alone is read by OCR or AI, which takes longer than that."""
_ENTRIES_SEEN = 500
_TEAMS_KNOWN = 10_000


class Overtaking:
    """Starts units through `handle`, as the worker does for entries that it has read."""

    def __init__(
        self,
        parts: Parts,
        slots: Mapping[UnitKind, int],
        teams_in_hand: Callable[[UnitKind], list[str]],
        handle: Callable[[Hint], Awaitable[None]],
    ) -> None:
        self._parts = parts
        self._slots = slots
        self._teams_in_hand = teams_in_hand
        self._handle = handle
        self._woken = asyncio.Event()
        self._teams: OrderedDict[str, str] = OrderedDict()
        self._running: set[tuple[UnitKind, str, str]] = set()
        self._pauses: dict[UnitKind, tuple[float, float]] = {}
        """When each queue is looked at again, and how long that pause is."""
        self._greedy: dict[UnitKind, set[str]] = {}
        """The teams that hold most slots of each kind, as of the last look."""
        self._look_now: set[UnitKind] = set()

    def wake(self) -> None:
        """The worker has claimed a unit, or stops: `run` sleeps until a claim has taken the last slot of a kind."""
        self._woken.set()

    def unit_ended(self, team: str) -> None:
        """The worker has finished a unit of this team: the next unit of its document may be queued by now."""
        self._look_now.update(kind for kind, greedy in self._greedy.items() if team not in greedy)

    async def run(self, stopping: asyncio.Event) -> None:
        """Looks at the queues until `stopping` is set and `wake` was called; the units that it started end first."""
        async with asyncio.TaskGroup() as group:
            while not stopping.is_set():
                await self._woken.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_EVERY_S):
                        await stopping.wait()
                if not any(map(self._is_taken, self._slots)):
                    self._woken.clear()
                    continue
                for kind, slots in self._slots.items():
                    if not self._is_taken(kind):
                        continue
                    try:
                        chosen = await self._chosen(kind, slots)
                    except (CoordinationError, CoordinationCommandError) as error:
                        _LOG.debug("no look at the queue", extra={"queue": kind.value, "code": error.code})
                        break
                    for hint in chosen:
                        self._running.add(_unit(hint))
                        group.create_task(self._work(hint), name=f"overtaking-{hint.unit}")

    def _is_taken(self, kind: UnitKind) -> bool:
        """Whether no slot of this kind is free, so that a unit that waits can only overtake."""
        return len(self._teams_in_hand(kind)) >= self._slots[kind]

    async def _work(self, hint: Hint) -> None:
        try:
            await self._handle(replace(hint, entry_id=None))
            with suppress(CoordinationError, CoordinationCommandError):
                await self._parts.queues.done(hint)
        finally:
            self._running.discard(_unit(hint))

    async def _chosen(self, kind: UnitKind, slots: int) -> list[Hint]:
        held = Counter(self._teams_in_hand(kind))
        room = max(1, slots // 2) - sum(one[0] is kind for one in self._running)
        if room <= 0:
            return []
        greedy = {team for team, count in held.items() if count * 2 > slots}
        if not greedy:
            return []
        now = self._parts.clock.monotonic()
        due_at, pause_s = self._pauses.get(kind, (0.0, _LOOK_EVERY_S / 2))
        if now < due_at and kind not in self._look_now:
            return []
        self._look_now.discard(kind)
        self._greedy[kind] = set(greedy)
        waiting = await self._parts.jobs.waiting.first(kind, _ENTRIES_SEEN)
        await self._learn_teams([hint.job_id for hint in waiting])
        chosen: list[Hint] = []
        for hint in waiting:
            team = self._teams.get(hint.job_id)
            if team is not None and team not in greedy and _unit(hint) not in self._running:
                chosen.append(hint)
                held[team] += 1
                if held[team] * 2 > slots:
                    greedy.add(team)
            if len(chosen) == room:
                break
        longest_s = _LONGEST_PAUSE_OF_PAGES_S if kind is UnitKind.PAGE else _LONGEST_PAUSE_S
        pause_s = _LOOK_EVERY_S if chosen or kind in self._look_now else min(2 * pause_s, longest_s)
        self._pauses[kind] = now + pause_s, pause_s
        return chosen

    async def _learn_teams(self, job_ids: list[str]) -> None:
        unknown = [one for one in dict.fromkeys(job_ids) if one not in self._teams]
        if unknown:
            self._teams.update(await self._parts.jobs.waiting.teams(unknown))
        while len(self._teams) > _TEAMS_KNOWN:
            self._teams.popitem(last=False)


def _unit(hint: Hint) -> tuple[UnitKind, str, str]:
    return hint.kind, hint.job_id, hint.unit
