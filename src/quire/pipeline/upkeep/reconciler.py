"""The reconciler: puts back what the coordination server has lost, while the fleet runs.

The server loses its last second at a power cut or a failover, and everything at `FLUSHALL` or when an empty one takes
its place. The journal in the object plane has every job that was accepted.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from dataclasses import asdict

from quire.coordination.connection import RedisConnection
from quire.coordination.embedded_server import EmbeddedServer
from quire.coordination.fleet_protocol import FleetProtocol
from quire.coordination.server_clock import synchronise
from quire.coordination.server_mark import ServerMark
from quire.errors import CoordinationError, ObjectsError
from quire.pipeline.parts import Parts
from quire.pipeline.upkeep.job_journal import JobRecovery, RecoveryReport, recover_after_repair

_LOG = logging.getLogger(__name__)
_EVERY_S = 2.0
_CLOCK_EVERY = 15


class Reconciler:
    """Compares Redis with the journal after each start of a server, and whenever the server's data was lost."""

    def __init__(self, parts: Parts, connection: RedisConnection, fleet: FleetProtocol | None = None) -> None:
        """`fleet` is the announcement of this process, which is put back first."""
        self._connection = connection
        self._fleet = fleet
        self._clock = parts.clock
        self._mark = ServerMark(connection)
        self._recovery = JobRecovery(parts, connection)

    async def run(self, is_housekeeper: Callable[[], bool]) -> None:
        """Checks every two seconds where this process is the housekeeper; runs until cancelled.

        Also keeps the clock of every process with the server's.
        """
        for turn in itertools.count(1):
            await asyncio.sleep(_EVERY_S)
            if turn % _CLOCK_EVERY == 0:
                await synchronise(self._clock, self._connection)
            if not is_housekeeper():
                continue
            try:
                await self.reconcile()
            except (CoordinationError, ObjectsError) as error:
                _LOG.warning("reconciliation postponed", extra={"code": error.code})

    async def reconcile(self) -> RecoveryReport | None:
        """Puts back what is missing; None if nothing can be. Raises CoordinationError or ObjectsError: the next call
        does what was not done."""
        if not await self._mark.is_missing():
            return None
        if self._fleet is not None:
            await self._fleet.restore()
        await self._mark.begin()
        report = await self._recovery.run()
        if await self._mark.complete() and not report.is_clean:
            _LOG.warning("the server had lost jobs; they were put back", extra=asdict(report))
        return report


async def resume_embedded(parts: Parts, connection: RedisConnection, server: EmbeddedServer) -> None:
    """Call it after each start of the embedded server, before callers are served.

    A server that was stopped with all its data written has lost nothing, so its jobs are not compared again. Jobs that
    were in a damaged part of its file are put back.
    """
    server.run = await ServerMark(connection).carry_over(server.earlier_run)
    if server.recovery_due:
        await recover_after_repair(parts, connection, server)
