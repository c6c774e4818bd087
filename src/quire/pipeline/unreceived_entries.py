"""Entries that the server delivered to a worker while the connection was lost: the worker never received them."""

from __future__ import annotations

from collections.abc import Collection

from quire.clock import Clock
from quire.coordination.streams import Hint, Queues
from quire.domain.job import UnitKind

_EVERY_S = 600.0


class UnreceivedEntries:
    """Asks for each queue after a read that failed or a connection that was lost, and every ten minutes."""

    def __init__(self, queues: Queues, consumer: str, clock: Clock) -> None:
        self._queues = queues
        self._consumer = consumer
        self._clock = clock
        self._due_at: dict[UnitKind, float] = {}
        self._losses: dict[UnitKind, int] = {}

    def read_failed(self, kind: UnitKind) -> None:
        self._due_at.pop(kind, None)

    async def find(self, kind: UnitKind, room: int, received: Collection[str]) -> list[Hint]:
        """At most `room` entries whose names (`entry_name`) were not received."""
        now, losses = self._clock.monotonic(), self._queues.losses
        if now < self._due_at.get(kind, now) and losses == self._losses.get(kind):
            return []
        given = await self._queues.in_hand(kind, self._consumer)
        self._due_at[kind] = now + _EVERY_S
        self._losses[kind] = losses
        missed = [hint for hint in given if entry_name(hint) not in received]
        if len(missed) > room:
            self.read_failed(kind)
        return missed[:room]


def entry_name(hint: Hint) -> str:
    """The name of a queue entry among those of all queues."""
    return f"{hint.stream} {hint.entry_id}"
