"""The time of a task in a child: CPU time of the child and its programs, so that a busy host does not fail a page.

A child that neither runs nor wants to run (a deadlock, a wait that never ends) is found by its process state.
Where the system has no /proc, time is wall time.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_MOST_WALL = 30.0  # times the allowed time
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_RUNNABLE = frozenset("RD")


@dataclass(frozen=True, slots=True)
class _Reading:
    cpu_s: float
    runs: bool


class TaskClock:
    """Measures one task of a child from now on. `is_over` has to be asked every second or so."""

    def __init__(self, pid: int, allowed_s: float) -> None:
        self._pid = pid
        self._allowed_s = allowed_s
        self._began = self._progress_at = time.monotonic()
        found = _stat(pid)  # between two tasks a child has no programs
        self._cpu_at_start = self._last_cpu = found[0] if found else None

    @property
    def wall_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def spent_s(self) -> float:
        """The CPU time of the task so far, never more than the wall time."""
        found = _read(self._pid)
        if found is None or self._cpu_at_start is None:
            return self.wall_s
        return min(self.wall_s, max(0.0, found.cpu_s - self._cpu_at_start))

    def is_over(self) -> bool:
        """Whether the task has used its time, has not run for as long, or has taken far too long by the wall clock."""
        wall_s = self.wall_s
        if wall_s < self._allowed_s:
            return False
        found = _read(self._pid)
        if found is None or self._cpu_at_start is None or self._last_cpu is None:
            return True
        if found.runs or found.cpu_s > self._last_cpu:
            self._progress_at, self._last_cpu = time.monotonic(), found.cpu_s
        stalled_s = time.monotonic() - self._progress_at
        spent_s = found.cpu_s - self._cpu_at_start
        return max(spent_s, stalled_s) >= self._allowed_s or wall_s >= self._allowed_s * _MOST_WALL


def _read(pid: int) -> _Reading | None:
    """Returns the CPU time of a process with the programs it has started; None if it can't be known."""
    own = _stat(pid)
    if own is None:
        return None
    cpu_s, runs = own
    for one in _children(pid):
        other = _stat(one)
        if other is not None:
            cpu_s, runs = cpu_s + other[0], runs or other[1]
    return _Reading(cpu_s, runs)


def _stat(pid: int) -> tuple[float, bool] | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks = sum(int(value) for value in fields[11:15])  # its own, and those of ended children
    except (OSError, ValueError, IndexError):
        return None
    return ticks / _TICKS_A_SECOND, fields[0] in _RUNNABLE


def _children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (OSError, ValueError):
        return []
