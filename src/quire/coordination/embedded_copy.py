"""A copy of the embedded server's append-only file, consistent although the server goes on writing.

The server only appends while it does not rewrite the file, so rewriting is paused for the copy. A last record that was
copied in part is dropped when the copy is loaded.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

from quire.coordination.connection import RedisConnection
from quire.coordination.embedded_server import EmbeddedServer
from quire.errors import CoordinationError

_FOLDER = Path("coordination", "appendonlydir")
_REWRITE_POLL_S = 0.1
_REWRITE_S = 600.0


async def copy_embedded(data_dir: Path, target: Path) -> None:
    """Copies the file into the data directory `target`. Raises CoordinationError if the server does not answer."""
    url = EmbeddedServer.attach_url(data_dir)
    if url is None:
        await asyncio.to_thread(_copy, data_dir, target)
        return
    connection = RedisConnection.open(url)
    try:
        await connection.command("CONFIG", "SET", "auto-aof-rewrite-percentage", "0")
        try:
            await _await_rewrite(connection)
            await asyncio.to_thread(_copy, data_dir, target)
        finally:
            await connection.command("CONFIG", "SET", "auto-aof-rewrite-percentage", "100")
    finally:
        await connection.close()


async def _await_rewrite(connection: RedisConnection) -> None:
    try:
        async with asyncio.timeout(_REWRITE_S):
            while True:
                told = await connection.command("INFO", "persistence")
                if not re.search(r"aof_rewrite_(in_progress|scheduled):1", told):
                    return
                await asyncio.sleep(_REWRITE_POLL_S)
    except TimeoutError as error:
        raise CoordinationError(
            "The coordination server does not end rewriting its file. Try again."
        ) from error


def _copy(data_dir: Path, target: Path) -> None:
    if (data_dir / _FOLDER).is_dir():
        shutil.copytree(data_dir / _FOLDER, target / _FOLDER)
        (target / "coordination").chmod(0o700)
