"""Which catalog this is, and which run of its database answers.

A replica that takes the place of a PostgreSQL server is the same catalog in another run, and may lack what was
committed last. A SQLite file has an identity of its own (`application_id`) and no runs.
"""

from __future__ import annotations

import secrets

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.database import Database

_MAX_ID = 2**31 - 1


async def read_identity(database: Database) -> str:
    """Returns the catalog's identity; '' where the server does not tell. A file without one gets it."""
    if database.postgres:
        async with database.reading() as connection:
            allowed = text("SELECT has_function_privilege('pg_control_system()', 'EXECUTE')")
            if not (await connection.execute(allowed)).scalar_one():
                return ""
            asked = text("SELECT system_identifier, current_database() FROM pg_control_system()")
            system, name = (await connection.execute(asked)).one()
        return f"postgresql {system} {name}"
    async with database.reading() as connection:
        number = await _application_id(connection)
    return f"sqlite {number or await database.write(_identify)}"


async def read_run(database: Database) -> str:
    """Returns when the server that answers was started, which is another time after a failover; '' on SQLite."""
    if not database.postgres:
        return ""
    async with database.reading() as connection:
        return str((await connection.execute(text("SELECT pg_postmaster_start_time()::text"))).scalar_one())


async def _identify(connection: AsyncConnection) -> int:
    """Another process may have been first."""
    if number := await _application_id(connection):
        return number
    number = 1 + secrets.randbelow(_MAX_ID)
    await connection.execute(text(f"PRAGMA application_id = {number}"))
    return number


async def _application_id(connection: AsyncConnection) -> int:
    return int((await connection.execute(text("PRAGMA application_id"))).scalar_one())
