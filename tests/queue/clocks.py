"""The real clock, with a hand to move it."""

from __future__ import annotations

import time


class ShiftedClock:
    def __init__(self) -> None:
        self.shift_s = 0.0

    def now(self) -> float:
        return time.time() + self.shift_s

    def monotonic(self) -> float:
        return time.monotonic() + self.shift_s
