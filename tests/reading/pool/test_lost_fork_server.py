"""A fork server is killed: what its readers still answer, without their folders, is not believed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quire.reading.pool.cage import CageOptions
from quire.reading.pool.child_pool import ChildPool, PoolOptions
from tests.reading.pool import pool_tasks
from tests.support.waiting import DEADLINE_S, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[ChildPool]:
    options = PoolOptions(
        processes=1,
        memory_bytes=0,
        preload=("tests.reading.pool.pool_tasks",),
        cage=CageOptions(str(tmp_path / "readers")),
    )
    made = ChildPool(options)
    yield made
    await made.close()


def _in_folders(tmp_path: Path, name: str) -> list[Path]:
    return list((tmp_path / "readers").glob(f"server-*/*/{name}"))


async def test_document_is_read_again_when_its_reader_outlives_the_fork_server(
    pool: ChildPool, tmp_path: Path
) -> None:
    document = tmp_path / "good.txt"
    document.write_text("good")
    server = await pool.run(pool_tasks.parent_pid, timeout_s=DEADLINE_S)
    reading = asyncio.create_task(
        pool.run(pool_tasks.read_after_server, str(document), server, DEADLINE_S, timeout_s=DEADLINE_S)
    )
    await until(lambda: bool(_in_folders(tmp_path, "temporary/outlives")), "the reader has its task")
    os.kill(server, signal.SIGKILL)
    assert await reading == "good"


async def test_result_is_written_again_when_its_folder_is_gone_before_it_is_copied(
    pool: ChildPool, tmp_path: Path
) -> None:
    target, was_answered = tmp_path / "target", asyncio.Event()
    target.touch()
    server = await pool.run(pool_tasks.parent_pid, timeout_s=DEADLINE_S)

    def on_answer(_spent_s: float) -> None:
        if not was_answered.is_set():
            os.kill(server, signal.SIGKILL)
            was_answered.set()

    may_copy, copier = threading.Event(), ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(copier)  # the loop shuts it down
    copier.submit(may_copy.wait, DEADLINE_S)
    arguments = (pool_tasks.write_result, "file", "words", str(target))
    writing = asyncio.create_task(pool.run(*arguments, timeout_s=DEADLINE_S, on_spent=on_answer))
    await was_answered.wait()
    await until(lambda: not _in_folders(tmp_path, "temporary"), "the folder of the reader is gone")
    may_copy.set()
    await writing
    assert target.read_text() == "words"
