"""Units that wait in the queues, and whose they are. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from quire.coordination.connection import RedisConnection, pairs
from quire.coordination.keys import QUEUES, JobKeys
from quire.coordination.streams import Hint, read_hint
from quire.domain.job import UnitKind
from quire.errors import CoordinationCommandError


class WaitingUnits:
    """Raises CoordinationError."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection

    async def first(self, kind: UnitKind, limit: int) -> list[Hint]:
        """The first entries of each stream that were not delivered to a worker yet."""
        queue = QUEUES[kind]
        delivered = await asyncio.gather(*(self._delivered(one, queue.group) for one in queue.streams))
        found: list[Hint] = []
        for priority, stream, last in zip(queue.priorities, queue.streams, delivered, strict=True):
            if last:
                entries = await self._connection.command("XRANGE", stream, f"({last}", "+", "COUNT", limit)
                found += [read_hint(entry_id, fields, priority) for entry_id, fields in entries if fields]
        return found

    async def teams(self, job_ids: Sequence[str]) -> dict[str, str]:
        """The team of each job that there is."""
        found = await self._connection.commands(("HGET", JobKeys.of(one).job, "team") for one in job_ids)
        return {job_id: team for job_id, team in zip(job_ids, found, strict=True) if team is not None}

    async def _delivered(self, stream: str, group: str) -> str:
        """The id of the last entry that was delivered; empty if there is no such stream or group."""
        try:
            rows = await self._connection.command("XINFO", "GROUPS", stream)
        except CoordinationCommandError:
            return ""
        return next((str(one["last-delivered-id"]) for one in map(pairs, rows) if one["name"] == group), "")
