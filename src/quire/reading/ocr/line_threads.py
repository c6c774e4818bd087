"""Shares the lines of one page between two threads, where the page has many and the host has a second core.

The network reads one line at a time and leaves Python's lock while it does, so two threads take half the time and the
same work; each line's result is the same whichever thread reads it. The second thread ends with the page, so that no
thread is there when the process starts a program.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

MANY_LINES = 12
"""Fewer lines take less than a tenth of a second."""

_M_ARENA_MAX = -8

Line = TypeVar("Line")
Found = TypeVar("Found")


def share_heap() -> None:
    """Has all threads of this process use one heap (glibc): one of its own would keep a thread's memory for good."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def for_each_line(
    read: Callable[[Line], Found], lines: Sequence[Line], cores: int | None = None
) -> list[Found]:
    """What `read` answers for each line, in their order. Raises what it raises; lines then are left out.

    The first lines are read first: the longest belong there, so that both threads end together.
    """
    waiting = deque(range(len(lines)))
    found: dict[int, Found] = {}

    def work() -> None:
        try:
            while waiting:
                try:
                    place = waiting.popleft()
                except IndexError:  # the other thread has taken it
                    return
                found[place] = read(lines[place])
        except BaseException:
            waiting.clear()
            raise

    if len(lines) < MANY_LINES or (cores or _cores()) < 2:
        work()
    else:
        # This thread works too: a process whose first thread sleeps looks idle to its clock.
        with ThreadPoolExecutor(1, "lines") as other:
            half = other.submit(work)
            work()
            half.result()
    return [found[place] for place in range(len(lines))]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
