"""How many calls the models have room for: as the end of a model's last call reported it, and by asking."""

from __future__ import annotations

from collections.abc import Sequence

from quire.clock import Clock
from quire.coordination.ai_admission import Admission, Ask, Free, Target

_BELIEVED_S = 1.0


class ExpectedRoom:
    """Saves a question before a page is drawn. If the expectation is wrong, the page is parked with its picture."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._room: dict[Target, tuple[int, float]] = {}

    def learn(self, target: Target, room: int) -> None:
        self._room[target] = room, self._clock.monotonic() + _BELIEVED_S

    def take(self, target: Target) -> bool:
        """Whether the model is expected to have room for one more call, which then counts as made."""
        room, until = self._room.get(target, (0, 0.0))
        if room <= 0 or self._clock.monotonic() > until:
            return False
        self._room[target] = room - 1, until
        return True


async def free_slots(admission: Admission, asks: Sequence[Ask], most: int) -> int:
    """Returns how many of these calls could be admitted now, at most `most`."""
    if not isinstance(await admission.peek(asks), Free):
        return 0
    states = await admission.states([one.target for one in asks])
    slots = sum(max(0, one.cap - one.in_flight) for one in states if one.state == "closed")
    return max(1, min(slots, most))
