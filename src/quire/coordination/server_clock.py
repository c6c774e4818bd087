"""The clock of the coordination server, which all hosts share.

Deadlines and delays are written by one host and read by another, so each host corrects its own clock by its distance
from the server's. Distances below two seconds are not corrected, and answers that took long are not used.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress

from quire.clock import Clock
from quire.coordination.connection import RedisConnection
from quire.errors import CoordinationCommandError, CoordinationError

_LOG = logging.getLogger(__name__)
_LEAST_S = 2.0
_SLOWEST_ANSWER_S = 0.5


class ServerClock:
    """This host's clock, moved by `offset_s`. `system` is the host's own, `steady` one that is never set.

    When the host's clock is set while Quire runs, the time goes on as before until it is measured again.
    """

    def __init__(
        self, system: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._system = system
        self._steady = steady
        self._distance_s = system() - steady()
        self.offset_s = 0.0

    def now(self) -> float:
        here, steady = self._system(), self._steady()
        if abs(here - steady - self._distance_s) >= _LEAST_S:
            here = steady + self._distance_s
        return here + self.offset_s

    def monotonic(self) -> float:
        return time.monotonic()

    async def measure(self, connection: RedisConnection) -> None:
        """Raises CoordinationError; the offset stays as it was."""
        began = time.monotonic()
        seconds, microseconds = await connection.command("TIME")
        here = self._system()
        took_s = time.monotonic() - began
        if took_s > _SLOWEST_ANSWER_S:
            return
        distance_s = int(seconds) + int(microseconds) / 1_000_000 - (here - took_s / 2)
        offset_s = distance_s if abs(distance_s) >= _LEAST_S else 0.0
        self._distance_s = here - self._steady()
        if abs(offset_s - self.offset_s) >= _LEAST_S:
            _LOG.warning(
                "this host's clock is off; times are corrected", extra={"offset_s": round(offset_s, 1)}
            )
        self.offset_s = offset_s


async def synchronise(clock: Clock, connection: RedisConnection) -> None:
    """Measures the distance where the clock can be corrected; a server that does not answer leaves it as it was."""
    if isinstance(clock, ServerClock):
        with suppress(CoordinationError, CoordinationCommandError):
            await clock.measure(connection)


def clock_issue(clock: Clock) -> str | None:
    """One sentence for the operator if this host's clock is far off."""
    if not isinstance(clock, ServerClock) or not clock.offset_s:
        return None
    return (
        f"This host's clock is {clock_words(clock.offset_s)} the coordination server's; "
        "times are corrected. Set the clock of the host (NTP)."
    )


def clock_offset(clock: Clock) -> float:
    """By how many seconds this host's clock is behind the server's; negative if it is ahead, 0 if it is right."""
    return clock.offset_s if isinstance(clock, ServerClock) else 0.0


def clock_words(offset_s: float) -> str:
    """Such as `5 minutes behind` or `3 s ahead of`."""
    seconds = abs(offset_s)
    long = f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"
    return f"{long} {'behind' if offset_s > 0 else 'ahead of'}"
