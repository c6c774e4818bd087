"""An event loop whose time is virtual: waiting takes no real time, so an hour of a fleet takes milliseconds."""

from __future__ import annotations

import asyncio
import itertools
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable
from contextvars import Context
from heapq import heapify, heappop, heappush
from typing import Any

_EPOCH_S = 1_800_000_000.0
_CANCELLED_TIMERS = 100
"""So many cancelled timers are kept; most would be due long after the end of a schedule."""


class NothingWaitsError(RuntimeError):
    """Every task waits for something that no timer and no other task will cause."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Moves its time to the next timer when no callback is ready. Files are never waited for.

    Weakness: it replaces private methods of asyncio's loop, whose turns cost more than the callbacks of a schedule.
    """

    _ready: deque[Handle]
    _scheduled: list[tuple[float, int, TimerHandle]]  # type: ignore[assignment]  # ours sort without a method call
    _timer_cancelled_count: int

    def __init__(self) -> None:
        self.now_s = 0.0
        self._timers = itertools.count()
        super().__init__()

    def time(self) -> float:
        return self.now_s

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        timer = TimerHandle(when, callback, args, self, context)
        heappush(self._scheduled, (when, next(self._timers), timer))
        timer._scheduled = True  # so that its cancellation is counted
        return timer

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def _run_once(self) -> None:
        """One turn: the callbacks that are ready, or those of the next timer."""
        ready, timers = self._ready, self._scheduled
        if self._timer_cancelled_count > _CANCELLED_TIMERS:
            timers[:] = [one for one in timers if not one[2]._cancelled]
            heapify(timers)
            self._timer_cancelled_count = 0
        if not ready:
            while timers and timers[0][2]._cancelled:
                heappop(timers)
            if not timers:
                raise NothingWaitsError("No task of the simulation can go on.")
            self.now_s = max(self.now_s, timers[0][0])
        now_s = self.now_s
        while timers and timers[0][0] <= now_s:
            timer = heappop(timers)[2]
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()


class VirtualClock:
    """The clock of a simulation: the loop's time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        return _EPOCH_S + self._loop.now_s

    def monotonic(self) -> float:
        return self._loop.now_s
