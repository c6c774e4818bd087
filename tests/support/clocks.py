"""Clocks that a test moves."""

from __future__ import annotations

import time


class MovableClock:
    """Stays at `time` until the test changes it."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


class ShiftedClock:
    """The real clock, moved by `shift_s`."""

    def __init__(self) -> None:
        self.shift_s = 0.0

    def now(self) -> float:
        return time.time() + self.shift_s

    def monotonic(self) -> float:
        return time.monotonic() + self.shift_s
