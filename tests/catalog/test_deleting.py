"""What is left of a document that was deleted: nothing."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from quire.catalog.catalog import Catalog, CatalogOptions
from quire.catalog.database.database import Database
from quire.catalog.search import search_index
from quire.domain.vault_document import ContentPage, Vector
from tests.catalog.stored_documents import stored

TABLES = (
    "documents",
    "document_tags",
    "document_tag_assignments",
    "document_tag_embeddings",
    "document_embeddings",
    "document_chunk_embeddings",
    "document_pieces",
    "search_terms",
)


async def rows(options: CatalogOptions) -> dict[str, int]:
    database = Database.on_postgres(options.url, 1) if options.url else Database.on_sqlite(options.file, 1)
    async with database.reading() as connection:
        found = {
            table: int((await connection.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one())
            for table in TABLES
        }
        if not options.url:
            # The word index itself, not the table beside it.
            words = "SELECT count(*) FROM document_words WHERE document_words MATCH 'remember OR minutes OR finance'"
            found["document_words"] = int((await connection.execute(text(words))).scalar_one())
    await database.close()
    return found


async def test_no_row_is_left_when_a_document_is_deleted(catalog: Catalog, options: CatalogOptions) -> None:
    text_kept = "Things to remember. " * 800
    await stored(catalog, "a", text_kept, title="Minutes", summary="About things", tags=("Finance", "Notes"))
    document = await catalog.document_to_embed("blue", "a", "m")
    assert document is not None
    await catalog.put_document_vectors([document], [Vector("m", (1.0, 0.0))])
    tags = await catalog.tags_to_embed("blue", "a", "m")
    await catalog.put_tag_vectors(tags, [Vector("m", (0.0, 1.0))] * len(tags))
    assert 0 not in (await rows(options)).values()

    gone = await catalog.delete("blue", "a")
    assert gone is not None
    assert (gone.id, gone.content_ref) == ("a", "vault/blue/a")
    assert set((await rows(options)).values()) == {0}
    assert await catalog.delete("blue", "a") is None
    assert (await catalog.search("blue", "remember", query_vector=Vector("m", (1.0, 0.0)))).hits == ()


async def test_words_of_the_others_stay_when_one_is_deleted(catalog: Catalog) -> None:
    await stored(catalog, "a", "harbour lighthouse")
    await stored(catalog, "b", "lighthouse keeper")
    await catalog.delete("blue", "a")
    assert [hit.document.id for hit in (await catalog.search("blue", "lighthose")).hits] == ["b"]
    assert (await catalog.search("blue", "harbour")).hits == ()


async def test_old_words_are_forgotten_when_the_content_is_replaced(
    catalog: Catalog, options: CatalogOptions
) -> None:
    await stored(catalog, "a", "volcano " * 3000, title="First")
    before = await rows(options)
    assert before["document_pieces"] > 5
    attempt = await catalog.begin_processing("blue", "a")
    assert attempt is not None
    kept = await catalog.set_content("blue", "a", attempt, [ContentPage("glacier", 1)])
    assert kept is not None
    assert (kept.pieces, kept.chars, kept.truncated) == (1, 7, False)
    assert (await rows(options))["document_pieces"] == 2
    assert (await catalog.search("blue", "volcano")).hits == ()
    assert [hit.document.id for hit in (await catalog.search("blue", "glacier")).hits] == ["a"]


async def test_counts_hold_when_a_long_text_is_stored_in_many_steps(
    catalog: Catalog, options: CatalogOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_index, "_ROWS_AT_A_TIME", 3)
    monkeypatch.setattr(search_index, "_WORDS_AT_A_TIME", 7)
    kept = await stored(catalog, "a", "Things to remember", title="Minutes")
    for words in (40, 25):
        pages = [ContentPage(f"remember page{page} word{page % words}", page) for page in range(1, 60)]
        assert await catalog.set_content("blue", "a", kept.attempt, pages)
        # The title and the file's name are there too.
        terms = (await rows(options))["search_terms"]
        assert terms == len({word for page in pages for word in page.text.split()} | {"minutes", "a", "pdf"})
        assert len((await catalog.search("blue", "page17")).hits) == 1
    await catalog.delete("blue", "a")
    assert set((await rows(options)).values()) == {0}
