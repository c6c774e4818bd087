"""An event loop whose time is virtual: waiting takes no real time, so an hour of a fleet takes milliseconds."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

_EPOCH_S = 1_800_000_000.0


class NothingWaitsError(RuntimeError):
    """Every task waits for something that no timer and no other task will cause."""


class _InstantSelector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]  # depends on the platform
    """Waits for no file; moves the loop's time on instead."""

    loop: VirtualLoop | None = None

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise NothingWaitsError("No task of the simulation can go on.")
        if self.loop is not None and timeout > 0:
            self.loop.now_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now_s = 0.0
        selector = _InstantSelector()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self.now_s


class VirtualClock:
    """The clock of a simulation: the loop's time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        return _EPOCH_S + self._loop.now_s

    def monotonic(self) -> float:
        return self._loop.now_s
