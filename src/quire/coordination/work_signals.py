"""Wake-ups for idle workers: one blocking connection waits for all queues of a worker.

A process that adds entries to a queue also adds members to the queue's signal, a small sorted set. The server gives
each member to the worker that has waited longest (BZPOPMIN), which then reads the queue without blocking. If it could
not take all entries, it signals again. So an entry wakes one worker, however many wait.

Weakness: a signal is lost with the worker that received it, or with a process that dies within 5 ms of adding entries.
The worker that leaves and the housekeeper that finds a dead one signal again; it also signals every ten seconds
for queues with entries that no worker has read; and every worker reads its queues once a minute without a signal.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress

from quire.coordination import keys
from quire.coordination.connection import Arg, RedisConnection
from quire.domain.job import UnitKind
from quire.errors import CoordinationCommandError, CoordinationError

_LOG = logging.getLogger(__name__)
_MEMBERS = 8
_BLOCK_S = 4.0  # less than the client waits for an answer, so that a lost connection is noticed
_READ_ANYWAY_S = 60.0
_INTERRUPT_TTL_S = 60
_PAUSE_S = 0.2
_APART_S = 0.005


def signal_commands(entries: Mapping[UnitKind, int]) -> list[tuple[Arg, ...]]:
    """The commands that wake a worker for each entry of each queue, at most eight."""
    return [
        ("ZADD", keys.work_signal(kind), *(part for one in range(min(count, _MEMBERS)) for part in (0, one)))
        for kind, count in entries.items()
        if count > 0
    ]


class SignalSender:
    """Sends the signals of one process, for each queue at most one every 5 ms: a busy process adds thousands of entries
    a second. What is not sent at once is sent soon, after its entries are stored."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._sent_at: dict[UnitKind, float] = {}
        self._unsent: Counter[UnitKind] = Counter()
        self._sending: asyncio.Task[None] | None = None

    def due(self, entries: Mapping[UnitKind, int]) -> dict[UnitKind, int]:
        """Returns those of the queues that a signal may be sent to at once; they count as signalled."""
        now = asyncio.get_running_loop().time()
        found = {
            kind: count
            for kind, count in entries.items()
            if now - self._sent_at.get(kind, -math.inf) >= _APART_S
        }
        self._sent_at.update(dict.fromkeys(found, now))
        return found

    def send_soon(self, entries: Mapping[UnitKind, int]) -> None:
        """Sends signals for entries that are stored. After an error all readers read their queues without one."""
        self._unsent.update(entries)
        if self._unsent and self._sending is None:
            self._sending = asyncio.create_task(self._send(), name="work-signals")

    async def _send(self) -> None:
        await asyncio.sleep(_APART_S)
        entries, self._unsent, self._sending = self._unsent, Counter(), None
        with suppress(CoordinationError, CoordinationCommandError):
            await self._connection.commands(signal_commands(entries))


class WorkSignals:
    """The wake-ups of one worker. Consumers call `wait`; `run` listens for all of them."""

    def __init__(self, connection: RedisConnection, worker_id: str) -> None:
        self._connection = connection
        self._interrupt = keys.work_interrupt(worker_id)
        self._flags: dict[UnitKind, asyncio.Event] = {}
        self._changed = asyncio.Event()
        self._listening: tuple[UnitKind, ...] | None = None

    async def send(self, kinds: Collection[UnitKind]) -> None:
        """Wakes one worker for each of these queues. Raises CoordinationError."""
        await self._connection.commands(signal_commands(dict.fromkeys(kinds, 1)))

    async def wait(self, kind: UnitKind) -> None:
        """Returns when entries may have been added to the queue, and after about a minute at the latest."""
        flag = self._flags[kind] = asyncio.Event()
        self._changed.set()
        try:
            if self._listening is not None and kind not in self._listening:
                await self._interrupt_listening()
            async with asyncio.timeout(_READ_ANYWAY_S * random.uniform(0.7, 1.3)):  # noqa: S311 - no secret
                await flag.wait()
        except (TimeoutError, CoordinationError, CoordinationCommandError):
            return
        finally:
            if self._flags.get(kind) is flag:
                del self._flags[kind]

    def wake(self, kind: UnitKind) -> bool:
        """Ends the wait for this queue in this process; False if nothing waits for it."""
        flag = self._flags.pop(kind, None)
        if flag is None:
            return False
        flag.set()
        return True

    async def run(self) -> None:
        """Listens until cancelled. After an error all queues are read: signals may be lost."""
        while True:
            # One turn of the loop lets consumers that were woken together wait together.
            await asyncio.sleep(0)
            self._changed.clear()
            if not self._flags:
                await self._changed.wait()
                continue
            try:
                await self._listen(tuple(self._flags))
            except (CoordinationError, CoordinationCommandError) as error:
                _LOG.debug("no signals", extra={"code": error.code})
                await asyncio.sleep(_PAUSE_S)
                for flag in list(self._flags.values()):
                    flag.set()
                await asyncio.sleep(_PAUSE_S)

    async def _listen(self, kinds: tuple[UnitKind, ...]) -> None:
        names = {keys.work_signal(kind): kind for kind in kinds}
        self._listening = kinds
        try:
            answer = await self._connection.blocking("BZPOPMIN", self._interrupt, *names, _BLOCK_S)
        finally:
            self._listening = None
        kind = names.get(str(answer[0])) if answer else None
        if kind is None:
            return
        flag = self._flags.pop(kind, None)
        if flag is not None:
            flag.set()
        else:  # its consumer has stopped waiting in the meantime
            await self.send([kind])

    async def _interrupt_listening(self) -> None:
        await self._connection.commands(
            [("ZADD", self._interrupt, 0, "0"), ("EXPIRE", self._interrupt, _INTERRUPT_TTL_S)]
        )
