"""The mark of a server whose jobs were compared with the journal in the object plane.

It has the run of the server and is lost with the data: after a restart, a failover, `FLUSHALL` or a move to an empty
server it is absent or another, and the comparison is due again. On a cluster that loses the data of one node without
a restart, this shows only if the mark was there.
"""

from __future__ import annotations

import asyncio
import secrets

from quire.coordination import keys
from quire.coordination.connection import RedisConnection

_KEPT_MS = 400 * 86_400_000


class ServerMark:
    """Raises CoordinationError."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._begun = ""
        self._runs = ""

    async def is_missing(self) -> bool:
        """Whether the server's data may be older than what was acknowledged."""
        mark, runs = await asyncio.gather(
            self._connection.command("GET", keys.RECONCILED), self._connection.server_runs()
        )
        self._runs = runs or "unknown"
        return bool(mark != self._runs)

    async def carry_over(self, earlier_run: str) -> str:
        """Returns the server's run. The mark of `earlier_run`, which lost nothing when it ended, is its own now."""
        runs = await self._connection.server_runs()
        if runs and earlier_run:
            args = (earlier_run, runs, _KEPT_MS)
            await self._connection.script("plain/swap_value", [keys.RECONCILED], *args)
        return runs

    async def begin(self) -> None:
        """Call it before the comparison: data that is lost during it takes this entry along."""
        self._begun = f"begun {secrets.token_hex(8)}"
        await self._connection.command("SET", keys.RECONCILED, self._begun, "PX", _KEPT_MS)

    async def complete(self) -> bool:
        """Sets the mark for the run that `is_missing` saw; False if the comparison must be repeated."""
        args = (self._begun, self._runs, _KEPT_MS)
        return bool(await self._connection.script("plain/swap_value", [keys.RECONCILED], *args) == self._runs)
