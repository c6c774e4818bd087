"""The one clock. Everything that asks for the time is given it, so that tests can move it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, as shown to users and kept in Redis."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring how long something took."""
        ...


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def now_ms(clock: Clock) -> int:
    """The clock's time in whole milliseconds, as scripts and streams of Redis take it."""
    return int(clock.now() * 1000)
