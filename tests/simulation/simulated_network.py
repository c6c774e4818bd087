"""Connections of a simulated fleet: the real scripts on a real server, behind a network that delays and loses.

A command waits a while, is executed, and its answer waits a while; the seed draws the times. It may be lost before it
is executed, or its answer afterwards. Keys expire by virtual time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from hiredis import pack_command
from redis.connection import Connection
from redis.exceptions import ResponseError

from quire.coordination import keys
from quire.coordination.connection import Arg, PendingCommands, RedisConnection, load_scripts
from quire.coordination.streams import QUEUES
from quire.errors import CoordinationError
from tests.simulation.virtual_loop import VirtualClock

_SIGNALS = keys.work_interrupt("").partition("worker")[0]
_STREAMS = {stream for queue in QUEUES.values() for stream in queue.streams} | {
    queue.dlq for queue in QUEUES.values()
}
_LONGER_THAN_A_RUN_MS = 86_400_000
"""A lock that expired by the server's own time, too, would make a schedule depend on the machine's speed."""
_POP_FIRST = """
for _, key in ipairs(KEYS) do
  local found = redis.call('ZPOPMIN', key)
  if found[1] then return {key, found[1], found[2]} end
end
return false
"""
"""BZPOPMIN as far as it does not block, which it does not in a script."""
load_scripts_once = cache(load_scripts)
"""The scripts, read from their files once for thousands of connections."""


class SimulatedServer:
    """One real server, used by one command at a time."""

    def __init__(self, port: int) -> None:
        self._line = Connection(host="127.0.0.1", port=port, decode_responses=True, protocol=2)
        self._lock_sha = load_scripts_once()["plain/hold_lock"].sha
        self._expiry: dict[str, float] = {}
        self.commands = 0
        # Else the first schedule would differ: a server that does not know a script gets its text instead.
        self._send([("SCRIPT", "LOAD", one.text) for one in load_scripts_once().values()])

    def start(self, clock: VirtualClock) -> None:
        """An empty server for the next schedule."""
        self.clock = clock
        self._expiry.clear()
        self.added = asyncio.Event()
        self._send([("FLUSHALL",)])

    def lose_everything(self) -> None:
        self._expiry.clear()
        self._send([("FLUSHALL",)])

    def execute(self, commands: Sequence[tuple[Arg, ...]]) -> list[Any]:
        """Executes the commands in one round trip; a refused one is answered by its error."""
        now = self.clock.now()
        expired = [key for key, at in self._expiry.items() if at <= now]
        for key in expired:
            del self._expiry[key]
        sent: list[tuple[Arg, ...]] = [("DEL", *expired)] if expired else []
        sent += map(self._in_virtual_time, commands)
        answers = self._send(sent)[-len(commands) :]
        for args, answer in zip(commands, answers, strict=True):
            if args[0] == "EVALSHA" and args[1] == self._lock_sha and answer == args[4]:
                self._expiry[str(args[3])] = now + float(args[5]) / 1000
            if args[0] == "ZADD" and str(args[1]).startswith(_SIGNALS):
                self.added.set()
                self.added = asyncio.Event()
        return answers

    def _in_virtual_time(self, args: tuple[Arg, ...]) -> tuple[Arg, ...]:
        if args[0] == "SET" and "PX" in args and str(args[1]).startswith(keys.worker("")):
            at = args.index("PX")
            self._expiry[str(args[1])] = self.clock.now() + float(args[at + 1]) / 1000
            return args[:at]
        if args[0] == "EVALSHA" and args[1] == self._lock_sha:
            return (*args[:5], _LONGER_THAN_A_RUN_MS)
        if args[0] == "XADD" and args[1] in _STREAMS:
            at = args.index("*")
            return (*args[:at], f"{int(self.clock.now() * 1000)}-*", *args[at + 1 :])
        return args

    def _send(self, commands: Sequence[tuple[Arg, ...]]) -> list[Any]:
        self.commands += len(commands)
        packed = b"".join(pack_command(args) for args in commands)  # type: ignore[arg-type]  # any length
        self._line.send_packed_command([packed])
        answers: list[Any] = []
        for _ in commands:
            try:
                answers.append(self._line.read_response())
            except ResponseError as error:
                answers.append(error)
        return answers


class SimulatedConnection(RedisConnection):
    """The connection of one process of the fleet. After `kill` nothing that it sent is executed any more."""

    def __init__(self, server: SimulatedServer, chance: random.Random, losses: float) -> None:
        super().__init__(None, load_scripts_once(), "simulated://")  # type: ignore[arg-type]
        self._server = server
        self._chance = chance
        self._lost_share = losses
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_dead = False
        self.stalled_until_s = 0.0

    def kill(self) -> None:
        self.is_dead = True

    def _enqueue(self, commands: Sequence[tuple[Arg, ...]]) -> asyncio.Future[list[Any]]:
        """As the real one: what is issued in one turn of the loop travels together."""
        loop = asyncio.get_running_loop()
        sent = PendingCommands(commands, loop.create_future())
        self._pending.append(sent)
        if len(self._pending) == 1:
            task = loop.create_task(self._exchange())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return sent.answers

    async def _exchange(self) -> None:
        await asyncio.sleep(0)
        sent, self._pending = self._pending, []
        fate = self._chance.random()
        await self._travel()
        if self.is_dead or fate < self._lost_share:
            self._fail(sent)
            return
        answers = self._server.execute([args for one in sent for args in one.commands])
        await self._travel()
        if self.is_dead or fate < 2 * self._lost_share:
            self._fail(sent)
            return
        self._deliver(sent, answers)

    async def blocking(self, *args: Arg) -> Any:
        """BZPOPMIN, by asking again whenever something was added."""
        name, *names, timeout_s = args
        assert name == "BZPOPMIN", name
        deadline = self._server.clock.monotonic() + float(timeout_s)
        while True:
            added = self._server.added
            if found := await self.command("EVAL", _POP_FIRST, len(names), *names):
                return found
            left_s = deadline - self._server.clock.monotonic()
            if left_s <= 0:
                return None
            try:
                async with asyncio.timeout(left_s):
                    await added.wait()
            except TimeoutError:
                return None

    async def _travel(self) -> None:
        stalled_s = max(0.0, self.stalled_until_s - self._server.clock.monotonic())
        await asyncio.sleep(stalled_s + self._chance.expovariate(200.0))

    def _fail(self, sent: Sequence[PendingCommands]) -> None:
        self.losses += 1
        for one in sent:
            if not one.answers.done():
                one.fail(CoordinationError("The simulated network lost it."))
                one.answers.exception()  # the process that asked may be dead
