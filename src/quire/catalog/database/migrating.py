"""Migration of the catalog's tables. Concurrent processes are serialised by a lock: one migrates, the others wait."""

from __future__ import annotations

import asyncio
import fcntl
import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.database import Database
from quire.errors import CatalogError

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0008"
KNOWN = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008")
_LOCK = 0x7175697265  # "quire": the advisory lock that a migration holds


async def migrate(database: Database, *, to: str = HEAD) -> None:
    """Raises CatalogError when the tables were made by a newer Quire, or when they can't be made."""
    async with database.reading() as connection:
        found = await _revision(connection)
    if found == to:
        return
    # In a thread, and before the lock is taken: the import takes half a second and would block the event loop.
    await asyncio.to_thread(importlib.import_module, "alembic.command")

    async def upgrade(connection: AsyncConnection) -> None:
        if database.postgres:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        found = await _revision(connection)  # another process may have been quicker
        if found is not None and found not in KNOWN:
            raise CatalogError(
                "The catalog was written by a newer version of Quire; upgrade this one.", retryable=False
            )
        if found is None or found < to:
            await connection.run_sync(_run_alembic, to)

    await database.write(upgrade)


async def wait_for_turn(file: Path) -> Any:
    """An open file whose lock is held: SQLite can't be switched to its write-ahead log by two at once."""
    held = await asyncio.to_thread(_locked, file.with_name(file.name + ".lock"))
    return held


def _locked(path: Path) -> Any:
    held = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab")
    fcntl.flock(held, fcntl.LOCK_EX)
    return held


async def _revision(connection: AsyncConnection) -> str | None:
    return await connection.run_sync(_revision_now)


def _revision_now(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _run_alembic(connection: Connection, to: str) -> None:
    from alembic import command

    command.upgrade(_config(connection), to)


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
