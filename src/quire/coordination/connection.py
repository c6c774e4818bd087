"""The connection to Redis or Valkey: scripts by name, and concurrent commands sent in one pipeline.

Commands that are issued while a flush is pending share its pipeline, so that many concurrent units cost few round
trips. On a cluster each command goes to its own node instead.

Weakness: a command repeated after a lost connection may have been executed before. Every command sent here is
safe to repeat: claims carry a token, results are compare-and-set, a doubled queue entry is dropped by its claim.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from hiredis import pack_command
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.client import PubSub
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AskError,
    ClusterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from quire.coordination.keys import JobKeys
from quire.coordination.server_address import ServerAccess, make_client, shown
from quire.errors import CoordinationCommandError, CoordinationError

Arg = str | int | float | bytes

_PRELUDE = "_prelude.lua"
_FLUSHES_AT_ONCE = 2
"""Each uses a connection. More make no process faster: what waits joins the next pipeline."""
_COMMANDS_IN_A_FLUSH = 256

_OUTAGES = (ReadOnlyError, ClusterDownError, TryAgainError, OutOfMemoryError, AskError)
"""Replies that redis-py has classes for. AskError includes MovedError, ClusterDownError includes MasterDownError."""
_OUTAGE_CODES = (
    "BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|TRYAGAIN|UNBLOCKED|UNKILLABLE"
)
_OUTAGE_REPLY = re.compile(rf"(?:{_OUTAGE_CODES})\b|(?:ERR )?Error running script.*-(?:{_OUTAGE_CODES})\b")
"""The same by the code in their text. Before version 7 the server wraps the reply that a script got."""


_TLS_HINT = " (rediss:// speaks TLS: a server without it needs redis://)"


@dataclass(frozen=True, slots=True)
class PendingCommands:
    """Commands that are sent in this order, in one pipeline, and the future of their answers."""

    commands: Sequence[tuple[Arg, ...]]
    answers: asyncio.Future[list[Any]]
    keeps_refusals: bool = False

    def keeps(self, error: Exception) -> bool:
        """Whether this error is an answer."""
        return self.keeps_refusals and isinstance(error, CoordinationCommandError)

    def fail(self, error: Exception) -> None:
        if not self.answers.done():
            self.answers.set_exception(error)


class RedisConnection:
    """One process's connection to the coordination plane.

    Raises CoordinationError while the server is out of reach (worth a retry), CoordinationCommandError when the server
    refuses a command or a script fails (never worth a retry).
    """

    def __init__(self, client: Redis | RedisCluster, scripts: dict[str, Script], url: str) -> None:
        self._client = client
        self._scripts = scripts
        self.url = url
        self.where = shown(url)
        self._pending: list[PendingCommands] = []
        self._flushes: set[asyncio.Task[None]] = set()
        self._lines: list[AbstractConnection] = []  # idle: no flush uses them
        self.losses = 0
        """How often a connection was lost whose commands were sent again: the server may have executed them twice."""

    @classmethod
    def open(cls, url: str, access: ServerAccess | None = None) -> RedisConnection:
        """Connects when it is first used. The forms of the URL are those of `server_address`."""
        return cls(make_client(url, access or ServerAccess()), load_scripts(), url)

    async def close(self) -> None:
        await self._client.aclose()

    async def command(self, *args: Arg) -> Any:
        """Sends one command, in one pipeline with all others that are pending."""
        return (await self._enqueue([args]))[0]

    async def commands(self, commands: Iterable[tuple[Arg, ...]]) -> list[Any]:
        """Several commands in one round trip, executed in this order unless the server is a cluster; the first error is
        raised."""
        sent = list(commands)
        return await self._enqueue(sent) if sent else []

    async def outcomes(self, commands: Iterable[tuple[Arg, ...]]) -> list[Any]:
        """As `commands`, but a command that the server refuses is answered by its CoordinationCommandError."""
        sent = list(commands)
        return await self._enqueue(sent, keeps_refusals=True) if sent else []

    def _enqueue(
        self, commands: Sequence[tuple[Arg, ...]], *, keeps_refusals: bool = False
    ) -> asyncio.Future[list[Any]]:
        answers: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._pending.append(PendingCommands(commands, answers, keeps_refusals))
        if len(self._flushes) < _FLUSHES_AT_ONCE:
            self._start_flush()
        return answers

    @property
    def is_cluster(self) -> bool:
        return isinstance(self._client, RedisCluster)

    async def any_exists(self, keys: Sequence[str]) -> bool:
        """Whether one of these keys exists: one command, on a cluster one for each key."""
        asked = [("EXISTS", key) for key in keys] if self.is_cluster else [("EXISTS", *keys)]
        return any(map(int, await self.commands(asked)))

    async def script(self, name: str, keys: Sequence[str], *args: Arg) -> Any:
        """Runs scripts/<name>.lua (`job/claim`); loads it first where the server does not know it (any more)."""
        script = self._scripts[name]
        try:
            return await self.command("EVALSHA", script.sha, len(keys), *keys, *args)
        except NoScriptError:
            return await self.command("EVAL", script.text, len(keys), *keys, *args)

    async def job_script(self, name: str, job_id: str, *args: Arg) -> Any:
        """Runs scripts/job/<name>.lua on the five keys of a job."""
        return await self.script(f"job/{name}", JobKeys.of(job_id).all(), *args)

    async def blocking(self, *args: Arg) -> Any:
        """Sends a command that may block on the server, on a socket of its own."""
        try:
            answer = await self._client.execute_command(*args)
        except Exception as error:  # a cluster client also raises errors that are no RedisError
            end_if_cancelled()
            raise self._translated(error) from error
        end_if_cancelled()
        return answer

    @asynccontextmanager
    async def subscription(self) -> AsyncIterator[PubSub]:
        """A subscription of its own connection. Every error within the block ends it as a CoordinationError or a
        CoordinationCommandError."""
        try:
            if isinstance(self._client, RedisCluster):
                # Else it knows no node to subscribe at until some command was sent.
                await self._client.initialize()
            pubsub = self._client.pubsub()
            try:
                yield pubsub
            finally:
                with suppress(Exception):  # the connection may be lost
                    await pubsub.aclose()  # type: ignore[no-untyped-call]
        except Exception as error:
            raise self._translated(error) from error

    async def ping(self) -> None:
        await self.command("PING")

    async def used_memory_bytes(self) -> int:
        """The memory that the server uses; 0 for a cluster, whose nodes each have their own."""
        if isinstance(self._client, RedisCluster):
            return 0
        match = re.search(r"^used_memory:(\d+)", await self.command("INFO", "memory"), re.M)
        return int(match[1]) if match else 0

    async def server_runs(self) -> str:
        """Identifies the running processes of all primaries: another one after each restart or failover.

        Empty where the server does not tell.
        """
        try:
            if isinstance(self._client, RedisCluster):
                asked = self._client.execute_command("INFO", "server", target_nodes=RedisCluster.PRIMARIES)
                return " ".join(sorted(str(one.get("run_id", "")) for one in (await asked).values()))
            match = re.search(r"^run_id:(\w+)", await self.command("INFO", "server"), re.M)
        except CoordinationError:
            raise
        except CoordinationCommandError:
            return ""
        except Exception as error:
            raise self._translated(error) from error
        return match[1] if match else ""

    def _start_flush(self) -> None:
        task = asyncio.create_task(self._flush(), name="redis-flush")
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    async def _flush(self) -> None:
        # One turn of the loop lets everything that is ready now join the same round trip.
        await asyncio.sleep(0)
        await self._send_pending()
        # Not left to the done-callback: a command issued before that runs would rely on a flush that has ended.
        self._flushes.discard(asyncio.current_task())

    async def _send_pending(self) -> None:
        while self._pending:
            batch = self._next_batch()
            try:
                answers = await self._send([args for pending in batch for args in pending.commands])
            except Exception as error:
                answers = [error] * sum(len(pending.commands) for pending in batch)
            except BaseException as error:
                for pending in batch:
                    pending.fail(CoordinationError(f"Sending to {self.where} was interrupted."))
                raise error
            self._deliver(batch, answers)

    def _deliver(self, batch: list[PendingCommands], answers: list[Any]) -> None:
        """Gives commands whose caller still waits their answers, or their first error, translated."""
        at = 0
        for pending in batch:
            own = answers[at : at + len(pending.commands)]
            at += len(own)
            failed = [place for place, one in enumerate(own) if isinstance(one, Exception)]
            if failed:
                own = self._with_errors(own, failed)
            error = next((own[place] for place in failed if not pending.keeps(own[place])), None)
            if error is not None:
                pending.fail(error)
            elif not pending.answers.done():
                pending.answers.set_result(own)

    def _with_errors(self, answers: list[Any], failed: list[int]) -> list[Any]:
        """The answers with our errors; a script that is not known is loaded by `script`."""
        made = list(answers)
        for place in failed:
            if not isinstance(answers[place], NoScriptError):
                made[place] = self._translated(answers[place])
                made[place].__cause__ = answers[place]
        return made

    def _next_batch(self) -> list[PendingCommands]:
        taken = commands = 0
        for pending in self._pending:
            commands += len(pending.commands)
            if taken and commands > _COMMANDS_IN_A_FLUSH:
                break
            taken += 1
        batch = self._pending[:taken]
        del self._pending[:taken]
        return batch

    async def _send(self, commands: list[tuple[Arg, ...]]) -> list[Any]:
        if isinstance(self._client, RedisCluster):
            return await asyncio.gather(
                *(self._client.execute_command(*args) for args in commands),
                return_exceptions=True,
            )
        return await self._pipelined(self._client, commands)

    async def _pipelined(self, client: Redis, commands: list[tuple[Arg, ...]]) -> list[Any]:
        """One write, then the replies. redis-py packs commands in Python, which costs more than the rest."""
        packed = b"".join(pack_command(args) for args in commands)  # type: ignore[arg-type]  # any length
        # Kept from flush to flush: the pool checks a connection at each checkout, and a lost one fails anyway.
        connection = self._lines.pop() if self._lines else await _new_line(client)

        async def attempt() -> list[Any]:
            if not connection.is_connected:
                # Sending would connect too, but to the old address: only `connect` asks the sentinels again.
                await connection.connect()  # type: ignore[no-untyped-call]
            await connection.send_packed_command(packed)
            answers: list[Any] = []
            for _ in commands:
                # A server that has begun to answer either goes on or cuts the connection.
                timeout = math.inf if answers else None
                try:
                    answers.append(await connection.read_response(timeout=timeout))
                except ResponseError as error:
                    answers.append(error)
            return answers

        async def lost(_error: Exception) -> None:
            self.losses += 1
            await connection.disconnect()

        try:
            answered: list[Any] = await connection.retry.call_with_retry(attempt, lost)
            return answered
        except BaseException:
            self.losses += 1
            await connection.disconnect(nowait=True)  # replies may still arrive that no command waits for
            raise
        finally:
            self._lines.append(connection)

    def _translated(self, error: Exception) -> CoordinationError | CoordinationCommandError:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        if "DB index is out of range" in reason:
            return CoordinationCommandError(
                f"The coordination server at {self.where} has no database of this number (REDIS_URL)."
            )
        if _is_outage(error):
            is_timeout = isinstance(error, TimeoutError | RedisTimeoutError)
            hint = _TLS_HINT if is_timeout and self.url.startswith("rediss") else ""
            return CoordinationError(
                f"The coordination server at {self.where} did not answer: {reason}{hint}"
            )
        first = reason.split(" ")[0]
        code = first if first.isupper() else "ERR"
        return CoordinationCommandError(
            f"An internal error happened: the coordination server refused a command ({code}). The log has the cause."
        )


def end_if_cancelled() -> None:
    """Raises CancelledError in a task that is being cancelled.

    The client waits with asyncio.wait_for, which before Python 3.12 loses a cancellation now and then.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def pairs(answer: Any) -> dict[str, str]:
    """The fields of a hash or of a stream entry, from either reply shape of the client."""
    if isinstance(answer, dict):
        return answer
    return dict(zip(answer[::2], answer[1::2], strict=True))


def _is_outage(error: Exception) -> bool:
    """Whether a retry can succeed: the server is out of reach, or says that it can't serve now."""
    if not isinstance(error, ResponseError):
        return True
    return isinstance(error, _OUTAGES) or _OUTAGE_REPLY.match(str(error)) is not None


async def _new_line(client: Redis) -> AbstractConnection:
    """A connection of the pool, which closes it with all others."""
    made: AbstractConnection = await client.connection_pool.get_connection()  # type: ignore[no-untyped-call]
    return made


class Script:
    """A Lua file and its hash."""

    __slots__ = ("sha", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def load_scripts() -> dict[str, Script]:
    """All Lua files below scripts/, named `folder/file`. A folder's prelude goes in front of each of its scripts."""
    scripts = {}
    for folder in (files("quire.coordination") / "scripts").iterdir():
        if not folder.is_dir():
            continue
        texts = {entry.name: entry.read_text() for entry in folder.iterdir() if entry.name.endswith(".lua")}
        prelude = texts.pop(_PRELUDE, "")
        for name, text in texts.items():
            scripts[f"{folder.name}/{name.removesuffix('.lua')}"] = Script(
                f"{prelude}\n{text}" if prelude else text
            )
    return scripts
