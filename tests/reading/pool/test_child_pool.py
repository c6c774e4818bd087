"""The child pool with real children: they crash, hang, balloon, and everybody else gets an answer."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from quire.errors import (
    PageCrashedError,
    PageError,
    PageMemoryError,
    PageTimeoutError,
    PasswordWrongError,
)
from quire.reading.pool import child_process
from quire.reading.pool.child_pool import ChildPool, PoolOptions
from quire.reading.pool.forkserver import data_bytes
from tests.reading.pool import pool_tasks as tasks
from tests.support.environment import ROOT, clean_environment
from tests.support.processes import alive, descendants
from tests.support.waiting import DEADLINE_S, until

LONG_S = DEADLINE_S
MEMORY_BYTES = 200_000_000


@pytest.fixture
async def pool() -> AsyncIterator[ChildPool]:
    """Two children without parsers: what is tested is the pool."""
    opened = ChildPool(PoolOptions(processes=2, memory_bytes=MEMORY_BYTES, preload=()))
    yield opened
    await opened.close()


async def test_result_comes_back_when_it_is_small_large_or_nothing(pool: ChildPool) -> None:
    large = os.urandom(20_000_000)
    assert await pool.run(tasks.echo, {"a": [1, None]}, timeout_s=LONG_S) == {"a": [1, None]}
    assert await pool.run(tasks.echo, None, timeout_s=LONG_S) is None
    assert await pool.run(tasks.echo, large, timeout_s=LONG_S) == large


async def test_error_arrives_as_it_is_when_the_task_raises_ours(pool: ChildPool) -> None:
    with pytest.raises(PasswordWrongError) as caught:
        await pool.run(tasks.wrong_password, timeout_s=LONG_S)
    assert caught.value.public == "The password does not open this document."
    assert caught.value.retry_after_s == 3


@pytest.mark.parametrize(
    ("task", "arguments", "told"),
    [
        (tasks.segfault, (), "signal 11"),
        (tasks.abort, (), "signal 6"),
        (tasks.leave, (7,), "code 7"),
        (tasks.leave, (0,), "code 0"),
        (tasks.fail_with_secret, (), "ValueError"),
        (tasks.exit_quietly, (), "SystemExit"),
        (tasks.unpicklable, (), "Error"),
    ],
)
async def test_crash_is_told_without_the_document_when_a_task_fails(
    pool: ChildPool, task: Callable[..., Any], arguments: tuple[Any, ...], told: str
) -> None:
    with pytest.raises(PageCrashedError, match=told) as caught:
        await pool.run(task, *arguments, timeout_s=LONG_S)
    assert "confidential" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert await pool.run(tasks.echo, 1, timeout_s=LONG_S) == 1


@pytest.mark.parametrize(
    ("task", "arguments"),
    [
        (tasks.allocate, (MEMORY_BYTES * 2,)),
        (tasks.allocate_natively_until_abort, ()),
        (tasks.allocate_with_new, (MEMORY_BYTES * 2,)),
        (tasks.allocate_in_mupdf, ()),
    ],
)
async def test_memory_error_is_told_when_a_task_goes_over_its_allowance(
    pool: ChildPool, task: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    assert await pool.run(tasks.allocate, MEMORY_BYTES // 2, timeout_s=LONG_S) == MEMORY_BYTES // 2
    with pytest.raises(PageMemoryError):
        await pool.run(task, *arguments, timeout_s=LONG_S)
    assert await pool.run(tasks.echo, 1, timeout_s=LONG_S) == 1


async def test_allowance_is_on_top_of_the_parsers_when_children_are_warm() -> None:
    allowance = 12_000_000
    pool = ChildPool(PoolOptions(processes=1, memory_bytes=allowance))
    try:
        assert await pool.run(data_bytes, timeout_s=LONG_S) > allowance
        assert await pool.run(tasks.allocate, allowance * 2 // 3, timeout_s=LONG_S) == allowance * 2 // 3
        with pytest.raises(PageMemoryError):
            await pool.run(tasks.allocate, allowance * 4 // 3, timeout_s=LONG_S)
    finally:
        await pool.close()


async def test_children_share_the_parsers_when_they_are_forked_anew() -> None:
    pool = ChildPool(PoolOptions(processes=1, memory_bytes=0, max_tasks=2))
    try:
        pids = set()
        for _ in range(3):
            pids.add(await pool.run(tasks.pid, timeout_s=LONG_S))
            private_kib, resident_kib = await pool.run(tasks.private_kib, timeout_s=LONG_S)
            assert private_kib < resident_kib / 2
        assert len(pids) == 3
        assert {"pymupdf", "liteparse"} <= await pool.run(tasks.loaded_modules, timeout_s=LONG_S)
    finally:
        await pool.close()


async def test_garbage_is_looked_for_rarely_and_does_not_pile_up(pool: ChildPool) -> None:
    looks, left = await pool.run(tasks.make_cycles, 300_000, timeout_s=LONG_S)
    assert looks < 40
    assert left < 150_000


async def test_preload_is_passed_over_when_there_is_no_such_module() -> None:
    pool = ChildPool(PoolOptions(processes=1, memory_bytes=0, preload=("no_such_module_here",)))
    try:
        assert await pool.run(tasks.echo, 5, timeout_s=LONG_S) == 5
    finally:
        await pool.close()


async def test_task_is_given_up_when_the_fork_server_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "import_without_end.py").write_text("import threading\nthreading.Event().wait()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(child_process, "_BIRTH_S", 0.2)
    monkeypatch.setattr(child_process, "_DEATH_TIMEOUT_S", 0.1)
    pool = ChildPool(PoolOptions(processes=1, memory_bytes=0, preload=("import_without_end",)))
    try:
        with pytest.raises(PageCrashedError, match="could not be kept running") as failed:
            await pool.run(tasks.echo, 5, timeout_s=LONG_S)
        assert failed.value.retryable
    finally:
        await pool.close()


async def test_deadline_kills_the_child_when_it_hangs_in_native_code(pool: ChildPool, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    with pytest.raises(PageTimeoutError):
        await pool.run(tasks.spin, str(mark), timeout_s=0.3)
    hung = int(mark.read_text())
    await until(lambda: not alive(hung), "the hung child is gone")


async def test_deadline_does_not_run_when_the_task_waits_for_a_child(tmp_path: Path) -> None:
    pool = ChildPool(PoolOptions(processes=1, memory_bytes=0, preload=(), slow_processes=0))
    try:
        gate = tmp_path / "gate"
        holder = asyncio.create_task(pool.run(tasks.wait_for, str(gate), timeout_s=LONG_S))
        await until(lambda: len(descendants(os.getpid())) >= 2, "the child runs")
        began, spent = time.monotonic(), list[float]()
        waiting = asyncio.create_task(pool.run(tasks.echo, "in time", timeout_s=1.5, on_spent=spent.append))
        done, _ = await asyncio.wait([waiting], timeout=2.0)
        assert not done
        opened = time.monotonic()
        gate.touch()
        assert await waiting == "in time"
        assert 0 < sum(spent) <= time.monotonic() - opened < time.monotonic() - began
        await holder
    finally:
        await pool.close()


async def test_cancelling_kills_the_child_when_its_task_runs(pool: ChildPool, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    running = asyncio.create_task(pool.run(tasks.spin, str(mark), timeout_s=LONG_S))
    await until(lambda: mark.exists() and mark.read_text() != "", "the task runs")
    child = int(mark.read_text())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: not alive(child), "the child is gone")


async def test_cancelling_drops_the_task_when_it_has_not_started(tmp_path: Path) -> None:
    pool = ChildPool(PoolOptions(processes=1, memory_bytes=0, preload=(), slow_processes=0))
    try:
        gate, mark = tmp_path / "gate", tmp_path / "mark"
        holder = asyncio.create_task(pool.run(tasks.wait_for, str(gate), timeout_s=LONG_S))
        queued = asyncio.create_task(pool.run(tasks.spin, str(mark), timeout_s=LONG_S))
        await asyncio.sleep(0)
        queued.cancel()
        gate.touch()
        first = await holder
        assert await pool.run(tasks.pid, timeout_s=LONG_S) == first
        assert not mark.exists()
    finally:
        await pool.close()


async def test_cancelling_keeps_the_child_when_it_was_only_being_started() -> None:
    pool = ChildPool(PoolOptions(processes=1, memory_bytes=0, preload=()))
    try:
        eager = asyncio.create_task(pool.run(tasks.echo, 1, timeout_s=LONG_S))
        await asyncio.sleep(0)
        eager.cancel()
        with pytest.raises(asyncio.CancelledError):
            await eager
        assert await pool.run(tasks.echo, 2, timeout_s=LONG_S) == 2
    finally:
        await pool.close()


async def test_every_task_answers_when_kills_crashes_and_timeouts_are_among_them(
    pool: ChildPool, tmp_path: Path
) -> None:
    async def one(number: int) -> str:
        try:
            if number % 100 == 13:
                await pool.run(tasks.segfault, timeout_s=LONG_S)
            elif number % 100 == 37:
                await pool.run(tasks.spin, timeout_s=0.05)
            elif number % 100 == 59:
                await pool.run(tasks.leave, 3, timeout_s=LONG_S)
            elif number % 100 == 71:
                mark = tmp_path / str(number)
                running = asyncio.create_task(pool.run(tasks.spin, str(mark), timeout_s=LONG_S))
                await until(lambda: mark.exists() and mark.read_text() != "", "the task runs")
                os.kill(int(mark.read_text()), signal.SIGKILL)
                await running
            elif number % 100 == 83:
                running = asyncio.create_task(pool.run(tasks.spin, timeout_s=LONG_S))
                await asyncio.sleep(0)
                running.cancel()
                await asyncio.wait([running])
                return "cancelled"
            assert await pool.run(tasks.echo, number, timeout_s=LONG_S) == number
            return "answered"
        except PageError as error:
            return error.code

    answers = await asyncio.gather(*(one(number) for number in range(1000)))
    assert {kind: answers.count(kind) for kind in set(answers)} == {
        "answered": 950,
        "page_crashed": 30,
        "page_timeout": 10,
        "cancelled": 10,
    }


async def test_others_go_on_when_a_child_dies_in_the_middle_of_its_answer(pool: ChildPool) -> None:
    async def cut_off(delay_s: float) -> bool:
        try:
            await pool.run(tasks.die_while_answering, delay_s, timeout_s=LONG_S)
        except PageCrashedError:
            return True
        return False  # the whole answer was out before the child ended

    outcomes = [asyncio.create_task(cut_off(number * 0.01)) for number in range(8)]
    others = [asyncio.create_task(pool.run(tasks.echo, number, timeout_s=LONG_S)) for number in range(50)]
    assert await asyncio.gather(*others) == list(range(50))
    assert any(await asyncio.gather(*outcomes))


async def test_pool_recovers_when_its_fork_server_is_killed(pool: ChildPool, tmp_path: Path) -> None:
    server = await pool.run(tasks.parent_pid, timeout_s=LONG_S)
    gate = tmp_path / "gate"
    running = asyncio.create_task(pool.run(tasks.wait_for, str(gate), timeout_s=LONG_S))
    os.kill(server, signal.SIGKILL)
    await until(lambda: not alive(server), "the fork server is dead")
    assert await pool.run(tasks.parent_pid, timeout_s=LONG_S) != server
    gate.touch()
    assert await running > 0


async def test_task_is_given_up_when_it_kills_the_fork_server_every_time(pool: ChildPool) -> None:
    with pytest.raises(PageCrashedError, match="could not be kept running"):
        await pool.run(tasks.kill_parent, timeout_s=LONG_S)
    assert await pool.run(tasks.echo, 1, timeout_s=LONG_S) == 1


async def test_pool_carries_on_when_idle_children_are_killed(pool: ChildPool) -> None:
    pids = set(await asyncio.gather(*(pool.run(tasks.pid, timeout_s=LONG_S) for _ in range(20))))
    for child in pids:
        os.kill(child, signal.SIGKILL)
    for _ in range(5):
        assert await pool.run(tasks.pid, timeout_s=LONG_S) not in pids


async def test_child_is_replaced_when_it_has_done_its_number_of_tasks() -> None:
    pool = ChildPool(PoolOptions(processes=1, memory_bytes=0, max_tasks=3, preload=()))
    try:
        pids = [await pool.run(tasks.pid, timeout_s=LONG_S) for _ in range(9)]
        assert [pids.count(one) for one in dict.fromkeys(pids)] == [3, 3, 3]
    finally:
        await pool.close()


async def test_warm_starts_all_children_when_nothing_was_asked_yet(pool: ChildPool) -> None:
    before = descendants(os.getpid())
    pool.warm()
    await until(lambda: len(descendants(os.getpid()) - before) == 3, "a server and two children run")
    pool.warm()
    await asyncio.gather(*(pool.run(tasks.echo, 1, timeout_s=LONG_S) for _ in range(10)))
    assert len(descendants(os.getpid()) - before) == 3


async def test_processes_end_and_start_again_when_no_task_came_for_a_while() -> None:
    before = descendants(os.getpid())
    pool = ChildPool(PoolOptions(processes=2, memory_bytes=0, preload=(), idle_timeout_s=0.05))
    try:
        for started in (1, 2):
            assert await pool.run(tasks.echo, started, timeout_s=LONG_S) == started
            assert pool.counts()["started"] == started
            await until(lambda: descendants(os.getpid()) <= before, "every process of the pool is gone")
    finally:
        await pool.close()


async def test_processes_stay_when_a_task_outlasts_the_idle_time(tmp_path: Path) -> None:
    pool = ChildPool(PoolOptions(processes=2, memory_bytes=0, preload=(), idle_timeout_s=0.01))
    mark = tmp_path / "pid"
    try:
        running = asyncio.create_task(pool.run(tasks.spin, str(mark), timeout_s=LONG_S))
        await until(mark.exists, "the long task runs")
        for _ in range(
            50
        ):  # none of them ends the processes, although the long task is older than the idle time
            await pool.run(tasks.echo, 1, timeout_s=LONG_S)
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    finally:
        await pool.close()


async def test_no_process_is_left_when_the_pool_is_closed(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    pool = ChildPool(PoolOptions(processes=2, memory_bytes=0, preload=()))
    mark = tmp_path / "pid"
    running = asyncio.create_task(pool.run(tasks.spin, str(mark), timeout_s=LONG_S))
    await until(mark.exists, "the task runs")
    await pool.close()
    with pytest.raises(PageCrashedError):
        await running
    await until(lambda: descendants(os.getpid()) <= before, "every process of the pool is gone")
    with pytest.raises(PageCrashedError):
        await pool.run(tasks.echo, 1, timeout_s=LONG_S)
    await pool.close()


async def test_close_does_nothing_when_the_pool_was_never_used() -> None:
    before = descendants(os.getpid())
    pool = ChildPool(PoolOptions(processes=2, memory_bytes=0))
    assert descendants(os.getpid()) <= before
    await pool.close()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_descriptors_do_not_pile_up_when_children_come_and_go(pool: ChildPool) -> None:
    async def crash() -> None:
        with pytest.raises(PageError):
            await pool.run(tasks.leave, 1, timeout_s=LONG_S)
        with pytest.raises(PageError):
            await pool.run(tasks.spin, timeout_s=0.02)

    await crash()
    before = descriptors()
    for _ in range(10):
        await crash()
    assert descriptors() <= before + 2


async def test_children_know_nothing_of_the_parent_when_it_has_secrets_and_open_files(
    pool: ChildPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret")
    with socket.create_server(("127.0.0.1", 0)), (tmp_path / "owner.lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        assert "very-secret" not in (await pool.run(tasks.environment, timeout_s=LONG_S)).values()
        found = await pool.run(tasks.open_files, timeout_s=LONG_S)
    assert not [name for name in found if "owner.lock" in name]
    assert len([name for name in found if name.startswith("socket:")]) == 1


async def test_child_lives_on_when_it_is_interrupted(pool: ChildPool) -> None:
    assert await pool.run(tasks.sigint_is_ignored, timeout_s=LONG_S)


async def test_terminal_stays_clean_when_native_code_prints(
    pool: ChildPool, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        await pool.run(tasks.shout, "MuPDF error: noise", timeout_s=LONG_S)
    assert capfd.readouterr() == ("", "")


PARENT = """
import asyncio, socket, sys
from tests.reading.pool import pool_tasks as tasks
from quire.reading.pool.forkserver import data_bytes
from quire.reading.pool import child_process
from quire.reading.pool.child_pool import ChildPool, PoolOptions

async def main():
    listener = socket.create_server(("127.0.0.1", 0))
    pool = ChildPool(PoolOptions(processes=2, memory_bytes=0, preload=()))
    busy = asyncio.create_task(pool.run(tasks.spin, sys.argv[1], timeout_s=1000))
    await pool.run(tasks.echo, 1, timeout_s=1000)
    print(listener.getsockname()[1], flush=True)
    await busy

asyncio.run(main())
"""


async def test_no_orphan_and_no_port_is_left_when_the_parent_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    parent = subprocess.Popen(  # noqa: ASYNC220 - a moment, and nothing else runs here
        [sys.executable, "-c", PARENT, str(mark)],
        stdout=subprocess.PIPE,
        env=clean_environment(PYTHONPATH=str(ROOT)),
    )
    assert parent.stdout is not None
    port = int(await asyncio.to_thread(parent.stdout.readline))
    await until(mark.exists, "one child is busy in native code")
    family = descendants(parent.pid)
    assert len(family) == 3
    parent.kill()
    parent.wait()
    parent.stdout.close()
    await until(lambda: not any(alive(one) for one in family), "server and children are gone")
    with socket.create_server(("127.0.0.1", port)):
        pass
