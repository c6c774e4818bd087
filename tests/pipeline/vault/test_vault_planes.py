"""The vault on other planes: PostgreSQL, several processes, a catalog that is away."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from quire.coordination import keys
from quire.domain.job import UnitKind, conversion_job_id
from quire.domain.vault_document import DocumentFilters, DocumentState
from quire.errors import CatalogError
from quire.simulator.simulator_thread import RunningSimulator
from tests.support.coordination_servers import plain_server
from tests.support.postgres import PostgresServer
from tests.support.vault_fixtures import ai_settings
from tests.support.vault_running import TEAM, add, row_of, settled, vault_at
from tests.support.waiting import until

NOTE = b"# Minutes of the harbour board\n\nThe board met on 2026-03-02 and approved the new crane for the harbour.\n"
QUIET = {"LOCAL_CLASSIFIER": "0", "EMBEDDING_PROVIDER": "off", "VAULT_SWEEP_INTERVAL": "1d"}


async def test_whole_life_of_a_document_on_postgres(
    tmp_path: Path, new_database: Callable[[str], dict[str, str]], sim: RunningSimulator
) -> None:
    settings = ai_settings(sim) | QUIET | new_database("postgres")
    async with vault_at(tmp_path, **settings) as (_, vault):
        catalog = await vault.catalog()
        document_id = await add(vault, NOTE)
        first = await settled(vault, document_id)
        sim.play({"rules": [{"fault": "rejected"}]})
        other = await add(vault, NOTE + b"More of it.")
        unnamed = await settled(vault, other)
        found = await catalog.search(TEAM, "crane")
        sim.play({})
        outcomes = await asyncio.gather(*(vault.reprocess(TEAM, other) for _ in range(8)))
        mended = await settled(vault, other, 2)
        await vault.delete(TEAM, document_id)
        left = await catalog.list(TEAM, DocumentFilters())

    assert (first.status, first.title) == ("completed", "Minutes of the harbour board")
    assert first.date == "2026-03-02"
    assert unnamed.state(vault.parts.clock.now()) is DocumentState.NEEDS_CLASSIFICATION
    assert {hit.document.id for hit in found.hits} == {document_id, other}
    assert sorted(one.outcome for one in outcomes) == ["running"] * 7 + ["started"]
    assert (mended.status, mended.title, mended.attempt) == ("completed", "Minutes of the harbour board", 2)
    assert [row.id for row in left.documents] == [other]
    assert not (tmp_path / "data" / "catalog.db").exists()


async def test_documents_wait_for_a_catalog_that_is_away(tmp_path: Path) -> None:
    kinds = [kind for kind in UnitKind if kind not in (UnitKind.VAULT, UnitKind.CLASSIFY)]
    async with vault_at(tmp_path, kinds=kinds, **QUIET) as (one, vault):
        document_id = await add(vault, NOTE)
        await one.engine.wait(TEAM, conversion_job_id(TEAM, document_id), 60)
    file = tmp_path / "data" / "catalog.db"
    for path in file.parent.glob("catalog.db*"):
        path.rename(path.with_name(f"away-{path.name}"))
    file.mkdir()  # nothing can be opened here
    async with vault_at(tmp_path, **QUIET) as (one, vault):

        async def postponed() -> bool:
            return (await one.parts.queues.depth(UnitKind.VAULT))["delayed"] > 0

        await until(postponed, "a postponed unit")
        file.rmdir()
        for path in file.parent.glob("away-*"):
            path.rename(path.with_name(path.name.removeprefix("away-")))
        row = await settled(vault, document_id)

    assert (row.status, row.pages) == ("completed", 1)


async def test_documents_wait_for_a_postgres_that_is_away(tmp_path: Path) -> None:
    # A server of its own, because it is stopped; not under pytest's folder, where its user could not get to.
    folder = Path(tempfile.mkdtemp(prefix="quire-postgres-"))
    server = PostgresServer(folder / "data")
    kinds = [kind for kind in UnitKind if kind not in (UnitKind.VAULT, UnitKind.CLASSIFY)]
    settings = QUIET | {"DATABASE_URL": server.database("away")}
    try:
        async with vault_at(tmp_path, kinds=kinds, **settings) as (one, vault):
            document_id = await add(vault, NOTE)
            await one.engine.wait(TEAM, conversion_job_id(TEAM, document_id), 60)
            server.stop()
            with pytest.raises(CatalogError):  # also on connections that were open
                await row_of(vault, document_id)
        async with vault_at(tmp_path, **settings) as (one, vault):

            async def postponed() -> bool:
                return (await one.parts.queues.depth(UnitKind.VAULT))["delayed"] > 0

            await until(postponed, "a postponed unit")
            server = PostgresServer(folder / "data")
            row = await settled(vault, document_id)
            server.stop()
            server = PostgresServer(folder / "data")
            again = await settled(vault, await add(vault, NOTE + b"Later."))
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)

    assert (row.status, row.pages) == (again.status, again.pages) == ("completed", 1)


async def test_worker_with_another_catalog_does_no_harm(tmp_path: Path) -> None:
    """Two machines without DATABASE_URL, against all advice."""
    with plain_server() as (url, _port):
        shared = {"REDIS_URL": url, "OBJECT_STORE": str(tmp_path / "objects"), "SECRET_KEY": "same", **QUIET}
        no_vault = [
            kind for kind in UnitKind if kind not in (UnitKind.VAULT, UnitKind.CLASSIFY, UnitKind.EMBED)
        ]
        async with vault_at(tmp_path / "a", kinds=no_vault, **shared) as (one, vault):
            document_id = await add(vault, NOTE)
            job_id = conversion_job_id(TEAM, document_id)
            await one.engine.wait(TEAM, job_id, 60)
        async with vault_at(tmp_path / "b", **shared) as (other, _):

            async def postponed() -> bool:
                return (await other.parts.queues.depth(UnitKind.VAULT))["delayed"] > 0

            await until(postponed, "a postponed unit")
            await other.connection.command("ZADD", keys.EXPIRY, 1, job_id)

            async def asked() -> bool:
                return float(await other.connection.command("ZSCORE", keys.EXPIRY, job_id)) > 1

            await until(asked, "the housekeeper's look")
        async with vault_at(tmp_path / "a", **shared) as (_, vault):
            row = await settled(vault, document_id)
            assert await vault.parts.objects.get((await row_of(vault, document_id)).content_ref) == NOTE

    assert (row.status, row.pages) == ("completed", 1)
