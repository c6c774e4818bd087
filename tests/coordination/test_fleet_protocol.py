"""Processes of several versions on one Redis: those that can work together do, others refuse to start."""

from __future__ import annotations

from pathlib import Path

import pytest

from quire.coordination import keys
from quire.coordination.fleet_protocol import PROTOCOL, FleetProtocol
from quire.coordination.liveness import WorkerId
from quire.domain.job import JobStatus
from quire.errors import CoordinationError
from quire.pipeline.upkeep.reconciler import Reconciler
from tests.support.clocks import MovableClock
from tests.support.marked_documents import marked_pdf
from tests.support.running import over, quire, upload


async def test_versions_follow_each_other_when_neighbours_can_work_together(tmp_path: Path) -> None:
    """A rolling upgrade from 1 over 2 to 3, where 3 no longer works with 1. The documents of one fleet go on."""
    async with quire(tmp_path, kinds=None) as idle:
        clock = MovableClock()

        def process(name: str, protocol: int, oldest: int) -> FleetProtocol:
            return FleetProtocol(idle.connection, clock, name, protocol, oldest)

        await idle.connection.command("DEL", keys.PROTOCOLS)  # this runtime is none of them
        async with process("b", 2, 1):
            async with process("a", 1, 1):
                with pytest.raises(CoordinationError, match=r"older version .*protocol 1.* 2 and later"):
                    async with process("c", 3, 2):
                        pass
            async with process("c", 3, 2):
                with pytest.raises(CoordinationError, match=r"newer version .*2 and later.*speaks 1"):
                    async with process("a", 1, 1):
                        pass
        async with process("a", 1, 1):
            pass
        assert await idle.connection.command("EXISTS", keys.PROTOCOLS) == 0


async def test_a_process_is_forgotten_when_it_was_killed(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        clock = MovableClock()
        await one.connection.command("DEL", keys.PROTOCOLS)
        killed = FleetProtocol(one.connection, clock, "elsewhere", 1, 1)
        await killed.__aenter__()
        clock.time += 61
        async with FleetProtocol(one.connection, clock, "new", 3, 3):
            pass
        here = WorkerId.of_this_process()
        ended = WorkerId(here.machine, here.pid, "1", here.nonce)  # this machine has no such process
        await FleetProtocol(one.connection, clock, str(ended), 1, 1).__aenter__()
        async with FleetProtocol(one.connection, clock, "new", 3, 3):
            pass


async def test_a_start_is_refused_and_work_goes_on_when_versions_can_not_work_together(
    tmp_path: Path,
) -> None:
    async with quire(tmp_path) as one:
        await one.connection.command("ZADD", keys.PROTOCOLS, "+inf", f"{PROTOCOL + 2} {PROTOCOL + 1} newer")
        with pytest.raises(CoordinationError, match="A newer version of Quire runs on this Redis"):
            async with FleetProtocol(one.connection, one.parts.clock, "this"):
                pass
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 1))
        assert (await over(one, accepted.job_id)).status is JobStatus.COMPLETED
    with pytest.raises(CoordinationError, match="A newer version of Quire runs on this Redis"):
        async with quire(tmp_path, kinds=None):
            pass


async def test_an_old_process_is_known_again_when_the_server_has_lost_its_data(tmp_path: Path) -> None:
    """The housekeeper's process puts back what the others had announced; they renew it themselves only later."""
    async with quire(tmp_path, kinds=None) as one:
        await one.connection.command("DEL", keys.PROTOCOLS)
        clock = MovableClock()
        old = FleetProtocol(one.connection, clock, "old", 1, 1)
        async with old, FleetProtocol(one.connection, clock, "housekeeper", 2, 1) as housekeeper:
            await one.connection.command("FLUSHALL")
            await Reconciler(one.parts, one.connection, housekeeper).reconcile()
            with pytest.raises(CoordinationError, match="An older version of Quire runs on this Redis"):
                async with FleetProtocol(one.connection, clock, "new", 3, 2):
                    pass
            clock.time += 61
            async with FleetProtocol(one.connection, clock, "new", 3, 2):
                pass


async def test_announcements_of_many_processes_are_remembered_by_their_numbers(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        await one.connection.command("DEL", keys.PROTOCOLS)
        clock = MovableClock()
        for n in range(30):
            await FleetProtocol(one.connection, clock, f"old{n}", 1, 1).__aenter__()
        async with FleetProtocol(one.connection, clock, "housekeeper", 2, 1) as housekeeper:
            await one.connection.command("FLUSHALL")
            await housekeeper.restore()
            known = await one.connection.command("ZRANGE", keys.PROTOCOLS, 0, -1)
            assert sorted(member[:3] for member in known) == ["1 1", "2 1"]
