"""The connection: few round trips, scripts that come back, servers that go and come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from quire.coordination.connection import RedisConnection
from quire.errors import CoordinationCommandError, CoordinationError
from tests.support.coordination_servers import Restartable, ask, free_port
from tests.support.waiting import DEADLINE_S


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Restartable]:
    server = Restartable(tmp_path)
    server.start()
    yield server
    server.kill()


async def _reads(connection: RedisConnection) -> int:
    info = await connection.command("INFO", "stats")
    if isinstance(info, dict):
        return int(info["total_reads_processed"])
    return next(int(line.split(":")[1]) for line in info.splitlines() if "total_reads_processed" in line)


async def test_commands_share_round_trips_when_issued_together(connection: RedisConnection) -> None:
    before = await _reads(connection)
    await asyncio.gather(*(connection.command("SET", f"k{n}", n) for n in range(500)))
    after = await _reads(connection)
    assert after - before < 50
    assert await connection.commands([("GET", f"k{n}") for n in range(500)]) == [str(n) for n in range(500)]


async def test_each_command_gets_its_own_answer_when_one_of_them_fails(connection: RedisConnection) -> None:
    await connection.command("SET", "text", "word")
    answers = await asyncio.gather(
        connection.command("GET", "text"),
        connection.command("INCR", "text"),
        connection.command("SET", "other", "1"),
        return_exceptions=True,
    )
    assert answers[0] == "word"
    assert isinstance(answers[1], CoordinationCommandError)
    assert answers[2] in (True, "OK")


async def test_other_commands_of_a_list_are_answered_when_one_of_them_is_refused(
    connection: RedisConnection,
) -> None:
    await connection.command("SET", "text", "x")
    found = await connection.outcomes([("GET", "text"), ("INCR", "text"), ("STRLEN", "text")])
    assert (found[0], found[2]) == ("x", 1)
    assert isinstance(found[1], CoordinationCommandError)
    assert "not an integer" in str(found[1].__cause__)
    assert await connection.outcomes([]) == []


async def test_a_command_is_sent_when_all_flushes_end_in_the_same_moment(
    connection: RedisConnection, shared_server: str
) -> None:
    """The answer to one command leads to another before the loop has noticed that the flushes are over."""
    port = urlsplit(shared_server).port or 0

    async def ask_twice() -> object:
        await connection.command("PING")
        return await connection.command("PING")

    for turn in range(8):
        ask(port, "CLIENT", "PAUSE", "60", "ALL")
        asking = []
        for place in range(4):  # which of them is heard first is not ours to say, so each has its turn
            question = ask_twice() if place == turn % 4 else connection.command("PING")
            asking.append(asyncio.create_task(question))
            for _ in range(20):
                await asyncio.sleep(0)
        time.sleep(0.1)  # noqa: ASYNC251 - all four answers are there when the loop looks again
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*asking)


async def test_scripts_are_loaded_again_when_the_server_has_forgotten_them(
    connection: RedisConnection,
) -> None:
    assert await connection.script("plain/swap_value", ["key"], "", "one", 60_000) == "one"
    await connection.command("SCRIPT", "FLUSH")
    assert await connection.script("plain/swap_value", ["key"], "one", "two", 60_000) == "two"
    assert await connection.command("GET", "key") == "two"


async def test_commands_go_on_when_the_server_was_restarted(restartable: Restartable) -> None:
    connection = RedisConnection.open(restartable.url)
    try:
        await connection.command("SET", "kept", "yes")
        await connection.script("plain/swap_value", ["other"], "", "one", 600_000)
        restartable.kill()
        waiting = asyncio.create_task(connection.command("GET", "kept"))
        await asyncio.to_thread(restartable.start)
        async with asyncio.timeout(DEADLINE_S):
            assert await waiting == "yes"
            assert await connection.script("plain/swap_value", ["other"], "one", "two", 600_000) == "two"
            assert await connection.blocking("XREAD", "BLOCK", 10, "STREAMS", "none", "0") in (None, [])
    finally:
        await connection.close()


@pytest.mark.parametrize("scheme", ["redis", "redis+sentinel"])
async def test_an_error_names_the_server_without_credentials_when_it_is_away(scheme: str) -> None:
    port = free_port()
    path = "/mymaster/0" if scheme == "redis+sentinel" else "/0"
    connection = RedisConnection.open(f"{scheme}://somebody:hush-hush@127.0.0.1:{port}{path}")
    try:
        with pytest.raises(CoordinationError) as caught:
            await connection.ping()
    finally:
        await connection.close()
    assert str(port) in caught.value.public
    assert "hush-hush" not in caught.value.public
    assert "somebody" not in caught.value.public
    assert caught.value.retryable


async def test_an_error_has_no_credentials_when_the_password_is_wrong(restartable: Restartable) -> None:
    ask(restartable.port, "CONFIG", "SET", "requirepass", "right")
    connection = RedisConnection.open(f"redis://:hush-hush@127.0.0.1:{restartable.port}/0")
    try:
        with pytest.raises(CoordinationError) as caught:
            await connection.ping()
    finally:
        await connection.close()
    assert "hush-hush" not in caught.value.public


async def test_a_caller_that_left_disturbs_nobody_when_its_answer_comes(connection: RedisConnection) -> None:
    leaving = [asyncio.create_task(connection.command("SET", f"left{n}", n)) for n in range(20)]
    staying = [asyncio.create_task(connection.command("SET", f"stay{n}", n)) for n in range(20)]
    await asyncio.sleep(0)
    for task in leaving:
        task.cancel()
    assert all(answer in (True, "OK") for answer in await asyncio.gather(*staying))
    assert await connection.command("GET", "stay19") == "19"


def _refused(reply: str) -> Exception:
    """The error that the client raises for this reply of a server."""
    from redis._parsers import BaseParser

    return BaseParser.parse_error(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
        "CLUSTERDOWN Hash slot not served",
        "MASTERDOWN Link with MASTER is down",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "BUSY Redis is busy running a script.",
        "MISCONF Errors writing to the AOF file: No space left on device",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
        "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't write",
    ],
)
def test_a_reply_is_an_outage_when_the_server_cannot_serve_now(reply: str) -> None:
    connection = RedisConnection.open("redis://127.0.0.1:1/0")
    assert type(connection._translated(_refused(reply))) is CoordinationError


@pytest.mark.parametrize(
    "reply",
    [
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "ERR user_script:3: Script attempted to access nonexistent global variable 'wanted'",
        "ERR unknown command 'NOPE'",
        "NOPERM this user has no permissions to run the command",
        "CROSSSLOT Keys in request don't hash to the same slot",
    ],
)
def test_a_reply_is_never_retried_when_the_command_itself_is_wrong(reply: str) -> None:
    connection = RedisConnection.open("redis://127.0.0.1:1/0")
    error = connection._translated(_refused(reply))
    assert type(error) is CoordinationCommandError
    assert not error.retryable


async def test_a_script_fails_at_once_with_its_cause_when_it_has_a_defect(
    connection: RedisConnection,
) -> None:
    with pytest.raises(CoordinationCommandError) as found:
        await connection.command("EVAL", "return redis.call('HGET', KEYS[1])", 1, "k")
    assert "Wrong number of args" in str(found.value.__cause__)
    with pytest.raises(CoordinationCommandError):
        await connection.blocking("LPUSH", "only-a-key")


async def test_a_blocking_call_ends_when_the_client_loses_its_cancellation(
    connection: RedisConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def lose_cancellation(*_args: object) -> None:
        """What asyncio.wait_for of Python 3.11 does when the answer arrives in the same turn."""
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    monkeypatch.setattr(connection._client, "execute_command", lose_cancellation)

    async def listen() -> None:
        while True:
            await connection.blocking("BZPOPMIN", "none", 1)

    listening = asyncio.create_task(listen())
    await begun.wait()
    listening.cancel()
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.wait({listening})
    assert listening.cancelled()
