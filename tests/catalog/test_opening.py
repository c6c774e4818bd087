"""Opening the catalog: migrations with data in the tables, many processes at once, and databases that are away."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.catalog import Catalog, CatalogOptions
from quire.catalog.database import migrating
from quire.catalog.database.database import Database
from quire.catalog.database.migrating import HEAD, KNOWN, migrate
from quire.catalog.search.search_index import piece_row, prepare_body, prepare_head
from quire.catalog.search.text_pieces import TextPiece
from quire.domain.vault_document import Vector
from quire.errors import CatalogError, SettingsError
from tests.catalog.stored_documents import new, stored
from tests.support.clocks import MovableClock
from tests.support.waiting import DEADLINE_S


def database(options: CatalogOptions) -> Database:
    return Database.on_postgres(options.url, 2) if options.url else Database.on_sqlite(options.file, 2)


def test_known_revisions_are_those_in_the_folder() -> None:
    folder = Path(migrating.__file__).parent / "migrations" / "versions"
    assert [path.name[1:5] for path in sorted(folder.glob("r*.py"))] == list(KNOWN)
    assert KNOWN[-1] == HEAD


async def test_documents_are_all_there_when_the_tables_come_from_the_first_version(
    empty: CatalogOptions,
) -> None:
    old = database(empty)
    await migrate(old, to="0001")

    async def fill(connection: AsyncConnection) -> None:
        """What the first version wrote, in its own columns."""
        await connection.execute(
            text("INSERT INTO catalog_teams (team, documents_made, words, pieces) VALUES ('blue', 1, 6, 2)")
        )
        await connection.execute(
            text(
                "INSERT INTO documents (team, id, seq, filename, content_ref, content_hash, size_bytes, kind, "
                "content_type, source, status, attempt, created_at, updated_at, title, tags) VALUES ('blue', 'old', 1, "
                "'old.pdf', 'r', 'h', 3, 'pdf', 'application/pdf', 'upload', 'completed', 1, 5.5, 6.5, 'Old', :tags)"
            ),
            {"tags": json.dumps(["Été"])},
        )
        await connection.execute(
            text("INSERT INTO document_tags (team, slug, name, uses) VALUES ('blue', 'ete', 'Été', 1)")
        )
        await connection.execute(
            text(
                "INSERT INTO document_tag_assignments (document_pk, tag_pk, team, seq) VALUES (1, 1, 'blue', 1)"
            )
        )
        head = prepare_head("Old", ["Été"], "old.pdf", None, postgres=old.postgres)
        body = prepare_body([TextPiece(1, 1, "Ancient words")], postgres=old.postgres)
        rows = [piece_row("blue", 1, piece) for piece in (*head.pieces, *body.pieces)]
        names = [name for name in rows[0] if name not in ("places", "words")]
        columns, values = ", ".join(names), ", ".join(f":{name}" for name in names)
        if old.postgres:
            columns, values = f"{columns}, words", f"{values}, CAST(CAST(:words AS text) AS tsvector)"
        for row in rows:
            del row["places"]
            await connection.execute(
                text(f"INSERT INTO document_pieces ({columns}) VALUES ({values})"),
                row,
            )
        await connection.execute(
            text(
                "INSERT INTO search_terms (team, term, reversed, documents) VALUES ('blue', 'ancient', 'tneicna', 1)"
            )
        )

    await old.write(fill)
    await old.close()

    catalog = await Catalog.open(empty, MovableClock())
    kept = await catalog.get("blue", "old")
    assert (kept.title, kept.tags, kept.created_at, kept.metadata) == ("Old", ("Été",), 5.5, {})
    assert [hit.document.id for hit in (await catalog.search("blue", "ancient")).hits] == ["old"]
    wanted = await catalog.document_to_embed("blue", "old", "m")
    assert wanted is not None
    assert await catalog.put_document_vectors([wanted], [Vector("m", (1.0, 0.0))]) == 1
    assert (await catalog.search("blue", "?", query_vector=Vector("m", (1.0, 0.0)))).hits[0].document == kept
    fresh = await stored(catalog, "new", "Ancient too", tags=("ete",))
    assert fresh.tags == ("Été",)
    await catalog.close()


async def test_tables_are_refused_when_a_newer_version_made_them(options: CatalogOptions) -> None:
    await (await Catalog.open(options, MovableClock())).close()
    one = database(options)

    async def pretend(connection: AsyncConnection) -> None:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    await one.write(pretend)
    await one.close()
    with pytest.raises(CatalogError, match="newer version") as refused:
        await Catalog.open(options, MovableClock())
    assert not refused.value.retryable


_OPEN_AND_CREATE = """
import asyncio, sys
from pathlib import Path
from quire.catalog.catalog import Catalog, CatalogOptions
from quire.clock import SystemClock
from quire.domain.vault_document import NewDocument

async def main(file, url, name):
    catalog = await Catalog.open(CatalogOptions(file=Path(file), url=url), SystemClock())
    for n in range(5):
        await catalog.create(NewDocument("blue", f"{name}-{n}", "shared name.pdf", "ref"))
    await catalog.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_nobody_fails_when_several_processes_open_an_empty_database_at_once(
    empty: CatalogOptions,
) -> None:
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", _OPEN_AND_CREATE, str(empty.file), empty.url, f"p{n}"
        )
        for n in range(3)
    ]
    assert [await process.wait() for process in processes] == [0, 0, 0]
    catalog = await Catalog.open(empty, MovableClock())
    page = await catalog.list("blue")
    assert len(page.documents) == 15
    assert len((await catalog.search("blue", "shared", limit=50)).hits) == 15
    await catalog.close()


async def test_changes_are_whole_or_not_there_when_a_writer_is_killed(empty: CatalogOptions) -> None:
    code = _OPEN_AND_CREATE.replace("range(5)", "range(10**9)")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(empty.file), empty.url, "killed"
    )
    catalog = await Catalog.open(empty, MovableClock())
    async with asyncio.timeout(DEADLINE_S):
        while len((await catalog.list("blue", limit=10)).documents) < 10:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
    process.kill()
    await process.wait()
    documents = [one.id async for one in catalog.each("blue")]
    words = await catalog.search("blue", "shared", limit=1)
    assert words.hits
    one = database(empty)
    async with one.reading() as connection:
        counted = await connection.execute(text("SELECT documents FROM search_terms WHERE term = 'shared'"))
        assert counted.scalar_one() == len(documents)
        pieces = await connection.execute(text("SELECT count(*) FROM document_pieces"))
        assert pieces.scalar_one() == len(documents)
    await one.close()
    await catalog.create(new("after"))
    await catalog.close()


async def test_error_says_nothing_secret_when_the_server_is_away(tmp_path: Path) -> None:
    url = "postgresql://quire:hush@127.0.0.1:9/quire?connect_timeout=2"
    with pytest.raises(CatalogError) as away:
        await Catalog.open(CatalogOptions(file=tmp_path / "unused", url=url), MovableClock())
    assert away.value.retryable
    assert "hush" not in str(away.value)


@pytest.mark.parametrize("query", ["?magic=1", "?connect_timeout=soon"])
async def test_start_stops_when_the_address_has_options_that_make_no_sense(
    tmp_path: Path, query: str
) -> None:
    url = f"postgresql://quire:hush@127.0.0.1/quire{query}"
    with pytest.raises(SettingsError, match="DATABASE_URL") as refused:
        await Catalog.open(CatalogOptions(file=tmp_path / "unused", url=url), MovableClock())
    assert "hush" not in str(refused.value)


async def test_catalog_error_is_raised_when_the_file_is_no_database(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    file.write_bytes(b"not a database at all" * 100)
    with pytest.raises(CatalogError):
        await Catalog.open(CatalogOptions(file=file), MovableClock())


async def test_catalog_error_is_raised_when_the_folder_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CatalogError):
        await Catalog.open(CatalogOptions(file=tmp_path / "file" / "catalog.db"), MovableClock())


def open_to_others(folder: Path) -> Path:
    folder.chmod(0o755)
    (folder / "catalog.db").touch(mode=0o644)
    return folder / "catalog.db"


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.glob("catalog.db*")}


async def test_file_is_private_when_the_folder_is_open_to_others(tmp_path: Path) -> None:
    file = open_to_others(tmp_path)
    opened = Database.on_sqlite(file, 2)
    try:
        await migrate(opened)
        found = modes(tmp_path)
    finally:
        await opened.close()
    assert found
    assert set(found.values()) == {0o600}, found
