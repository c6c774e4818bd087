"""The queue entries of units that have ended: acknowledged and deleted together, many times a second.

If the process dies before, its entries are taken over like those of every dead worker, and their claims find the units
gone. The same happens in this process after an outage of the server: the entries are found among those that it has not
received.
"""

from __future__ import annotations

import asyncio
import logging

from quire.coordination.connection import RedisConnection
from quire.errors import CoordinationCommandError, CoordinationError

_LOG = logging.getLogger(__name__)
_EVERY_S = 0.02


class EntryRemovals:
    """The removals of one process."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._due: dict[tuple[str, str], list[str]] = {}
        self._timer: asyncio.Task[None] | None = None

    def add(self, stream: str, group: str, entry_id: str) -> None:
        """Has the entry removed soon."""
        self._due.setdefault((stream, group), []).append(entry_id)
        if self._timer is None:
            self._timer = asyncio.create_task(self._remove_later(), name="entry-removals")

    async def flush(self) -> None:
        """Removes at once what is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._remove()

    async def _remove_later(self) -> None:
        await asyncio.sleep(_EVERY_S)
        self._timer = None
        await self._remove()

    async def _remove(self) -> None:
        due, self._due = self._due, {}
        try:
            await self._connection.commands(
                command
                for (stream, group), ids in due.items()
                for command in (("XACK", stream, group, *ids), ("XDEL", stream, *ids))
            )
        except (CoordinationError, CoordinationCommandError) as error:
            _LOG.warning("entries of ended units not removed", extra={"code": error.code})
