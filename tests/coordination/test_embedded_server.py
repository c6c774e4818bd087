"""The embedded coordination server: one owner, nothing lost, nothing left running."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import BusyLoadingError

from quire.coordination.embedded_server import EmbeddedServer
from quire.errors import CoordinationError, DataDirInUseError
from tests.support.processes import alive, descendants
from tests.support.waiting import until


@contextlib.asynccontextmanager
async def running(data_dir: Path) -> AsyncIterator[tuple[EmbeddedServer, Redis]]:
    server = EmbeddedServer(data_dir, owner="quire serve")
    client = Redis.from_url(await server.start())
    try:
        yield server, client
    finally:
        await client.aclose()
        await server.stop()


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Short enough for the socket to be in the data directory, however pytest names its folders."""
    with tempfile.TemporaryDirectory(prefix="q") as name:
        yield Path(name)


async def server_pid(client: Redis) -> int:
    return int((await client.info("server"))["process_id"])


async def test_content_is_kept_when_the_server_is_stopped_and_started(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as (_, client):
        await client.set("job", "queued")
    async with running(tmp_path / "data") as (_, client):
        assert await client.get("job") == b"queued"


async def test_server_is_private_and_durable_when_it_runs(short_path: Path) -> None:
    async with running(short_path / "data") as (_, client):
        expected = {
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "port": "0",
            "maxmemory-policy": "noeviction",
            "aof-load-truncated": "yes",
        }
        assert {name: (await client.config_get(name))[name] for name in expected} == expected
        folder = short_path / "data" / "coordination"
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "valkey.sock").stat().st_mode & 0o077 == 0


async def test_second_owner_is_told_who_is_first_when_the_directory_is_taken(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as (_, client):
        with pytest.raises(DataDirInUseError) as caught:
            await EmbeddedServer(tmp_path / "data", owner="quire convert").start()
        assert caught.value.public == (
            f"The data directory {tmp_path / 'data'} is in use by quire serve (process {os.getpid()}). "
            "Stop it, or set DATA_DIR to another folder."
        )
        assert await client.ping()
    async with running(tmp_path / "data"):
        pass


async def test_attach_finds_the_server_only_when_it_is_alive(tmp_path: Path) -> None:
    assert EmbeddedServer.attach_url(tmp_path / "data") is None
    async with running(tmp_path / "data"):
        url = EmbeddedServer.attach_url(tmp_path / "data")
        assert url is not None
        worker = Redis.from_url(url)
        assert await worker.ping()
        await worker.aclose()
    assert EmbeddedServer.attach_url(tmp_path / "data") is None


@pytest.mark.parametrize("name", ["with space & 100%#?", "ümlaut–☃", "x" * 150])
async def test_server_runs_when_the_path_is_odd_or_too_long_for_a_socket(tmp_path: Path, name: str) -> None:
    data_dir = tmp_path / name
    async with running(data_dir) as (_, client):
        assert await client.set("a", "1")
        assert EmbeddedServer.attach_url(data_dir) is not None
        socket_path = Path((data_dir / "coordination" / "socket").read_text())
        assert socket_path.parent.stat().st_mode & 0o777 == 0o700
    async with running(data_dir) as (_, client):
        assert await client.get("a") == b"1"


async def test_start_is_refused_when_the_short_folder_is_open_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = tmp_path / ("x" * 150)
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        async with running(data_dir):
            private = Path((data_dir / "coordination" / "socket").read_text()).parent
        assert private.parent == Path(short)
        private.mkdir(exist_ok=True)
        private.chmod(0o777)
        with pytest.raises(CoordinationError, match="not private"):
            await EmbeddedServer(data_dir, owner="quire serve").start()
        private.chmod(0o700)
        async with running(data_dir):
            pass


async def test_server_is_restarted_with_its_content_when_it_dies(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    async with running(data_dir) as (server, client):
        watch = asyncio.create_task(server.watch())
        await client.set("job", "queued")
        for _ in range(2):
            first = await server_pid(client)
            os.kill(first, signal.SIGKILL)
            await until(lambda first=first: not alive(first), "the server is dead")  # type: ignore[misc]
            await until(lambda: EmbeddedServer.attach_url(data_dir) is not None, "a new server answers")
            await client.connection_pool.disconnect()

            async def is_loaded() -> bool:
                with contextlib.suppress(BusyLoadingError):
                    return bool(await client.get("job") == b"queued")
                return False

            await until(is_loaded, "the new server has its content")
            assert await server_pid(client) != first
        watch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watch


def damage(data_dir: Path) -> None:
    (log,) = (data_dir / "coordination" / "appendonlydir").glob("*.incr.aof")
    log.write_bytes(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n" + b"nonsense\r\n" * 20)


async def test_watch_gives_up_when_the_server_cannot_be_restarted(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as (server, client):
        watch = asyncio.create_task(server.watch())
        await client.set("a", "1")
        pid = await server_pid(client)
        damage(tmp_path / "data")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(CoordinationError, match="log"):
            await watch


async def test_watch_ends_when_the_server_is_stopped_on_purpose(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as (server, _):
        watch = asyncio.create_task(server.watch())
        await asyncio.sleep(0)
        await server.stop()
        await watch


async def test_file_is_put_aside_when_nothing_of_it_can_be_used(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as (_, client):
        await client.set("a", "1")
        await client.bgrewriteaof()

        async def is_rewritten() -> bool:
            return len(list((tmp_path / "data/coordination/appendonlydir").glob("*.2.base.rdb"))) == 1

        await until(is_rewritten)
    (base,) = (tmp_path / "data" / "coordination" / "appendonlydir").glob("*.base.rdb")
    base.write_bytes(b"nonsense" * 20)
    async with running(tmp_path / "data") as (server, client):
        assert server.repair is not None
        assert server.repair.is_whole
        assert (server.repair.kept / base.name).read_bytes() == b"nonsense" * 20
        assert await client.get("a") is None
        await client.set("b", "2")
    async with running(tmp_path / "data") as (server, client):
        assert server.repair is None
        assert await client.get("b") == b"2"


@pytest.mark.parametrize("tail", [bytes(4096), b"nonsense\r\n" * 20, b"*3\r\n$3\r\nSET\r\n$1\r\nb\0\0\0\0"])
async def test_tail_is_cut_and_kept_when_it_is_damaged(tmp_path: Path, tail: bytes) -> None:
    async with running(tmp_path / "data") as (_, client):
        await client.set("a", "1")
    (log,) = (tmp_path / "data" / "coordination" / "appendonlydir").glob("*.incr.aof")
    whole = log.read_bytes()
    log.write_bytes(whole + tail)
    async with running(tmp_path / "data") as (server, client):
        assert await client.get("a") == b"1"
        assert server.repair is not None
        assert (server.repair.cut_bytes, server.repair.is_whole) == (len(tail), False)
        assert (server.repair.kept / log.name).read_bytes() == whole + tail
        assert server.recovery_due
    # The process ended before jobs were looked for: that is still due, until it was done.
    async with running(tmp_path / "data") as (server, client):
        assert (server.repair, server.recovery_due) == (None, True)
        assert await client.get("a") == b"1"
        server.recovery_is_done()
    async with running(tmp_path / "data") as (server, _):
        assert not server.recovery_due


async def test_transaction_is_cut_as_a_whole_when_its_end_is_missing(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as (_, client):
        await client.set("a", "1")
    (log,) = (tmp_path / "data" / "coordination" / "appendonlydir").glob("*.incr.aof")
    half = b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n2\r\n"
    log.write_bytes(log.read_bytes() + half + bytes(100))
    async with running(tmp_path / "data") as (server, client):
        assert await client.get("a") == b"1"
        assert server.repair is not None
        assert server.repair.cut_bytes == len(half) + 100


async def test_server_starts_when_the_last_record_was_cut_off(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as (_, client):
        await client.set("a", "1")
    (log,) = (tmp_path / "data" / "coordination" / "appendonlydir").glob("*.incr.aof")
    log.write_bytes(log.read_bytes() + b"*3\r\n$3\r\nSET\r\n$1\r\nb")
    async with running(tmp_path / "data") as (_, client):
        assert await client.get("a") == b"1"
        assert await client.get("b") is None


@pytest.mark.parametrize("where", ["/dev/null/data", "/proc/data"])
async def test_directory_is_explained_when_it_cannot_be_made(where: str) -> None:
    with pytest.raises(CoordinationError, match=f"The data directory {where} can't be used"):
        await EmbeddedServer(Path(where), owner="quire serve").start()


async def test_log_starts_afresh_when_the_server_starts(tmp_path: Path) -> None:
    async with running(tmp_path / "data"):
        pass
    log = tmp_path / "data" / "coordination" / "valkey.log"
    log.write_text("x" * 1_000_000)
    async with running(tmp_path / "data"):
        assert log.stat().st_size < 100_000


OWNER = """
import asyncio, pathlib, subprocess, sys
from quire.coordination.embedded_server import EmbeddedServer

async def main():
    server = EmbeddedServer(pathlib.Path(sys.argv[1]), owner="quire serve")
    await server.start()
    if len(sys.argv) > 2:  # a child that outlives us and would keep whatever it inherits
        subprocess.Popen(["sleep", "1000"], close_fds=False, stdout=subprocess.DEVNULL)
    print("started", flush=True)
    await server.watch()

asyncio.run(main())
"""


async def test_new_owner_takes_over_when_the_old_one_is_killed(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    for round_number in range(3):
        owner = subprocess.Popen(  # noqa: ASYNC220 - a moment, and nothing else runs here
            [sys.executable, "-c", OWNER, str(data_dir), "with-child"], stdout=subprocess.PIPE
        )
        assert owner.stdout is not None
        assert await asyncio.to_thread(owner.stdout.readline) == b"started\n"
        url = EmbeddedServer.attach_url(data_dir)
        assert url is not None
        client = Redis.from_url(url)
        pid = await server_pid(client)
        assert await client.incr("rounds") == 2 * round_number + 1
        await client.aclose()
        family = descendants(owner.pid)
        owner.kill()
        owner.wait()
        owner.stdout.close()
        try:
            async with running(data_dir) as (_, client):
                assert not alive(pid), "two servers on one file"
                assert await client.incr("rounds") == 2 * round_number + 2
        finally:
            for one in family - {pid}:
                os.kill(one, signal.SIGKILL)


async def test_start_leaves_nothing_when_it_is_cancelled(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    start = asyncio.create_task(EmbeddedServer(tmp_path / "data", owner="quire serve").start())
    await until(lambda: bool(descendants(os.getpid()) - before) or start.done(), "the server process exists")
    start.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await start
    if start.cancelled():
        assert descendants(os.getpid()) <= before
        async with running(tmp_path / "data"):
            pass
