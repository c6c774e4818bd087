"""What the catalog has answered is there after its database was killed, as a power cut would."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.catalog import Catalog, CatalogOptions
from quire.catalog.database.database import Database
from tests.catalog.stored_documents import new
from tests.support.clocks import MovableClock
from tests.support.postgres import PostgresServer

_NORMAL, _FULL = 1, 2


async def test_a_new_document_is_kept_when_a_postgres_that_answers_before_it_writes_is_killed(
    tmp_path: Path,
) -> None:
    # A server of its own, because it is killed; not under pytest's folder, where its user could not get to.
    folder = Path(tempfile.mkdtemp(prefix="quire-postgres-"))
    server = PostgresServer(folder / "data")
    server.set("wal_writer_delay", "10s")  # what is committed without waiting is written much later
    try:
        options = CatalogOptions(file=tmp_path / "unused.db", url=server.database("killed"))
        catalog = await Catalog.open(options, MovableClock())
        for document_id in ("a", "b", "c"):
            await catalog.create(new(document_id))
            server.end("immediate")
            server.start_again()
            await catalog.close()
            catalog = await Catalog.open(options, MovableClock())
            assert await catalog.find("blue", document_id) is not None
        await catalog.close()
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def test_only_a_durable_write_waits_for_the_disk_when_the_catalog_is_a_file(tmp_path: Path) -> None:
    async def level(connection: AsyncConnection) -> int:
        return int((await connection.execute(text("PRAGMA synchronous"))).scalar_one())

    database = Database.on_sqlite(tmp_path / "catalog.db", 1)
    try:
        levels = [await database.write(level, is_durable=one) for one in (False, True, True, False)]
    finally:
        await database.close()
    assert levels == [_NORMAL, _FULL, _FULL, _NORMAL]
