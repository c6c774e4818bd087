"""Outages of the object plane and of the catalog: units wait for the plane, and no attempt is counted."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from quire.clock import Clock
from quire.coordination.job_records import Claim
from quire.coordination.parked_units import Counted
from quire.errors import ObjectsError, QuireError

if TYPE_CHECKING:
    from quire.pipeline.parts import Parts

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 15.0
_LONGEST_HELD_S = 900.0
MOST_WAITS = 12
"""How often a unit waits for the object store before its attempts count: for one to two minutes."""


def outage_wait_s(tries: int) -> float:
    """How long to wait before the next try: longer each time, and by chance, so that a plane is not flooded."""
    longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(tries, 10))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries, guards nothing


class PlaneOutages:
    """The units of one worker that wait for a plane."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._tries = 0

    def over(self) -> None:
        """Call it when a unit was done: the planes answer."""
        self._tries = 0

    async def postpone(self, claim: Claim, error: QuireError) -> bool:
        """Parks the unit until the plane may be back. Neither an attempt nor a start is counted.

        Returns False, and does nothing, for a unit that has waited often while the object store answers others: what
        it needs can't be read or written, and its attempts must be counted.
        """
        if claim.outages >= MOST_WAITS and isinstance(error, ObjectsError) and await self._answers():
            return False
        await self.wait(claim, error)
        return True

    async def wait(self, claim: Claim, error: QuireError) -> None:
        """Parks the unit, however often it has waited."""
        wait_s = outage_wait_s(max(self._tries, claim.outages))
        self._tries += 1
        about = {"job_id": claim.job.id, "unit": claim.hint.unit, "code": error.code, "wait_s": wait_s}
        _LOG.warning("unit waits for a plane", extra=about)
        await self._parts.jobs.parked.park(claim, self._parts.clock.now() + wait_s, Counted.OUTAGE)

    async def _answers(self) -> bool:
        try:
            await self._parts.objects.check()
        except ObjectsError:
            return False
        return True


async def outlast(call: Callable[[], Awaitable[T]], clock: Clock, deadline_at: float | None) -> T:
    """The result of a call to the object plane that must not be given up, because what it stores was paid for.

    Repeats it during an outage. Raises ObjectsError after the document's deadline, or after a quarter of an hour.
    """
    until, tries = clock.monotonic() + _LONGEST_HELD_S, 0
    while True:
        try:
            return await call()
        except ObjectsError as error:
            late = deadline_at is not None and clock.now() >= deadline_at
            if not error.retryable or late or clock.monotonic() >= until:
                raise
            _LOG.warning("an answer waits for the object plane", extra={"code": error.code})
        await asyncio.sleep(outage_wait_s(tries))
        tries += 1
