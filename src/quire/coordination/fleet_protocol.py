"""The protocol number by which the processes of a fleet know whether they can work together.

Each process announces the number that it speaks and the oldest one that it works with. A process that can't work with
one that runs refuses to start. Raise PROTOCOL when processes of this version and of the last one must differ in what
they write for each other (queue entries, claims, records of running jobs), and OLDEST_PROTOCOL when this version no
longer works with the older ones. The format of stored data has its own number (`data_format`).

Weakness: releases before protocol 1 announce nothing and are not noticed.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from quire.clock import Clock, now_ms
from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.coordination.liveness import WorkerId
from quire.errors import CoordinationCommandError, CoordinationError, QuireError

PROTOCOL = 1
OLDEST_PROTOCOL = 1
_LOG = logging.getLogger(__name__)
_KNOWN_MS = 60_000
_RENEW_S = 25.0


@dataclass(frozen=True, slots=True)
class FleetProtocol:
    """The announcement of one process; a process that is killed is forgotten after a minute."""

    connection: RedisConnection
    clock: Clock
    process: str
    protocol: int = PROTOCOL
    oldest: int = OLDEST_PROTOCOL
    _others: dict[str, float] = field(init=False, default_factory=dict)
    """The latest announcement of each other pair of numbers at the last renewal, and its time (ms)."""

    async def __aenter__(self) -> Self:
        """Announces this process. Raises CoordinationError if a process runs that it can't work with."""
        await self._join()
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(QuireError):  # it is forgotten by itself
            await self.connection.command("ZREM", keys.PROTOCOLS, self._member)

    async def _join(self) -> None:
        while other := await self._announce():
            spoken, oldest, process = other.split(" ", 2)
            known = WorkerId.parse(process)
            if known is not None and known.is_known_dead():
                await self.connection.command("ZREM", keys.PROTOCOLS, other)
                continue
            raise CoordinationError(self._conflict(int(spoken), int(oldest)), retryable=False)

    async def run(self) -> None:
        """Renews the announcement until it is cancelled."""
        while True:
            await asyncio.sleep(_RENEW_S)
            try:
                if other := await self._announce():
                    _LOG.error("a process runs that this one can't work with", extra={"announced": other})
            except (CoordinationError, CoordinationCommandError) as error:
                _LOG.warning("protocol not announced", extra={"code": error.code})

    async def restore(self) -> None:
        """Call it when the server has lost its data: puts back what was announced, without waiting for renewals.

        An announcement has its earlier time, so that of a process that has ended since is valid for a minute at most.
        """
        if lost := list(self._others.items()):
            flat = [part for member, at_ms in lost for part in (at_ms, member)]
            await self.connection.command("ZADD", keys.PROTOCOLS, "NX", *flat)
        await self._announce()

    @property
    def _member(self) -> str:
        return f"{self.protocol} {self.oldest} {self.process}"

    async def _announce(self) -> str:
        """Returns the announcement of a process that this one can't work with; nothing was announced then."""
        args = (now_ms(self.clock), _KNOWN_MS, self._member, self.protocol, self.oldest)
        conflict, *others = await self.connection.script("plain/join_fleet", [keys.PROTOCOLS], *args)
        if not conflict:
            self._others.clear()
            self._others.update(zip(others[::2], map(float, others[1::2]), strict=True))
        return str(conflict)

    def _conflict(self, spoken: int, oldest: int) -> str:
        if spoken < self.oldest:
            return (
                f"An older version of Quire runs on this Redis (protocol {spoken}; this version works with "
                f"{self.oldest} and later). Stop its processes, then start this one."
            )
        return (
            f"A newer version of Quire runs on this Redis (it works with protocol {oldest} and later; this version "
            f"speaks {self.protocol}). Install that version here, or use another Redis."
        )
