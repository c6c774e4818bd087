"""Some seeds of the simulated fleet; `python bench/simulate.py` runs thousands."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.support.environment import ROOT, clean_environment
from tests.support.waiting import DEADLINE_S


def simulated(first: int, schedules: int) -> dict[str, int]:
    """Runs these seeds in a new process with fixed hashes: the order of sets is part of a schedule."""
    command = [sys.executable, str(ROOT / "bench" / "simulate.py"), "--first", str(first)]
    done = subprocess.run(
        [*command, "--schedules", str(schedules)],
        env=clean_environment(PYTHONHASHSEED="0"),
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r": (\d+) schedules, (\d+) crashes, .* retries, (\d+) commands", done.stdout)
    assert found is not None, done.stdout
    return dict(zip(("schedules", "faults", "commands"), map(int, found.groups()), strict=True))


def test_every_document_ends_once_when_processes_crash_and_messages_are_lost() -> None:
    found = simulated(1, 3)
    assert found["schedules"] == 3
    assert found["faults"] > 0


def test_a_schedule_is_the_same_when_its_seed_runs_again() -> None:
    first = simulated(4, 1)
    assert first["commands"] > 100
    assert simulated(4, 1) == first
