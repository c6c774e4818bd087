"""Aliases of documents: created with the removal of the merged document, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from quire.catalog.catalog import Catalog, CatalogOptions
from quire.catalog.database.database import Database
from quire.catalog.database.migrating import migrate
from quire.domain.vault_document import ContentPage, ConversionRecord
from tests.catalog.stored_documents import new, stored
from tests.support.clocks import MovableClock


async def _pending(catalog: Catalog, document_id: str) -> int:
    await catalog.create(new(document_id))
    attempt = await catalog.begin_processing("blue", document_id)
    assert attempt is not None
    return attempt


async def test_id_leads_to_the_other_document_when_one_is_merged_into_it(catalog: Catalog) -> None:
    kept = await stored(catalog, "kept", "Ropes and sails", tags=("gear",))
    attempt = await _pending(catalog, "twin")
    await catalog.set_content("blue", "twin", attempt, [ContentPage("Ropes and anchors", 1)])

    assert await catalog.merge("blue", "twin", attempt, into="kept")

    assert await catalog.find("blue", "twin") is None
    assert await catalog.find_by_alias("blue", "twin") == kept
    assert await catalog.find_by_alias("red", "twin") is None
    assert await catalog.find_by_alias("blue", "kept") is None
    assert [hit.document.id for hit in (await catalog.search("blue", "ropes")).hits] == ["kept"]
    assert (await catalog.search("blue", "anchors")).hits == ()
    assert not await catalog.merge("blue", "twin", attempt, into="kept")


async def test_nothing_is_merged_when_the_attempt_is_over_or_the_other_is_gone(catalog: Catalog) -> None:
    await stored(catalog, "kept")
    attempt = await _pending(catalog, "twin")

    assert not await catalog.merge("blue", "twin", attempt + 1, into="kept")
    assert not await catalog.merge("blue", "twin", attempt, into="nobody")
    assert not await catalog.merge("blue", "twin", attempt, into="twin")
    assert not await catalog.merge("red", "twin", attempt, into="kept")
    await catalog.complete("blue", "twin", attempt, None)
    assert not await catalog.merge("blue", "twin", attempt, into="kept")
    assert (await catalog.get("blue", "twin")).attempt == attempt
    assert await catalog.find_by_alias("blue", "twin") is None


async def test_second_ids_follow_their_document_and_go_with_it(catalog: Catalog) -> None:
    await stored(catalog, "kept")
    one, two = await _pending(catalog, "one"), await _pending(catalog, "two")

    assert await catalog.merge("blue", "one", one, into="two")
    assert await catalog.merge("blue", "two", two, into="kept")
    found = [await catalog.find_by_alias("blue", each) for each in ("one", "two")]
    assert [each.id for each in found if each] == ["kept", "kept"]
    await catalog.delete("blue", "kept")
    assert [await catalog.find_by_alias("blue", each) for each in ("one", "two")] == [None, None]


async def test_one_of_two_stays_when_each_is_merged_into_the_other_at_once(
    open_catalog: Callable[[], Awaitable[Catalog]],
) -> None:
    first, second = await open_catalog(), await open_catalog()
    for number in range(10):
        a, b = f"a{number}", f"b{number}"
        attempts = [await _pending(first, a), await _pending(first, b)]

        done = await asyncio.gather(
            first.merge("blue", a, attempts[0], into=b), second.merge("blue", b, attempts[1], into=a)
        )

        assert sorted(done) == [False, True]
        left = [one for one in (a, b) if await first.find("blue", one) is not None]
        assert len(left) == 1


async def test_hash_and_size_are_noted_when_a_link_was_fetched(catalog: Catalog) -> None:
    attempt = await _pending(catalog, "linked")

    assert await catalog.note_conversion(
        "blue", "linked", attempt, ConversionRecord(content_hash="h", size_bytes=7, content_ref="r")
    )

    found = await catalog.find_by_hash("blue", "h")
    assert found is not None
    assert (found.id, found.size_bytes, found.content_ref) == ("linked", 7, "r")


async def test_documents_can_be_merged_when_the_tables_come_from_the_second_version(
    empty: CatalogOptions,
) -> None:
    old = Database.on_postgres(empty.url, 2) if empty.url else Database.on_sqlite(empty.file, 2)
    await migrate(old, to="0002")
    await old.close()

    catalog = await Catalog.open(empty, MovableClock())
    try:
        await stored(catalog, "kept")
        assert await catalog.merge("blue", "twin", await _pending(catalog, "twin"), into="kept")
        assert (await catalog.find_by_alias("blue", "twin")) is not None
    finally:
        await catalog.close()
