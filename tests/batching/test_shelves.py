"""Objects that nobody speaks of are gone in time, whoever was killed when."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quire.batching.object_shelves import Shelves
from quire.coordination.connection import RedisConnection
from quire.coordination.parse_queue import ParseLimits, ParseQueue
from quire.objects.object_store import ObjectStore
from tests.support.clocks import MovableClock
from tests.support.coordination_servers import plain_server
from tests.support.environment import ROOT

TTL_S = 600.0
START = 1_800_000_000.0

KILLED_BEFORE_IT_SAID_SO = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.batching.test_shelves import shelves_on
async def main():
    connection, shelves, objects, _ = shelves_on(sys.argv[1], Path(sys.argv[2]))
    await objects.put(await shelves.new_key("bodies"), b"an image that was never accepted")
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def shelves_on(url: str, folder: Path) -> tuple[RedisConnection, Shelves, ObjectStore, MovableClock]:
    connection, clock = RedisConnection.open(url), MovableClock()
    limits = ParseLimits(TTL_S, slots=2, failures_to_open=3, cooldown_s=30, backoff_s=1)
    objects = ObjectStore.open(str(folder / "objects"), folder / "scratch")
    queue = ParseQueue(connection, clock, "one", limits)
    return connection, Shelves(queue, objects, clock, TTL_S), objects, clock


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[tuple[str, Shelves, ObjectStore, MovableClock]]:
    with plain_server() as (url, _):
        connection, shelves, objects, clock = shelves_on(url, tmp_path)
        yield url, shelves, objects, clock
        await connection.close()


def files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("objects/parse/**/*") if path.is_file()]


async def test_object_is_removed_when_its_process_was_killed_before_the_request_was_accepted(
    place: tuple[str, Shelves, ObjectStore, MovableClock], tmp_path: Path
) -> None:
    url, shelves, _, clock = place
    died = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", KILLED_BEFORE_IT_SAID_SO, url, str(tmp_path)],
        cwd=ROOT,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL
    assert len(files(tmp_path)) == 1
    assert await shelves.delete_expired() == 0
    clock.time += 2 * TTL_S
    assert await shelves.delete_expired() == 1
    assert files(tmp_path) == []
    assert not (tmp_path / "objects" / "parse").exists()


async def test_objects_stay_for_as_long_as_they_may_be_wanted_when_older_ones_are_removed(
    place: tuple[str, Shelves, ObjectStore, MovableClock], tmp_path: Path
) -> None:
    _, shelves, objects, clock = place
    written: list[tuple[float, str]] = []
    for _ in range(60):
        key = await shelves.new_key("results")
        await objects.put(key, b"{}")
        written.append((clock.time, key))
        clock.time += TTL_S / 20
        await shelves.delete_expired()
        for at, one in list(written):
            if await objects.size(one) is None:
                assert clock.time - at >= TTL_S, "an object went too early"
                written.remove((at, one))
    assert len(written) < 40  # a TTL is twenty of them, and shelves are emptied whole
    assert len(files(tmp_path)) == len(written)
