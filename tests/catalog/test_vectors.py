"""Vectors on both databases: which are missing, storing them, and finding what is near."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from quire.catalog.catalog import Catalog
from quire.domain.vault_document import (
    Classification,
    ContentPage,
    DocumentFilters,
    TextToEmbed,
    Vector,
)
from tests.catalog.stored_documents import new, stored

NORTH, EAST, NORTH_EAST = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 1.0, 0.0)


async def put(catalog: Catalog, document_id: str, values: tuple[float, ...], model: str = "m") -> None:
    wanted = await catalog.document_to_embed("blue", document_id, model)
    assert wanted is not None
    assert await catalog.put_document_vectors([wanted], [Vector(model, values)]) == 1


async def near(catalog: Catalog, values: tuple[float, ...], model: str = "m", **filters: object) -> list[str]:
    wanted = DocumentFilters(**filters)  # type: ignore[arg-type]
    page = await catalog.search("blue", "?", wanted, query_vector=Vector(model, values))
    return [hit.document.id for hit in page.hits]


async def test_document_is_handed_out_until_it_has_a_vector_of_the_model(catalog: Catalog) -> None:
    await stored(catalog, "a", "The text.", title="Title", summary="Summary", tags=("One", "Two"))
    wanted = await catalog.document_to_embed("blue", "a", "m")
    assert wanted == TextToEmbed("blue", "a", "Title\nOne, Two\nSummary")
    assert await catalog.documents_to_embed_of_all_teams("m") == [wanted]
    await put(catalog, "a", NORTH)
    assert await catalog.document_to_embed("blue", "a", "m") is None
    assert await catalog.documents_to_embed_of_all_teams("m") == []
    # Another model: everything is handed out again.
    assert await catalog.documents_to_embed_of_all_teams("other") == [wanted]
    await put(catalog, "a", NORTH, "other")
    assert await catalog.documents_to_embed_of_all_teams("other") == []
    assert await catalog.documents_to_embed_of_all_teams("m") == [wanted]


async def test_beginning_of_the_content_is_embedded_when_there_is_no_summary(catalog: Catalog) -> None:
    await stored(catalog, "a", "First words. " * 1000)
    wanted = await catalog.document_to_embed("blue", "a", "m")
    assert wanted is not None
    assert wanted.text.startswith("First words. First words.")
    assert len(wanted.text) <= 1500
    await stored(catalog, "empty")
    assert await catalog.document_to_embed("blue", "empty", "m") is None
    await catalog.create(new("pending"))
    assert await catalog.document_to_embed("blue", "pending", "m") is None


async def test_pages_of_missing_vectors_cover_all_teams_once(catalog: Catalog) -> None:
    for n in range(7):
        await stored(catalog, f"d{n}", team="red" if n % 2 else "blue", title=f"T{n}" if n != 4 else None)
    seen: list[tuple[str, str]] = []
    after = None
    while page := await catalog.documents_to_embed_of_all_teams("m", after=after, limit=2):
        seen += [(one.team, one.id) for one in page]
        after = seen[-1]
    assert seen == [
        ("blue", "d0"),
        ("blue", "d2"),
        ("blue", "d6"),
        ("red", "d1"),
        ("red", "d3"),
        ("red", "d5"),
    ]


async def test_vector_is_wanted_again_when_the_text_changed(catalog: Catalog) -> None:
    await stored(catalog, "a", title="Old", summary="Same")
    old = await catalog.document_to_embed("blue", "a", "m")
    assert old is not None
    await put(catalog, "a", NORTH)
    attempt = await catalog.begin_processing("blue", "a")
    assert attempt == 2
    await catalog.complete("blue", "a", 2, Classification("Old", "local", summary="Same"))
    assert await catalog.document_to_embed("blue", "a", "m") is None  # nothing changed
    await catalog.begin_processing("blue", "a")
    await catalog.complete("blue", "a", 3, Classification("New", "local", summary="Same"))
    fresh = await catalog.document_to_embed("blue", "a", "m")
    assert fresh is not None
    assert fresh.text == "New\nSame"
    # A vector of the old text comes late.
    assert await catalog.put_document_vectors([old], [Vector("m", NORTH)]) == 0
    assert await catalog.put_document_vectors([TextToEmbed("red", "a", old.text)], [Vector("m", NORTH)]) == 0
    assert await catalog.document_to_embed("blue", "a", "m") == fresh


async def test_vector_is_wanted_again_when_the_content_it_was_made_of_changed(catalog: Catalog) -> None:
    await stored(catalog, "a", "old content")
    await put(catalog, "a", NORTH)
    attempt = await catalog.begin_processing("blue", "a")
    assert attempt is not None
    await catalog.set_content("blue", "a", attempt, [ContentPage("new content")])
    await catalog.complete("blue", "a", attempt, None)
    fresh = await catalog.document_to_embed("blue", "a", "m")
    assert fresh is not None
    assert fresh.text == "new content"


async def test_tags_are_handed_out_once_when_several_documents_have_them(catalog: Catalog) -> None:
    await stored(catalog, "a", tags=("Tax", "Car"))
    await stored(catalog, "b", tags=("tax",))
    wanted = await catalog.tags_to_embed("blue", "a", "m")
    assert [one.text for one in wanted] == ["Car", "Tax"] or [one.text for one in wanted] == ["Tax", "Car"]
    assert await catalog.put_tag_vectors(wanted, [Vector("m", NORTH)] * 2) == 2
    assert await catalog.tags_to_embed("blue", "b", "m") == []
    assert await catalog.tags_to_embed_of_all_teams("m") == []
    again = await catalog.tags_to_embed_of_all_teams("other", limit=1)
    more = await catalog.tags_to_embed_of_all_teams("other", after=(again[0].team, again[0].id), limit=5)
    assert {one.text for one in (*again, *more)} == {"Tax", "Car"}
    await catalog.delete("blue", "b")
    await catalog.delete("blue", "a")
    assert await catalog.put_tag_vectors(wanted, [Vector("other", NORTH)] * 2) == 0


@pytest.mark.usefixtures("few")
async def test_nearest_come_first_when_nothing_has_the_words(catalog: Catalog) -> None:
    for name, values in (("n", NORTH), ("e", EAST), ("ne", NORTH_EAST)):
        await stored(catalog, name, title=f"Title {name}", language="en" if name != "n" else "de")
        await put(catalog, name, values)
    assert await near(catalog, NORTH) == ["n", "ne"]
    assert await near(catalog, (0.1, 2.0, 0.0)) == ["e", "ne"]
    assert await near(catalog, NORTH, language="en") == ["ne"]
    assert await near(catalog, NORTH, "other model") == []
    assert await near(catalog, (1.0, 0.0)) == []  # another width can't be compared
    assert await near(catalog, (0.0, 0.0, 0.0)) == []


async def test_changes_of_other_processes_are_seen_when_vectors_are_kept_in_memory(
    open_catalog: Callable[[], Awaitable[Catalog]],
) -> None:
    reader, writer = await open_catalog(), await open_catalog()
    for n in range(8):
        await stored(writer, f"d{n}", title=f"Title {n}")
        await put(writer, f"d{n}", (1.0, 0.1 * n, 0.0))
    assert (await near(reader, NORTH))[0] == "d0"
    await writer.delete("blue", "d0")
    assert (await near(reader, NORTH))[0] == "d1"
    await stored(writer, "fresh", title="Fresh")
    await put(writer, "fresh", NORTH)
    assert (await near(reader, NORTH))[:2] == ["fresh", "d1"]
    await writer.begin_processing("blue", "d1")
    await writer.complete("blue", "d1", 2, Classification("Other", "local"))
    assert "d1" not in await near(reader, NORTH)
    await put(writer, "d1", EAST)
    assert (await near(reader, EAST))[0] == "d1"
    for n in range(2, 8):
        await writer.delete("blue", f"d{n}")
    assert await near(reader, NORTH_EAST) == ["d1", "fresh"] or await near(reader, NORTH_EAST) == [
        "fresh",
        "d1",
    ]


async def test_documents_are_found_by_their_tags_when_these_mean_the_query(catalog: Catalog) -> None:
    await stored(catalog, "a", title="Something", tags=("Vehicles",))
    await stored(catalog, "b", title="Other", tags=("Cooking",))
    for document_id, values in (("a", NORTH), ("b", EAST)):
        tags = await catalog.tags_to_embed("blue", document_id, "m")
        await catalog.put_tag_vectors(tags, [Vector("m", values)])
    page = await catalog.search("blue", "?", query_vector=Vector("m", NORTH))
    assert [hit.document.id for hit in page.hits] == ["a"]
    assert page.hits[0].parts["tags"] > 0.9


async def test_wide_vectors_are_kept_when_a_model_makes_them(catalog: Catalog) -> None:
    await stored(catalog, "a", title="A")
    await stored(catalog, "b", title="B")
    wide = [0.0] * 3072
    wide[7] = 1.0
    await put(catalog, "a", tuple(wide), "large")
    await put(catalog, "b", tuple(reversed(wide)), "large")
    assert await near(catalog, tuple(wide), "large") == ["a"]
