"""The Redis records of page reports, deliveries, GhostServer's file ids and service times."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quire.clock import Clock, now_ms
from quire.coordination import keys
from quire.coordination.connection import Arg, RedisConnection
from quire.coordination.streams import Queues
from quire.domain.job import JobStatus, PageRecord

_SERVED_KEPT = 50


@dataclass(frozen=True, slots=True)
class Served:
    """The times of one document: its wait behind `ahead` others, then its processing."""

    waited_s: float
    ahead: int
    service_s: float
    pages: int


class GhostRecords:
    def __init__(self, connection: RedisConnection, queues: Queues, clock: Clock, ttl_ms: int) -> None:
        self._connection = connection
        self._queues = queues
        self._clock = clock
        self._ttl_ms = ttl_ms

    async def report(self, job_id: str, record: PageRecord, content_ref: str, epoch: int = 0) -> bool | None:
        """Records a page that an external dispatcher reported; `epoch` 0 is the current run.

        Returns True if it counts, False if it was late, None if the job's pages are not known yet.
        """
        packed = json.dumps(record.packed(), separators=(",", ":"), ensure_ascii=False)
        answer = await self._run(
            *("report", job_id, record.number, "d" if record.status is JobStatus.COMPLETED else "f", packed),
            *(now_ms(self._clock), record.tokens_in, record.tokens_out, epoch),
        )
        await self._queue(job_id, answer[1], answer[2:], content_ref)
        return None if answer[0] < 0 else bool(answer[0])

    async def close(self, job_id: str, content_ref: str) -> int | None:
        """Gives up every page that waits for a report; returns their number, None if the pages are not known yet."""
        answer = await self._run("close", job_id, now_ms(self._clock))
        await self._queue(job_id, answer[1], answer[2:], content_ref)
        return None if answer[0] < 0 else int(answer[0])

    async def exported(self, job_id: str, epoch: int, outcome: dict[str, Any]) -> bool:
        """Records the outcome of a delivery; returns False if the unit is no longer wanted."""
        kept = await self._run("exported", job_id, epoch, json.dumps({**outcome, "epoch": epoch}))
        # Nothing is left to do: the housekeeper looks at the job at once, not in its next round.
        await self._connection.command("ZADD", keys.ACTIVE, "XX", "LT", now_ms(self._clock), job_id)
        return bool(kept)

    async def remember_file(self, team: str, file_id: str, job_id: str) -> None:
        """Makes the file id name this job."""
        await self._connection.command("SET", _file_key(team, file_id), job_id, "PX", self._ttl_ms)

    async def job_of_file(self, team: str, file_id: str) -> str | None:
        """Returns the id of the newest job for this file id, or None."""
        found = await self._connection.command("GET", _file_key(team, file_id))
        return found or None

    async def add_served(self, served: Served) -> None:
        """Adds the times of a document to the latest ones."""
        row = json.dumps([round(served.waited_s, 3), served.ahead, round(served.service_s, 3), served.pages])
        await self._connection.commands(
            [
                ("LPUSH", keys.SERVED, row),
                ("LTRIM", keys.SERVED, 0, _SERVED_KEPT - 1),
                ("PEXPIRE", keys.SERVED, self._ttl_ms),
            ]
        )

    async def served(self) -> list[Served]:
        """Returns the times of the latest documents of all teams, the newest first."""
        rows = await self._connection.command("LRANGE", keys.SERVED, 0, _SERVED_KEPT - 1)
        return [Served(*json.loads(row)) for row in rows]

    async def _run(self, name: str, job_id: str, *args: Arg) -> Any:
        return await self._connection.job_script(name, job_id, *args)

    async def _queue(self, job_id: str, epoch: int, units: Sequence[str], content_ref: str) -> None:
        await self._queues.put_units(job_id, epoch, units, content_ref)


def _file_key(team: str, file_id: str) -> str:
    return keys.ghost_file(team, hashlib.sha256(file_id.encode()).hexdigest())
