"""Some seeds of the simulated fleet; `python bench/simulate.py` runs thousands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.schedules import run_schedule
from tests.simulation.simulated_network import SimulatedServer
from tests.support.coordination_servers import plain_server


@pytest.fixture(scope="module")
def server() -> Iterator[SimulatedServer]:
    with plain_server() as (_url, port):
        yield SimulatedServer(port)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_document_ends_once_when_processes_crash_and_messages_are_lost(
    server: SimulatedServer, seed: int
) -> None:
    account = run_schedule(server, seed)
    assert account.merged
    assert account.crashes + account.stalls + account.flushes + account.retries > 0


def test_a_schedule_is_the_same_when_its_seed_runs_again(server: SimulatedServer) -> None:
    before = server.commands
    first = run_schedule(server, 4)
    used = server.commands - before
    assert run_schedule(server, 4) == first
    assert server.commands - before == 2 * used
