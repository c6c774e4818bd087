"""The catalog on both databases: every test that asks for `catalog` runs twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from quire.catalog.catalog import Catalog, CatalogOptions
from tests.support.clocks import MovableClock
from tests.support.postgres import PostgresServer


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


@pytest.fixture(params=[3_000, 0], ids=["few pass", "many pass"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters that leave few documents list them first; others are applied to what was found."""
    monkeypatch.setattr("quire.catalog.search.search_engine._FEW_DOCUMENTS", request.param)


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
