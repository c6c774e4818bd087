"""Some seeds of the simulated fleet; `python bench/simulate.py` runs thousands."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing

import pytest

from quire.coordination.connection import Script
from quire.coordination.liveness import Workers
from tests.simulation import simulated_network
from tests.simulation.schedules import BrokenInvariantError, run_schedule
from tests.support.coordination_servers import unix_server
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


def test_account_is_wrong_when_a_script_lets_two_workers_claim_a_unit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = simulated_network.load_scripts_once()
    lines = right["job/claim"].text.splitlines(keepends=True)
    planted = "".join(line for line in lines if "return {'held'" not in line)
    scripts = {**right, "job/claim": Script(planted)}
    assert scripts["job/claim"].sha != right["job/claim"].sha
    monkeypatch.setattr(simulated_network, "load_scripts_once", lambda: scripts)
    with pytest.raises(BrokenInvariantError, match="claimed twice"):
        run_some_seeds()


def test_account_is_wrong_when_living_workers_are_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_workers: Workers, _owner: str) -> bool:
        return False

    monkeypatch.setattr(Workers, "alive", never)
    with pytest.raises(BrokenInvariantError, match="claimed from the living"):
        run_some_seeds()


def run_some_seeds() -> None:
    with unix_server() as path, closing(simulated_network.SimulatedServer(path)) as server:
        for seed in range(1, 1000):
            run_schedule(server, seed)
