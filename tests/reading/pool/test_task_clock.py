"""The time of a task: what it runs and sleeps counts, what it waits for a core does not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from quire.reading.pool import task_clock
from quire.reading.pool.task_clock import TaskClock


class _Host:
    """The time and what /proc says of one process, both set by a test."""

    def __init__(self) -> None:
        self.now = 100.0
        self.cpu_s = 7.0
        self.runs = True

    def live(self, clock: TaskClock, seconds: float, share: float, runs: bool) -> None:
        """Lets the time pass, sampled every quarter of a second; the process runs for a share of it."""
        self.runs = runs
        for _ in range(int(seconds * 4)):
            self.now += 0.25
            self.cpu_s += 0.25 * share
            clock.sample()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> _Host:
    found = _Host()
    monkeypatch.setattr(task_clock, "time", SimpleNamespace(monotonic=lambda: found.now))
    monkeypatch.setattr(task_clock, "_stat", lambda _pid: (found.cpu_s, found.runs))
    monkeypatch.setattr(task_clock, "_children", lambda _pid: [])
    return found


def test_time_is_not_over_when_the_task_hardly_gets_a_core(host: _Host) -> None:
    clock = TaskClock(1, 20)
    host.live(clock, 1500, 0.01, runs=True)
    assert not clock.is_over(), "15 s of CPU time in 25 minutes"
    assert clock.used_s == pytest.approx(15)
    host.live(clock, 600, 0.01, runs=True)
    assert clock.is_over()


def test_time_is_over_when_the_task_sleeps_for_as_long(host: _Host) -> None:
    clock = TaskClock(1, 20)
    host.live(clock, 1, 0, runs=False)
    assert clock.used_s == pytest.approx(1), "a sleeping task is demoted as a running one is"
    host.live(clock, 18, 0, runs=False)
    assert not clock.is_over()
    host.live(clock, 2, 0, runs=False)
    assert clock.is_over()


def test_time_is_over_when_the_task_pretends_to_make_progress(host: _Host) -> None:
    clock = TaskClock(1, 20)
    host.live(clock, 590, 0.02, runs=False)
    assert not clock.is_over()
    host.live(clock, 60, 0.02, runs=False)
    assert clock.is_over(), "a child that sleeps most of the time must not keep its slot"


def test_time_is_wall_time_when_the_system_says_nothing_of_processes(
    host: _Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_clock, "_stat", lambda _pid: None)
    clock = TaskClock(1, 20)
    host.live(clock, 19, 1, runs=True)
    assert not clock.is_over()
    host.live(clock, 1, 1, runs=True)
    assert clock.is_over()


def test_children_are_left_out_when_they_have_clocks_of_their_own(
    host: _Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork server that stands still is found although its children are busy."""
    monkeypatch.setattr(task_clock, "_children", lambda _pid: [2])
    busy = {2: True}
    monkeypatch.setattr(
        task_clock, "_stat", lambda pid: (host.now, True) if busy.get(pid) else (host.cpu_s, host.runs)
    )
    alone, together = TaskClock(1, 20, with_programs=False), TaskClock(1, 2_000)
    host.live(alone, 21, 0, runs=False)
    together.sample()
    assert alone.is_over()
    assert alone.used_s == pytest.approx(21)
    assert together.used_s > 21
