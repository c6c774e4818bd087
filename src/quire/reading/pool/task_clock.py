"""The time of a task in a child: CPU time of the child and its programs, so that a busy host does not fail a page.

A child that neither runs nor wants to run (a deadlock, a wait that never ends) is found by its process state. The time
for which it wants to run and gets no core does not count.
Where the system has no /proc, time is wall time.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_MOST_IDLE = 30.0  # times the allowed time
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_RUNNABLE = frozenset((b"R", b"D"))
_STAT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class _Reading:
    cpu_s: float
    runs: bool


class TaskClock:
    """Measures one task of a process from now on. `sample` has to be called every second or so.

    What the programs of a reader use is its own. A fork server's children have tasks and clocks of their own.
    """

    def __init__(self, pid: int, allowed_s: float, *, with_programs: bool = True) -> None:
        self._pid = pid
        self._allowed_s = allowed_s
        self._with_programs = with_programs
        self._began = self._sampled_at = self._progress_at = time.monotonic()
        found = _stat(pid)  # between two tasks a child has no programs
        self._cpu_at_start = self._last_cpu = found[0] if found else None
        self._idle_s = 0.0

    @property
    def wall_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def spent_s(self) -> float:
        """The CPU time of the task so far, never more than the wall time."""
        found = self._read()
        if found is None or self._cpu_at_start is None:
            return self.wall_s
        return min(self.wall_s, max(0.0, found.cpu_s - self._cpu_at_start))

    @property
    def used_s(self) -> float:
        """The time in which the task ran or was idle, by the last sample. Waiting for a core is not counted."""
        if self._cpu_at_start is None or self._last_cpu is None:
            return self.wall_s
        return self._last_cpu - self._cpu_at_start + self._idle_s

    def sample(self) -> None:
        """Measures what the child has done since the last sample."""
        found, now = self._read(), time.monotonic()
        if found is None or self._cpu_at_start is None or self._last_cpu is None:
            self._cpu_at_start = None
            return
        ran_s = max(0.0, found.cpu_s - self._last_cpu)
        if found.runs or ran_s:
            self._progress_at = now
        if not found.runs:
            self._idle_s += max(0.0, now - self._sampled_at - ran_s)
        self._last_cpu, self._sampled_at = found.cpu_s, now

    def is_over(self) -> bool:
        """Whether, by the last sample, the task used its time, has stalled for as long, or was idle far too long."""
        if self._cpu_at_start is None or self._last_cpu is None:
            return self.wall_s >= self._allowed_s
        spent_s = self._last_cpu - self._cpu_at_start
        stalled_s = time.monotonic() - self._progress_at
        return max(spent_s, stalled_s) >= self._allowed_s or self._idle_s >= self._allowed_s * _MOST_IDLE

    def _read(self) -> _Reading | None:
        """None if it can't be known."""
        own = _stat(self._pid)
        if own is None:
            return None
        cpu_s, runs = own
        for one in _children(self._pid) if self._with_programs else ():
            other = _stat(one)
            if other is not None:
                cpu_s, runs = cpu_s + other[0], runs or other[1]
        return _Reading(cpu_s, runs)


def _stat(pid: int) -> tuple[float, bool] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - for every task
            fields = file.read(_STAT_BYTES).rpartition(b")")[2].split()
        ticks = sum(int(value) for value in fields[11:15])  # its own, and those of ended children
    except (OSError, ValueError, IndexError):
        return None
    return ticks / _TICKS_A_SECOND, fields[0] in _RUNNABLE


def _children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (OSError, ValueError):
        return []
