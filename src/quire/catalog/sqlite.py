"""SQLite from the event loop, with one visit to its thread for each statement.

The driver visits it four times (cursor, execute, fetch, close). A search has a dozen statements, and on a busy machine
each visit waits for the scheduler twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import aiosqlite


async def connect(*arguments: Any, **options: Any) -> Connection:
    """What SQLAlchemy calls for a new connection. Transactions are begun by our own statements only."""
    connection = Connection(
        partial(sqlite3.connect, *arguments, isolation_level=None, **options), iter_chunk_size=1_000
    )
    connection._thread.daemon = True  # a loop that ends in an error must not keep the process alive
    await connection
    return connection


class Connection(aiosqlite.Connection):
    def cursor(self) -> Any:  # the driver's own is awaited; SQLAlchemy enters it
        return _Cursor(self)

    async def commit(self) -> None:
        if self.in_transaction:
            await super().commit()

    async def rollback(self) -> None:
        if self.in_transaction:
            await super().rollback()

    async def visit(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        return await self._execute(work, self._conn)  # type: ignore[no-untyped-call]


class _Cursor:
    """As much of a cursor as SQLAlchemy uses: a statement is run and its rows are fetched at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = 1

    async def __aenter__(self) -> _Cursor:
        return self

    async def execute(self, operation: str, parameters: Sequence[Any] = ()) -> _Cursor:
        await self._run(lambda cursor: cursor.execute(operation, parameters))
        return self

    async def executemany(self, operation: str, parameters: Sequence[Sequence[Any]]) -> _Cursor:
        await self._run(lambda cursor: cursor.executemany(operation, parameters))
        return self

    async def fetchall(self) -> list[Any]:
        return self._rows

    async def close(self) -> None:
        self._rows = []

    async def _run(self, work: Callable[[sqlite3.Cursor], Any]) -> None:
        def on_the_thread(connection: sqlite3.Connection) -> None:
            cursor = connection.cursor()
            try:
                work(cursor)
                self.description = cursor.description
                self._rows = cursor.fetchall() if cursor.description else []
                self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid
            finally:
                cursor.close()

        await self._connection.visit(on_the_thread)
