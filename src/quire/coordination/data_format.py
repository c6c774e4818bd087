"""The format number of what is stored in Redis and in the object plane, which keeps an older Quire off newer data.

Raise FORMAT when an older version would misread what this one writes. The catalog has its own number, its migrations.
"""

from __future__ import annotations

from quire.coordination import keys
from quire.coordination.connection import RedisConnection
from quire.errors import CoordinationError

FORMAT = 1
_KEPT_S = 400 * 86_400
"""Longer than any record is kept; each start of a process renews it."""


async def check_format(connection: RedisConnection) -> None:
    """Records the format. Raises CoordinationError if the data was written by a newer version of Quire."""
    found = await connection.command("GET", keys.FORMAT)
    if found is not None and int(found) > FORMAT:
        raise CoordinationError(
            f"The data was written by a newer version of Quire (format {found}, this version knows {FORMAT}). "
            "Install that version, or use a data directory or Redis of its own.",
            retryable=False,
        )
    await connection.command("SET", keys.FORMAT, FORMAT, "EX", _KEPT_S)
