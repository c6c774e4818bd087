"""Ends what a pool keeps running once it has had no task for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class IdleTimer:
    """Calls `end` when no task has run for `after_s` seconds; never if that is 0. Belongs to one event loop.

    One timer serves all tasks: the end of a task only notes the time, which is cheaper than a timer for each.
    """

    def __init__(self, after_s: float, end: Callable[[], None], is_starting: Callable[[], bool]) -> None:
        self._after_s = after_s
        self._end = end
        self._is_starting = is_starting
        self._running = 0
        self._idle_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._cancelled = False

    def task_begins(self) -> None:
        self._running += 1

    def task_ends(self) -> None:
        self._running -= 1
        if self._running or self._cancelled or not self._after_s:
            return
        self._idle_since = asyncio.get_running_loop().time()
        if self._timer is None:
            self._wait(self._after_s)

    def cancel(self) -> None:
        """`end` is not called any more."""
        self._cancelled = True
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, for_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(for_s, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._running:
            return  # the end of that task starts the timer again
        left_s = self._idle_since + self._after_s - asyncio.get_running_loop().time()
        if self._is_starting():  # a caller left before its process was ready
            left_s = max(left_s, self._after_s)
        if left_s > 0:
            self._wait(left_s)
        else:
            self._end()
