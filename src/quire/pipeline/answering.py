"""Who answers for content that comes in a second time, and who is to be made where nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from quire.queue.jobs import JobStore

T = TypeVar("T")

_WAIT_S = 2.0
_POLL_S = 0.01


async def whoever_answers(
    jobs: JobStore,
    content: tuple[str, str],
    own_id: str,
    look: Callable[[str], Awaitable[tuple[T | None, bool]]],
) -> T | None:
    """What `look` finds under the id that answers for this content (a team and a fingerprint).

    None if there is nobody; from then on own_id answers, and is to be made at once. `look` tells what it found and,
    where that is nothing, whether it may still be on its way.
    """
    team, fingerprint = content
    loop = asyncio.get_running_loop()
    until = loop.time() + _WAIT_S
    while True:
        seen = await jobs.answer_for(team, fingerprint)
        if seen == own_id:  # whoever said so may have died right after
            return None
        found, may_come = await look(seen) if seen else (None, False)
        if found is not None:
            return found
        if may_come and loop.time() < until:  # it is being made, unless its maker has died
            await asyncio.sleep(_POLL_S)
        elif await jobs.answer_with(team, fingerprint, own_id, seen) == own_id:
            return None
