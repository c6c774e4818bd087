"""Connections of a simulated fleet: the real scripts on a real server, behind a network that delays and loses.

A command waits a while, is executed, and its answer waits a while; the seed draws the times. It may be lost before it
is executed, or its answer afterwards. Keys expire by virtual time.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hiredis import Reader, pack_command
from redis._parsers.base import BaseParser

from quire.coordination import keys
from quire.coordination.connection import Arg, PendingCommands, RedisConnection, load_scripts
from quire.coordination.streams import QUEUES
from quire.errors import CoordinationError
from tests.simulation.virtual_loop import VirtualClock

_SIGNALS = keys.work_interrupt("").partition("worker")[0]
_WORKERS = keys.worker("")
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
_READ_BYTES = 1 << 14
_NO_ANSWER = object()
load_scripts_once = cache(load_scripts)
"""The scripts, read from their files once for thousands of connections."""


@dataclass(frozen=True)
class ClaimCheck:
    """A claim of a unit, with what the server knew about the unit just before. Lists are filled when answers arrive."""

    unit: str
    owner: str
    token: str
    dead: str
    is_dead_alive: bool
    """Whether the owner that the claimer believes dead had a heartbeat."""
    before: list[Any]
    answers: list[Any]
    place: int

    def wrong(self) -> tuple[str, bool]:
        """What is wrong with a claim that was granted, '' if nothing; and whether that depends on who is dead."""
        answer = self.answers[self.place]
        if not self.before[0] or not isinstance(answer, list) or answer[0] != "run":
            return "", False
        entry = json.loads(self.before[0])
        if entry["o"] and entry["o"] != self.dead and entry["tk"] != self.token:
            return f"{self.owner} claimed {self.unit}, which {entry['o']} holds", False
        if entry["o"] and entry["o"] == self.dead and self.is_dead_alive:
            return f"{self.owner} took {self.unit} from {self.dead}, which is alive", True
        return "", False


@dataclass(eq=False)
class BlockedClient:
    """A BZPOPMIN; `serve` gets what it popped, or None when its time is over."""

    names: list[str]
    serve: Callable[[Any], None]
    timer: asyncio.TimerHandle | None = None


class SimulatedServer:
    """One real server, used by one command at a time.

    Commands are sent in their order, but not at once: those of the next virtual milliseconds travel with them to the
    real server, until the first of their answers is wanted.
    """

    def __init__(self, socket_path: Path) -> None:
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line.connect(str(socket_path))
        self._reader = Reader(replyError=BaseParser.parse_error, encoding="utf-8", notEnoughData=_NO_ANSWER)
        self._unsent: list[bytes] = []
        self._unanswered: list[list[Any]] = []
        """Where the answer of each unsent command goes."""
        self._lock_sha = load_scripts_once()["plain/hold_lock"].sha
        self._claim_sha = load_scripts_once()["job/claim"].sha
        self._claims: list[ClaimCheck] = []
        self.double_claims: list[str] = []
        """Units that were claimed although their holder had not released them, in this schedule."""
        self.taken_from_living: list[str] = []
        """Units that were taken from a holder with a heartbeat; right only where the claimer's news were late."""
        self._expiry: dict[str, float] = {}
        self._blocked: list[BlockedClient] = []
        self.commands = self.round_trips = 0
        # Else the first schedule would differ: a server that does not know a script gets its text instead.
        self._send([("SCRIPT", "LOAD", one.text) for one in load_scripts_once().values()], [])

    def close(self) -> None:
        self._line.close()

    def start(self, clock: VirtualClock) -> None:
        """An empty server for the next schedule."""
        self.clock = clock
        self._blocked.clear()
        self.lose_everything()
        self.collect()
        self.double_claims.clear()
        self.taken_from_living.clear()

    def lose_everything(self) -> None:
        self._expiry.clear()
        self._send([("FLUSHALL",)], [])

    def execute(self, commands: Sequence[tuple[Arg, ...]]) -> list[Any]:
        """Executes the commands. The list has their answers after `collect`; a refused one is answered by its error."""
        now, answers = self.clock.now(), list[Any]()
        self._expire(now)
        for number, args in enumerate(commands):
            if args[0] == "EVALSHA" and args[1] == self._claim_sha:
                self._watch(args, answers, number)
            self._send([self._in_virtual_time(args)], answers)
        for number, args in enumerate(commands):
            if args[0] == "EVALSHA" and args[1] == self._lock_sha:
                self.collect()
                if answers[number] == args[4]:
                    self._expiry[str(args[3])] = now + float(args[5]) / 1000
            elif args[0] == "ZADD" and self._blocked and str(args[1]).startswith(_SIGNALS):
                self._serve([one for one in self._blocked if args[1] in one.names])
        return answers

    def collect(self) -> None:
        """Sends what is unsent and gives all answers."""
        if not self._unsent:
            return
        self.round_trips += 1
        self._line.sendall(b"".join(self._unsent))
        for answers in self._unanswered:
            while (answer := self._reader.gets()) is _NO_ANSWER:
                self._reader.feed(self._line.recv(_READ_BYTES))
            answers.append(answer)
        self._unsent.clear()
        self._unanswered.clear()
        for claim in self._claims:
            wrong, is_about_death = claim.wrong()
            if wrong:
                (self.taken_from_living if is_about_death else self.double_claims).append(wrong)
        self._claims.clear()

    def block(self, client: BlockedClient, timeout_s: float) -> None:
        """Serves the client at once, or when a member is added to one of its sets; first come, first served."""
        self._expire(self.clock.now())
        client.timer = asyncio.get_running_loop().call_later(timeout_s, self._end_wait, client, None)
        self._blocked.append(client)
        self._serve([client])

    def forget(self, client: BlockedClient) -> None:
        """The client's connection has ended."""
        if client in self._blocked:
            self._blocked.remove(client)
            if client.timer is not None:
                client.timer.cancel()

    def _watch(self, args: tuple[Arg, ...], answers: list[Any], number: int) -> None:
        """Asks for the unit's entry before the claim that follows."""
        unit, _epoch, owner, token, dead, _now = map(str, args[-6:])
        work = next(str(key) for key in args if str(key).endswith(":work"))
        is_alive = keys.worker(dead) in self._expiry
        check = ClaimCheck(f"{work} {unit}", owner, token, dead, is_alive, [], answers, number)
        self._claims.append(check)
        self._send([("HGET", work, unit)], check.before)

    def _serve(self, clients: list[BlockedClient]) -> None:
        popped: list[Any] = []
        self._send([("EVAL", _POP_FIRST, len(one.names), *one.names) for one in clients], popped)
        self.collect()
        for client, found in zip(clients, popped, strict=True):
            if found:
                self._end_wait(client, found)

    def _end_wait(self, client: BlockedClient, popped: Any) -> None:
        self.forget(client)
        client.serve(popped)

    def _expire(self, now: float) -> None:
        expired = [key for key, at in self._expiry.items() if at <= now]
        if expired:
            for key in expired:
                del self._expiry[key]
            self._send([("DEL", *expired)], [])

    def _in_virtual_time(self, args: tuple[Arg, ...]) -> tuple[Arg, ...]:
        if args[0] == "SET" and "PX" in args and str(args[1]).startswith(_WORKERS):
            at = args.index("PX")
            self._expiry[str(args[1])] = self.clock.now() + float(args[at + 1]) / 1000
            return args[:at]
        if args[0] == "EVALSHA" and args[1] == self._lock_sha:
            return (*args[:5], _LONGER_THAN_A_RUN_MS)
        if args[0] == "XADD" and args[1] in _STREAMS:
            at = args.index("*")
            return (*args[:at], f"{int(self.clock.now() * 1000)}-*", *args[at + 1 :])
        return args

    def _send(self, commands: Sequence[tuple[Arg, ...]], answers: list[Any]) -> None:
        self.commands += len(commands)
        self._unsent += map(pack_command, commands)  # type: ignore[arg-type]  # tuples of any length
        self._unanswered += [answers] * len(commands)


class SimulatedConnection(RedisConnection):
    """The connection of one process of the fleet. After `kill` nothing that it sent is executed any more."""

    def __init__(self, server: SimulatedServer, chance: random.Random, losses: float) -> None:
        super().__init__(None, load_scripts_once(), "simulated://")  # type: ignore[arg-type]
        self._server = server
        self._chance = chance
        self._lost_share = losses
        self.is_dead = False
        self.stalled_until_s = 0.0

    def kill(self) -> None:
        self.is_dead = True

    def _enqueue(
        self, commands: Sequence[tuple[Arg, ...]], *, keeps_refusals: bool = False
    ) -> asyncio.Future[list[Any]]:
        """As the real one: what is issued in one turn of the loop travels together."""
        loop = asyncio.get_running_loop()
        sent = PendingCommands(commands, loop.create_future(), keeps_refusals)
        self._pending.append(sent)
        if len(self._pending) == 1:
            loop.call_soon(self._depart)
        return sent.answers

    def _depart(self) -> None:
        sent, self._pending = self._pending, []
        self._travel(self._arrive, sent, self._chance.random())

    def _arrive(self, sent: list[PendingCommands], fate: float) -> None:
        if self.is_dead or fate < self._lost_share:
            self._fail(sent)
            return
        answers = self._server.execute([args for one in sent for args in one.commands])
        self._travel(self._return, sent, answers, fate)

    def _return(self, sent: list[PendingCommands], answers: list[Any], fate: float) -> None:
        if self.is_dead or fate < 2 * self._lost_share:
            self._fail(sent)
        else:
            if len(answers) < sum(len(one.commands) for one in sent):
                self._server.collect()
            self._deliver(sent, answers)

    async def blocking(self, *args: Arg) -> Any:
        """BZPOPMIN. A caller that is cancelled ends the connection."""
        name, *names, timeout_s = args
        assert name == "BZPOPMIN", name
        sent = PendingCommands([args], asyncio.get_running_loop().create_future())
        fate = self._chance.random()
        client = BlockedClient(
            list(map(str, names)), lambda popped: self._travel(self._return, [sent], [popped], fate)
        )

        def arrive() -> None:
            if self.is_dead or fate < self._lost_share:
                self._fail([sent])
            elif not sent.answers.done():
                self._server.block(client, float(timeout_s))

        self._travel(arrive)
        try:
            return (await sent.answers)[0]
        finally:
            self._server.forget(client)

    def _travel(self, arrive: Callable[..., object], *what: Any) -> None:
        loop = asyncio.get_running_loop()
        begins_s = max(loop.time(), self.stalled_until_s)
        loop.call_at(begins_s + self._chance.expovariate(200.0), arrive, *what)

    def _fail(self, sent: Sequence[PendingCommands]) -> None:
        self.losses += 1
        for one in sent:
            if not one.answers.done():
                one.fail(CoordinationError("The simulated network lost it."))
                one.answers.exception()  # the process that asked may be dead
