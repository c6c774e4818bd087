"""Lists of the documents that have some words, against going through all of them."""

from __future__ import annotations

import random

import pytest
from sqlalchemy import text

from quire.catalog.catalog import Catalog, CatalogOptions
from quire.catalog.database.database import Database
from quire.catalog.documents import word_listing
from quire.domain.vault_document import DocumentFilters, DocumentState
from tests.catalog.bulk import TEAM, MadeVault, load
from tests.catalog.stored_documents import new


@pytest.mark.parametrize("spacing", [1, 20])
async def test_every_document_with_all_the_words_is_listed_once_when_pages_are_asked_for_in_turn(
    options: CatalogOptions, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, spacing: int
) -> None:
    # Small, so that a few hundred documents have words of every kind and are looked through in several steps.
    monkeypatch.setattr(word_listing, "_RARE", 6)
    monkeypatch.setattr(word_listing, "_LEAST_WIDTH", 40)
    vault = MadeVault(300, "bench:256", spacing=spacing)
    database = Database.on_postgres(options.url, 1) if options.url else Database.on_sqlite(options.file, 1)
    await load(database, vault)
    async with database.reading() as connection:
        rows = (await connection.execute(text("SELECT document_pk, head, body FROM document_pieces"))).all()
    await database.close()
    having: dict[int, set[str]] = {}
    for pk, head, body in rows:
        having.setdefault(pk, set()).update(head.split(), body.split())
    chance = random.Random(3)
    seen = set()
    for _ in range(20):
        words = [vault.words[int(5_000 ** chance.random())] for _ in range(chance.randint(1, 3))]
        wanted = [f"{pk:08x}" for pk in sorted(having, reverse=True) if having[pk].issuperset(words)]
        found: list[str] = []
        cursor, asked = None, DocumentFilters(text=" ".join(words))
        while True:
            page = await catalog.list(TEAM, asked, cursor=cursor, limit=17)
            found += [one.id for one in page.documents]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == wanted, words
        seen.add(min(3, len(wanted) // 17))
    assert len(seen) > 2, "the words were all alike"


async def test_other_filters_hold_too_and_other_teams_stay_out(catalog: Catalog) -> None:
    for number in range(12):
        team = "red" if number % 3 else "blue"
        await catalog.create(new(f"apples-{number}", team, filename=f"apples {number}.pdf"))
    pending = DocumentFilters(text="apples", state=DocumentState.PENDING)
    failed = DocumentFilters(text="apples", state=DocumentState.FAILED)

    page = await catalog.list("blue", pending)
    assert [one.id for one in page.documents] == ["apples-9", "apples-6", "apples-3", "apples-0"]
    assert not (await catalog.list("blue", failed)).documents
    assert not (await catalog.list("blue", DocumentFilters(text="apples plums"))).documents
    assert not (await catalog.list("green", pending)).documents
    assert not (await catalog.list("blue", DocumentFilters(text="!?"))).documents
