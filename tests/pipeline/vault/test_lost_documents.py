"""A database loses the row of a document that was accepted, as a failover to a replica that lags does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quire.coordination import keys
from quire.domain.job import conversion_job_id
from quire.domain.vault_document import DocumentStatus, VaultDocument
from quire.pipeline.vault.vault import Vault
from quire.pipeline.vault.vault_sweeper import VaultSweeper
from tests.support.postgres import PostgresServer
from tests.support.vault_running import TEAM, add, row_of, settled, vault_at
from tests.support.waiting import until

NOTE = b"# Minutes\n\nThe committee met on 3 March 2025 and agreed on the budget of the library."


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    if request.param == "sqlite":
        yield {}
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    yield {"DATABASE_URL": server.database(f"lost_{request.node.name.encode().hex()[-20:]}")}


async def lose_row(vault: Vault, document_id: str) -> None:
    """What the replica had not received: neither a deletion nor its mark."""
    catalog = await vault.catalog()
    assert await catalog.delete(TEAM, document_id) is not None
    assert await catalog.find(TEAM, document_id) is None


async def test_document_is_found_again_when_its_row_is_lost_before_it_is_converted(
    tmp_path: Path, database: dict[str, str]
) -> None:
    async with vault_at(tmp_path, kinds=None, **database) as (_, vault):
        document_id = await add(vault, NOTE)
        before = await row_of(vault, document_id)
        await lose_row(vault, document_id)
    async with vault_at(tmp_path, **database) as (_, vault):
        catalog = await vault.catalog()

        async def is_back() -> bool:
            return await catalog.find(TEAM, document_id) is not None

        await until(is_back, "the row is put back")
        after = await settled(vault, document_id)
        assert after.status is DocumentStatus.COMPLETED
        assert (after.filename, after.content_ref, after.content_hash, after.size_bytes, after.source) == (
            (before.filename, before.content_ref, before.content_hash, before.size_bytes, before.source)
        )
        assert after.result_ref is not None
        assert after.title is not None


async def filed(folder: Path, database: dict[str, str], note: bytes = NOTE) -> VaultDocument:
    """A document that is complete; no process is left that works on it."""
    async with vault_at(folder, **database) as (_, vault):
        return await settled(vault, await add(vault, note))


async def test_document_is_found_again_when_its_row_is_lost_after_it_was_filed(
    tmp_path: Path, database: dict[str, str]
) -> None:
    before = await filed(tmp_path, database)
    async with vault_at(tmp_path, kinds=None, **database) as (_, vault):
        await lose_row(vault, before.id)
        assert await vault.lost.compare_all(dry_run=True) == 1
        assert await (await vault.catalog()).find(TEAM, before.id) is None
        assert await vault.lost.compare_all() == 1
        assert await vault.lost.compare_all() == 0
    async with vault_at(tmp_path, **database) as (_, vault):
        after = await settled(vault, before.id)
        assert (after.status, after.title, after.tags, after.result_ref, after.pages) == (
            (before.status, before.title, before.tags, before.result_ref, before.pages)
        )


async def test_document_is_found_in_the_object_plane_when_redis_no_longer_has_its_job(
    tmp_path: Path, database: dict[str, str]
) -> None:
    before = await filed(tmp_path, database)
    async with vault_at(tmp_path, kinds=None, **database) as (one, vault):
        await lose_row(vault, before.id)
        await one.connection.command("FLUSHALL")
        assert await vault.lost.compare_all() == 1
    async with vault_at(tmp_path, **database) as (_, vault):
        after = await settled(vault, before.id)
        assert (after.status, after.result_ref) == (DocumentStatus.COMPLETED, before.result_ref)


async def test_deleted_document_stays_deleted_when_rows_are_compared(
    tmp_path: Path, database: dict[str, str]
) -> None:
    deleted = await filed(tmp_path, database)
    half_deleted = await filed(tmp_path, database, b"# Another note")
    async with vault_at(tmp_path, kinds=None, **database) as (_, vault):
        await vault.delete(TEAM, deleted.id)
        # As a process that dies between the deletion of the row and that of the rest.
        await vault.expect_deletion(conversion_job_id(TEAM, half_deleted.id))
        await lose_row(vault, half_deleted.id)
        assert await vault.lost.compare_all() == 0
        for one in (deleted, half_deleted):
            assert await (await vault.catalog()).find(TEAM, one.id) is None


async def test_row_is_not_made_when_the_process_has_another_catalog(tmp_path: Path) -> None:
    async with vault_at(tmp_path, kinds=None) as (_, vault):
        document_id = await add(vault, NOTE)
        first = (await vault.catalog()).identity
    async with vault_at(tmp_path, kinds=None) as (_, vault):
        assert (await vault.catalog()).identity == first
    (tmp_path / "data" / "catalog.db").rename(tmp_path / "elsewhere.db")
    async with vault_at(tmp_path, kinds=None) as (_, vault):
        assert (await vault.catalog()).identity != first
        assert await vault.lost.compare_all() == 0
        assert await (await vault.catalog()).find(TEAM, document_id) is None


async def test_sweeper_compares_once_when_the_database_was_replaced(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.database("lost_swept")
    database = {"DATABASE_URL": url, "VAULT_SWEEP_INTERVAL": "1d"}
    before = await filed(tmp_path, database)
    async with vault_at(tmp_path, kinds=None, **database) as (one, vault):
        sweeper = VaultSweeper(vault, "sweeper")
        assert await sweeper.restore_lost() == 0
        await lose_row(vault, before.id)
        assert await sweeper.restore_lost() == 0  # the same run: the server has lost nothing
        await one.connection.command("SET", keys.CATALOG_RUN, "the server before it")
        assert await sweeper.restore_lost() == 1
        assert (await row_of(vault, before.id)).content_ref == before.content_ref
