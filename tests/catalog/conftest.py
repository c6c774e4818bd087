"""The catalog on both databases: every test that asks for `catalog` runs twice."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from quire.catalog.catalog import Catalog, CatalogOptions
from tests.catalog.databases import MovableClock, PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for the whole run."""
    # Not under pytest's own folder: as root the server runs as another user, who must be able to get there.
    folder = Path(tempfile.mkdtemp(prefix="quire-postgres-"))
    server = PostgresServer(folder / "data")
    yield server
    server.stop(discard=True)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template(postgres: PostgresServer) -> str:
    """The name of a database with all tables, to be copied: that is quicker than making them for each test."""
    url = postgres.database("with_tables")

    async def make() -> None:
        await (await Catalog.open(CatalogOptions(file=Path(), url=url), MovableClock())).close()

    asyncio.run(make())
    return "with_tables"


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> CatalogOptions:
    """Where a database without any tables is."""
    file = tmp_path / "catalog.db"
    if request.param == "sqlite":
        return CatalogOptions(file=file)
    server: PostgresServer = request.getfixturevalue("postgres")
    return CatalogOptions(file=file, url=server.fresh_database())


@pytest.fixture(params=["sqlite", "postgres"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> CatalogOptions:
    """Where a database without any documents is."""
    file = tmp_path / "catalog.db"
    if request.param == "sqlite":
        return CatalogOptions(file=file)
    server: PostgresServer = request.getfixturevalue("postgres")
    return CatalogOptions(file=file, url=server.fresh_database(template=request.getfixturevalue("template")))


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
async def open_catalog(
    options: CatalogOptions, clock: MovableClock
) -> AsyncIterator[Callable[[], Awaitable[Catalog]]]:
    """Opens the same database as often as wanted, as several processes would."""
    opened: list[Catalog] = []

    async def open_one() -> Catalog:
        opened.append(await Catalog.open(options, clock))
        return opened[-1]

    yield open_one
    for one in opened:
        await one.close()


@pytest.fixture
async def catalog(open_catalog: Callable[[], Awaitable[Catalog]]) -> Catalog:
    return await open_catalog()
