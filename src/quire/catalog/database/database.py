"""The database behind the catalog: connections, transactions, translated errors.

SQLite from the event loop, with one visit to its thread for each statement.

The driver visits it four times (cursor, execute, fetch, close). A search has a dozen statements, and on a busy machine
each visit waits for the scheduler twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite
from sqlalchemy import URL, ExceptionContext, TextClause, event, text
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidatePoolError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from quire.catalog.database.postgres_address import PostgresAddress
from quire.errors import CatalogError


async def connect(*arguments: Any, **options: Any) -> SqliteConnection:
    """What SQLAlchemy calls for a new connection. Transactions are begun by our own statements only."""
    connection = SqliteConnection(
        partial(sqlite3.connect, *arguments, isolation_level=None, **options), iter_chunk_size=1_000
    )
    connection._thread.daemon = True  # a loop that ends in an error must not keep the process alive
    await connection
    return connection


class SqliteConnection(aiosqlite.Connection):
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

    def __init__(self, connection: SqliteConnection) -> None:
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


T = TypeVar("T")

_BUSY_TIMEOUT_S = 15.0
_IDLE_S = 5.0
_PREPARED = 300
_ATTEMPTS = 5
_RETRY_DELAY_S = 0.02
_MMAP_BYTES = 256 << 20
_CACHE_KB = 16_384
_SYNCHRONOUS = (
    "NORMAL"  # of SQLite: a commit is on the disk with the next checkpoint, so most commits wait for no disk
)
_COMMIT_TO_DISK = (
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
)
_AGAIN = ("40001", "40P01", "55P03")  # PostgreSQL: could not serialise, deadlock, lock not available
_READ_ONLY = "25006"


@functools.lru_cache(maxsize=512)
def statement(sql: str) -> TextClause:
    """The SQL, read once however often it is asked: reading it takes as long as sending it."""
    return text(sql)


def make_private(file: Path) -> None:
    """Makes the file, or its mode, private. SQLite gives the files that it writes beside it the same mode.

    The data directory may be readable by others. A file that can't be made is reported when it is opened.
    """
    with contextlib.suppress(OSError):
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        for ending in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                file.with_name(file.name + ending).chmod(0o600)


class Database:
    """Transactions on SQLite or PostgreSQL. Raises CatalogError in place of the driver's errors."""

    def __init__(self, engine: AsyncEngine, *, postgres: bool) -> None:
        self._engine = engine
        self.postgres = postgres
        # Each question is a view of its own, on either database; a transaction would be two more round trips.
        self._reader = engine.execution_options(isolation_level="AUTOCOMMIT") if postgres else engine
        # SQLite has one writer at a time; waiting here is fair and costs no polling of the file's lock.
        self._writer = asyncio.Lock()

    @classmethod
    def on_sqlite(cls, file: Path, pool_size: int) -> Database:
        make_private(file)
        url = URL.create("sqlite+aiosqlite", database=str(file))
        arguments = {"timeout": _BUSY_TIMEOUT_S, "cached_statements": 256, "async_creator_fn": connect}
        engine = create_async_engine(
            url, pool_size=pool_size, max_overflow=0, pool_timeout=60, connect_args=arguments
        )
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
        return cls(engine, postgres=False)

    @classmethod
    def on_postgres(cls, url: str, pool_size: int) -> Database:
        """Raises SettingsError for an invalid address."""
        address = PostgresAddress.read(url)
        engine = create_async_engine(
            "postgresql+asyncpg://",
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=60,
            connect_args={
                "async_creator_fn": address.connect,
                "prepared_statement_cache_size": _PREPARED,
            },
        )
        event.listen(engine.sync_engine, "checkin", _remember_use)
        event.listen(engine.sync_engine, "checkout", _try_if_idle)
        if address.wants_writes:
            event.listen(engine.sync_engine, "checkout", _leave_if_demoted)
        event.listen(engine.sync_engine, "handle_error", _leave_if_read_only)
        return cls(engine, postgres=True)

    async def close(self) -> None:
        await self._engine.dispose()

    @contextlib.asynccontextmanager
    async def reading(self, *, as_one: bool = False) -> AsyncIterator[AsyncConnection]:
        """A connection for questions. Each of them sees the data as it is at that moment.

        `as_one` makes a transaction of them, for settings that hold as long as it does.
        """
        try:
            with translated():
                engine = self._engine if as_one else self._reader
                async with engine.connect() as connection, connection.begin():
                    yield connection
        except _LostRaceError as lost:
            raise CatalogError("The catalog is too busy at the moment.") from lost

    async def write(
        self, change: Callable[[AsyncConnection], Awaitable[T]], *, is_durable: bool = False
    ) -> T:
        """The result of `change`, run as one transaction, and again from its beginning after a lost race.

        A power cut may undo the last second of changes. `is_durable` returns when this change and all before it are
        on the disk, also where a PostgreSQL server is set to answer earlier (`synchronous_commit`).
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with translated():
                    return await self._once(change, is_durable)
            except _LostRaceError as lost:
                if attempt == _ATTEMPTS:
                    raise CatalogError("The catalog is too busy at the moment.") from lost
                await asyncio.sleep(_RETRY_DELAY_S * attempt)
        raise AssertionError("unreachable")

    async def _once(self, change: Callable[[AsyncConnection], Awaitable[T]], is_durable: bool) -> T:
        if self.postgres:
            async with self._engine.begin() as connection:
                if is_durable:
                    await connection.execute(statement(_COMMIT_TO_DISK))
                return await change(connection)
        async with self._writer, self._engine.connect() as plain:
            connection = await plain.execution_options(quire_write=True, quire_durable=is_durable)
            async with connection.begin():
                return await change(connection)


class _LostRaceError(Exception):
    """Another transaction was in the way; the same one may succeed when it is run again."""


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """The driver's errors as CatalogError. Their texts hold statements and values, so none of it is repeated."""
    try:
        yield
    except IntegrityError as error:
        raise _LostRaceError from error
    except DBAPIError as error:
        code = str(getattr(error.orig, "sqlstate", None) or "")
        words = str(error.orig)
        if code in _AGAIN or "database is locked" in words or "database table is locked" in words:
            raise _LostRaceError from error
        if code == _READ_ONLY:
            raise CatalogError("The catalog's database takes no writes at the moment.") from error
        raise CatalogError("The catalog's database doesn't answer as it should.") from error
    except (PoolTimeoutError, OSError, TimeoutError) as error:
        raise CatalogError("The catalog's database is out of reach.") from error


def _remember_use(_connection: Any, record: Any) -> None:
    record.info["used_at"] = time.monotonic()


def _try_if_idle(connection: Any, record: Any, _proxy: Any) -> None:
    """A connection that was used a moment ago is taken to be alive: asking it each time is three round trips."""
    if record.driver_connection.is_closed():
        raise InvalidatePoolError
    if time.monotonic() - record.info.get("used_at", math.inf) > _IDLE_S:
        try:
            connection.ping()
        except Exception as error:  # on any error another connection is opened
            raise InvalidatePoolError from error


def _leave_if_demoted(_connection: Any, record: Any, _proxy: Any) -> None:
    """A server tells each connection when it becomes read-only: those that only read leave it as well."""
    told = record.driver_connection.get_settings()
    if "on" in (getattr(told, "default_transaction_read_only", ""), getattr(told, "in_hot_standby", "")):
        raise InvalidatePoolError


def _leave_if_read_only(context: ExceptionContext) -> None:
    """A server that refuses a write is no longer the primary: no connection to it is used again, also for reading."""
    if getattr(context.original_exception, "sqlstate", None) == _READ_ONLY:
        context.is_disconnect = True


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        f"synchronous={_SYNCHRONOUS}",
        "foreign_keys=ON",
        "temp_store=MEMORY",
        "secure_delete=FAST",
        f"cache_size=-{_CACHE_KB}",
        f"mmap_size={_MMAP_BYTES}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Any) -> None:
    # A transaction that begins by reading and then wants to write can't wait for its turn: it fails at once.
    options = connection.get_execution_options()
    if options.get("quire_write"):
        level = "FULL" if options["quire_durable"] else _SYNCHRONOUS
        if level != connection.info.get("synchronous", _SYNCHRONOUS):
            connection.exec_driver_sql(f"PRAGMA synchronous={level}")
            connection.info["synchronous"] = level
        connection.exec_driver_sql("BEGIN IMMEDIATE")
