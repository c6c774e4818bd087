"""A fork server that is started before its pool: the pool takes it over, and does without it if it has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quire.reading.pool.cage import CageOptions
from quire.reading.pool.child_pool import ChildPool, PoolOptions
from quire.reading.pool.server_process import ServerProcess
from tests.reading.pool import pool_tasks
from tests.support.environment import clean_environment
from tests.support.processes import alive
from tests.support.waiting import DEADLINE_S, until

PRELOAD = ("tests.reading.pool.pool_tasks",)


@pytest.fixture
def started() -> Iterator[ServerProcess]:
    process = ServerProcess(PRELOAD)
    yield process
    process.kill()


def _pool(started: ServerProcess, tmp_path: Path) -> ChildPool:
    cage = CageOptions(str(tmp_path / "readers"))
    return ChildPool(PoolOptions(processes=1, memory_bytes=0, preload=PRELOAD, cage=cage), started)


async def test_pool_has_the_readers_of_the_server_that_was_started_before(
    started: ServerProcess, tmp_path: Path
) -> None:
    pool = _pool(started, tmp_path)
    try:
        assert await pool.run(pool_tasks.parent_pid, timeout_s=DEADLINE_S) == started.pid
        own = (await pool.run(pool_tasks.environment, timeout_s=DEADLINE_S))["TMPDIR"]
        assert own.startswith(str(tmp_path / "readers")), "it was told the cage after its start"
    finally:
        await pool.close()
    assert started.has_ended()


async def test_pool_starts_another_server_when_the_one_before_has_ended(
    started: ServerProcess, tmp_path: Path
) -> None:
    os.kill(started.pid, signal.SIGKILL)
    await until(started.has_ended, "the fork server is dead")
    pool = _pool(started, tmp_path)
    try:
        assert await pool.run(pool_tasks.parent_pid, timeout_s=DEADLINE_S) != started.pid
    finally:
        await pool.close()


def test_server_that_no_pool_has_taken_is_ended() -> None:
    started = ServerProcess(PRELOAD)
    started.kill()
    assert not alive(started.pid)
    started.kill()


def test_readers_are_started_before_the_code_of_convert_is_loaded() -> None:
    code = (
        "import sys, quire.cli.convert_start; print(*sorted(name for name in sys.modules if 'quire' in name))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], env=clean_environment(), capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == [
        "quire",
        "quire.cli",
        "quire.cli.convert_start",
        "quire.reading",
        "quire.reading.pool",
        "quire.reading.pool.server_process",
    ]
