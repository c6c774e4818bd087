"""A copy of an SQLite catalog into PostgreSQL, in one transaction, and the comparison of both.

The transaction also writes a line of the audit log, by which a repeated run detects that the copy was made.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.database import Database
from quire.catalog.database.migrating import migrate
from quire.catalog.database.sqlite_copy import copy_catalog
from quire.catalog.search.search_index import words_of_row
from quire.catalog.search.vector_rows import as_text, ensure_index
from quire.errors import CatalogError, StateConflictError

# An owner comes before the rows that point to it.
_TABLES = (
    "catalog_teams",
    "documents",
    "document_aliases",
    "document_tags",
    "document_tag_assignments",
    "document_pieces",
    "search_terms",
    "document_embeddings",
    "document_tag_embeddings",
    "document_chunk_embeddings",
    "api_keys",
    "audit_log",
)
_NUMBERED = ("documents", "document_tags", "audit_log")
_VECTOR = "embedding"
_ROWS_AT_ONCE = 500
_ACTION = "catalog.copied"

Row = dict[str, Any]


class CatalogCopy:
    """Copies the SQLite file `source` to the PostgreSQL database at `url`.

    `work` is a folder for a copy of the file, which is brought to the newest schema there: the source is only read.
    Every method raises CatalogError if a database does not answer.
    """

    def __init__(self, source: Path, url: str, work: Path, migration: str) -> None:
        self._source = source
        self._file = work / "catalog.db"
        self._database = Database.on_postgres(url, 1)
        self._migration = migration

    async def prepare(self) -> None:
        """Makes the copy of the source. Raises CatalogError if a newer version of Quire has written it."""
        if self._source.exists():
            await asyncio.to_thread(copy_catalog, self._source, self._file)
        database = Database.on_sqlite(self._file, 1)
        try:
            await migrate(database)
        finally:
            await database.close()

    async def close(self) -> None:
        await self._database.close()

    async def count(self) -> dict[str, int]:
        """Returns the number of rows of each table of the source."""
        return await asyncio.to_thread(self._count)

    async def is_copied(self) -> bool:
        """Whether this migration has copied the catalog before.

        Raises StateConflictError if the target has rows that this migration did not write.
        """
        async with self._database.reading() as connection:
            if not await _has_tables(connection):
                return False
            found = await connection.execute(
                text("SELECT 1 FROM audit_log WHERE action = :action AND subject = :subject"),
                {"action": _ACTION, "subject": self._migration},
            )
            if found.first() is not None:
                return True
            for table in _TABLES:
                if (await connection.execute(text(f"SELECT 1 FROM {table} LIMIT 1"))).first() is not None:  # noqa: S608 - our own table names
                    raise StateConflictError(
                        "The catalog at DATABASE_URL is not empty. Give the copy a database of its own."
                    )
        return False

    async def copy(self, at: float) -> None:
        """Creates the tables and writes all rows. After a crash all of them are in the target, or none is."""
        await migrate(self._database)

        async def write(connection: AsyncConnection) -> None:
            for table in _TABLES:
                async for rows in _in_thread(self._batches(table)):
                    await _insert(connection, table, rows)
            await self._continue_numbers(connection)
            widths = await connection.execute(text("SELECT DISTINCT dims FROM document_embeddings"))
            for dims in widths.scalars().all():
                await ensure_index(dims, connection)
            await connection.execute(
                text(
                    "INSERT INTO audit_log (at, actor, action, subject, details) "
                    "VALUES (:at, 'quire migrate', :action, :subject, '{}')"
                ),
                {"at": at, "action": _ACTION, "subject": self._migration},
            )

        await self._database.write(write)

    async def differences(self) -> list[str]:
        """Compares number and content of the rows; returns a sentence for each table that differs."""
        found = []
        async with self._database.reading(as_one=True) as connection:
            for table in _TABLES:
                ours, theirs = _Digest(), _Digest()
                async for rows in _in_thread(self._batches(table)):
                    ours.add(rows)
                async for rows in self._stored(connection, table):
                    theirs.add(rows)
                if ours != theirs:
                    found.append(f"the table {table} differs: {ours.rows} rows and {theirs.rows} in the copy")
        return found

    def _count(self) -> dict[str, int]:
        with closing(sqlite3.connect(self._file)) as source:
            return {
                table: source.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - our own table names
                for table in _TABLES
            }

    def _batches(self, table: str) -> Iterator[list[Row]]:
        # A generator runs in one thread after another, never in two at once.
        with closing(sqlite3.connect(self._file, check_same_thread=False)) as source:
            found = source.execute(f"SELECT * FROM {table}")  # noqa: S608 - our own table names
            names = [column[0] for column in found.description]
            while rows := found.fetchmany(_ROWS_AT_ONCE):
                yield [dict(zip(names, row, strict=True)) for row in rows]

    async def _stored(self, connection: AsyncConnection, table: str) -> AsyncIterator[list[Row]]:
        names = await asyncio.to_thread(self._columns, table)
        shown = ", ".join(f"CAST({name} AS text) AS {name}" if name == _VECTOR else name for name in names)
        where = "WHERE action <> :action OR subject <> :subject" if table == "audit_log" else ""
        values = {"action": _ACTION, "subject": self._migration} if where else {}
        found = await connection.stream(text(f"SELECT {shown} FROM {table} {where}"), values)  # noqa: S608 - our own names
        async for rows in found.mappings().partitions(_ROWS_AT_ONCE):
            yield [_as_sqlite_has_it(dict(row)) for row in rows]

    def _columns(self, table: str) -> list[str]:
        with closing(sqlite3.connect(self._file)) as source:
            return [row[1] for row in source.execute(f"PRAGMA table_info({table})")]

    async def _continue_numbers(self, connection: AsyncConnection) -> None:
        """New rows get numbers that no row of the source ever had: caches know documents by them."""
        given = await asyncio.to_thread(self._last_numbers)
        for table in _NUMBERED:
            await connection.execute(
                text(
                    f"SELECT setval(pg_get_serial_sequence('{table}', 'pk'), "  # noqa: S608 - our own table names
                    f"GREATEST((SELECT max(pk) FROM {table}), :given, 1))"
                ),
                {"given": given.get(table, 0)},
            )

    def _last_numbers(self) -> dict[str, int]:
        with closing(sqlite3.connect(self._file)) as source:
            return dict(source.execute("SELECT name, seq FROM sqlite_sequence").fetchall())


class _Digest:
    """The number of rows and a hash of them that does not depend on their order."""

    def __init__(self) -> None:
        self.rows = 0
        self._sum = 0

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.rows += 1
            words = repr(sorted(row.items())).encode()
            self._sum += int.from_bytes(hashlib.sha256(words).digest(), "big")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Digest) and (self.rows, self._sum) == (other.rows, other._sum)

    __hash__ = None  # type: ignore[assignment]  # it changes


async def _has_tables(connection: AsyncConnection) -> bool:
    found = await connection.execute(text("SELECT to_regclass('documents'), to_regclass('audit_log')"))
    documents, audit_log = found.one()
    if documents is not None and audit_log is None:
        raise CatalogError(
            "The catalog at DATABASE_URL was made by an older version of Quire. Give the copy an empty database.",
            retryable=False,
        )
    return documents is not None


async def _insert(connection: AsyncConnection, table: str, rows: list[Row]) -> None:
    prepared = await asyncio.to_thread(lambda: [_as_postgres_takes_it(table, row) for row in rows])
    places = []
    for name in prepared[0]:
        kind = {_VECTOR: "halfvec", "words": "tsvector"}.get(name if table != "catalog_teams" else "")
        places.append(f"CAST(CAST(:{name} AS text) AS {kind})" if kind else f":{name}")
    columns = ", ".join(prepared[0])
    await connection.execute(
        text(f"INSERT INTO {table} ({columns}) VALUES ({', '.join(places)})"),  # noqa: S608 - our own names
        prepared,
    )


def _as_postgres_takes_it(table: str, row: Row) -> Row:
    if _VECTOR in row:
        values = np.frombuffer(row[_VECTOR], "<f2").astype(np.float32)
        return {**row, _VECTOR: as_text(values)}
    return {**row, "words": words_of_row(row)} if table == "document_pieces" else row


def _as_sqlite_has_it(row: Row) -> Row:
    if _VECTOR in row:
        values = np.array(row[_VECTOR].strip("[]").split(","), dtype=np.float32)
        row[_VECTOR] = values.astype("<f2").tobytes()
    return row


async def _in_thread(batches: Iterator[list[Row]]) -> AsyncIterator[list[Row]]:
    while (rows := await asyncio.to_thread(next, batches, None)) is not None:
        yield rows
