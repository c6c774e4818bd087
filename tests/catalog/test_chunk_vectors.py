"""Vectors of text chunks: stored once for each text, stale when the text is replaced, and used to place a hit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.catalog.catalog import Catalog
from quire.catalog.search.chunk_sheet import ChunkSheet, packed_sheet, packed_vector, text_key
from quire.domain.text_chunk import ChunkPlace
from quire.domain.vault_document import ChunkStart, ContentPage, Vector
from tests.catalog.stored_documents import new, stored

MODEL = "m"
MANY = 1_000
SEA, WOOD, FIRE = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
MEANINGS = {"vessels": SEA, "planks": WOOD, "embers": FIRE}


def page(number: int, text: str) -> ContentPage:
    place = ChunkPlace(number, f"p{number}-e1", (10.0, 20.0, 30.0, 40.0))
    return ContentPage(text, number, (ChunkStart(0, number - 1, f"hash{number}"),), (place,))


async def with_pages(catalog: Catalog, document_id: str, *texts: str) -> int:
    await catalog.create(new(document_id))
    attempt = await catalog.begin_processing("blue", document_id)
    assert attempt is not None
    await catalog.set_content("blue", document_id, attempt, [page(n, one) for n, one in enumerate(texts, 1)])
    assert await catalog.complete("blue", document_id, attempt, None)
    return attempt


async def embed(catalog: Catalog, document_id: str, *, most: int = MANY, batches: int = 100) -> list[str]:
    """Embeds what is missing, by the first known word of each text; returns the texts that had no vector."""
    asked = await catalog.chunks_to_embed("blue", document_id, MODEL, most)
    if asked is None:
        return []
    sent: list[str] = []
    for batch, _ in zip(asked.batches(1), range(batches), strict=False):
        found = [next(v for k, v in MEANINGS.items() if k in text) for text in batch.values()]
        asked.add(list(batch), found)
        sent += batch.values()
        assert await catalog.put_chunk_vectors(asked)
    return sent


async def test_hit_by_meaning_has_the_page_and_box_of_its_nearest_chunk(catalog: Catalog) -> None:
    await with_pages(catalog, "a", "about vessels", "about planks", "about embers")
    document = await catalog.document_to_embed("blue", "a", MODEL)
    assert document is not None
    await catalog.put_document_vectors([document], [Vector(MODEL, (0.6, 0.6, 0.5))])
    before = (await catalog.search("blue", "timber", query_vector=Vector(MODEL, WOOD))).hits[0]
    assert await embed(catalog, "a") == ["about vessels", "about planks", "about embers"]
    hit = (await catalog.search("blue", "timber", query_vector=Vector(MODEL, WOOD))).hits[0]
    by_words = (await catalog.search("blue", "embers", query_vector=Vector(MODEL, FIRE))).hits[0]
    other_model = (await catalog.search("blue", "embers", query_vector=Vector("n", WOOD))).hits[0]

    assert before.snippet is not None
    assert before.snippet.page == 1, "without vectors of chunks the beginning is shown"
    assert hit.snippet is not None
    assert (hit.snippet.text, hit.snippet.page) == ("about planks", 2)
    assert hit.snippet.chunk == ChunkStart(0, 1, "hash2")
    assert [(one.page, one.element, one.box) for one in hit.snippet.places] == [
        (2, "p2-e1", (10.0, 20.0, 30.0, 40.0))
    ]
    assert hit.score > before.score
    assert hit.parts["chunk"] == pytest.approx(1.0, abs=0.02)
    for one in (by_words, other_model):
        assert one.snippet is not None
        assert one.snippet.page == 3


async def test_texts_that_stay_are_not_embedded_again_when_the_content_is_replaced(catalog: Catalog) -> None:
    attempt = await with_pages(catalog, "a", "some vessels", "old planks", "some embers")
    await embed(catalog, "a")
    assert not await catalog.has_chunks_to_embed("blue", "a", MODEL, MANY)
    pages = [page(n, one) for n, one in enumerate(("first planks", "some vessels", "some embers"), 1)]
    await catalog.set_content("blue", "a", attempt, pages)
    stale = (await catalog.search("blue", "vessels", query_vector=Vector(MODEL, FIRE))).hits[0]
    assert await catalog.has_chunks_to_embed("blue", "a", MODEL, MANY)
    assert await embed(catalog, "a") == ["first planks"]
    hit = (await catalog.search("blue", "first", query_vector=Vector(MODEL, FIRE))).hits[0]

    assert stale.snippet is not None
    assert stale.snippet.page == 2, "vectors of an earlier text place nothing"
    assert stale.parts["chunk"] == 0.0
    assert hit.parts["chunk"] == pytest.approx(1.0, abs=0.02)
    assert await embed(catalog, "a") == []


async def test_what_was_embedded_is_kept_when_the_process_dies_between_two_batches(catalog: Catalog) -> None:
    await with_pages(catalog, "a", "some vessels", "some planks", "some embers")
    assert await embed(catalog, "a", batches=1) == ["some vessels"]
    growing = (await catalog.search("blue", "some", query_vector=Vector(MODEL, SEA))).hits[0]
    missing, after = await catalog.documents_with_chunks_to_embed_of_all_teams(MODEL, MANY)
    assert await embed(catalog, "a") == ["some planks", "some embers"]

    assert growing.parts["chunk"] > 0.9
    assert (missing, after) == ([("blue", "a")], None)
    assert await catalog.documents_with_chunks_to_embed_of_all_teams(MODEL, MANY) == ([], None)


async def test_vectors_of_a_text_that_was_replaced_meanwhile_are_not_stored(catalog: Catalog) -> None:
    attempt = await with_pages(catalog, "a", "some vessels")
    late = await catalog.chunks_to_embed("blue", "a", MODEL, MANY)
    deleted = await catalog.chunks_to_embed("blue", "a", MODEL, MANY)
    assert late is not None
    assert deleted is not None
    await catalog.set_content("blue", "a", attempt, [page(1, "some embers")])
    late.add(list(late.missing), [SEA])
    assert not await catalog.put_chunk_vectors(late)
    assert await embed(catalog, "a") == ["some embers"]
    await catalog.delete("blue", "a")
    assert not await catalog.put_chunk_vectors(deleted)


async def test_only_the_first_chunks_get_a_vector_and_a_higher_bound_adds_the_rest(catalog: Catalog) -> None:
    await with_pages(catalog, "a", "some vessels", "some planks", "some embers")
    assert await embed(catalog, "a", most=2) == ["some vessels", "some planks"]
    assert not await catalog.has_chunks_to_embed("blue", "a", MODEL, 2)
    assert await embed(catalog, "a", most=3) == ["some embers"]
    assert not await catalog.has_chunks_to_embed("blue", "a", MODEL, MANY), "it has no more chunks"
    assert await catalog.has_chunks_to_embed("blue", "a", "another model", MANY)
    assert not await catalog.has_chunks_to_embed("red", "a", MODEL, MANY)


async def test_document_without_text_is_done_at_once(catalog: Catalog) -> None:
    await stored(catalog, "a", title="Empty")
    assert await embed(catalog, "a") == []
    assert not await catalog.has_chunks_to_embed("blue", "a", MODEL, MANY)


async def test_texts_without_direction_are_near_to_nothing_and_not_asked_for_again(catalog: Catalog) -> None:
    await with_pages(catalog, "a", "...", "some planks")
    asked = await catalog.chunks_to_embed("blue", "a", MODEL, MANY)
    assert asked is not None
    asked.add(list(asked.missing), [(0.0,), WOOD])  # the first was rejected
    assert await catalog.put_chunk_vectors(asked)
    hit = (await catalog.search("blue", "some", query_vector=Vector(MODEL, WOOD))).hits[0]
    assert hit.snippet is not None
    assert hit.snippet.page == 2
    assert not await catalog.has_chunks_to_embed("blue", "a", MODEL, MANY)


@given(st.lists(st.integers(-1_000, 1_000), min_size=8, max_size=8).filter(any), st.integers(0, 99))
def test_a_packed_vector_has_nearly_its_cosine(values: list[int], seed: int) -> None:
    row = np.array(values, np.float32)
    wanted = np.random.default_rng(seed).normal(size=8).astype(np.float32)
    wanted /= np.linalg.norm(wanted)
    raw = packed_sheet([(7, text_key("a"))], {text_key("a"): packed_vector(row)})
    nearest = ChunkSheet(raw, 1, 8).nearest(wanted)
    assert nearest is not None
    assert (nearest.number, nearest.key) == (7, text_key("a"))
    assert nearest.cosine == pytest.approx(float(row @ wanted / np.linalg.norm(row)), abs=0.02)


def test_damaged_bytes_are_no_sheet() -> None:
    with pytest.raises(ValueError, match="sheet"):
        ChunkSheet(b"\x00" * 10, 1, 8)
