"""Tags on both databases: one for all spellings, counted, gone with the last document."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from quire.catalog.catalog import Catalog
from tests.catalog.stored_documents import new, stored


async def names(catalog: Catalog, prefix: str = "", team: str = "blue") -> list[tuple[str, int]]:
    return [(tag.name, tag.documents) for tag in await catalog.tags(team, prefix)]


async def test_existing_tag_is_used_when_the_spelling_differs(catalog: Catalog) -> None:
    await stored(catalog, "a", tags=("Crème brûlée", "Tax 2024"))
    second = await stored(catalog, "b", tags=("creme  BRULEE", "tax-2024", "TAX 2024", "new one"))
    assert second.tags == ("Crème brûlée", "Tax 2024", "new one")
    assert await names(catalog) == [("Crème brûlée", 2), ("Tax 2024", 2), ("new one", 1)]
    other = await stored(catalog, "c", team="red", tags=("TAX 2024",))
    assert other.tags == ("TAX 2024",)


async def test_suggestions_begin_with_what_was_typed_when_any_word_does(catalog: Catalog) -> None:
    await stored(catalog, "a", tags=("income tax", "taxi", "Übertrag", "100%_sure"))
    await stored(catalog, "b", tags=("income tax",))
    assert await names(catalog, "tax") == [("income tax", 2), ("taxi", 1)]
    assert await names(catalog, "uber") == [("Übertrag", 1)]
    assert await names(catalog, "100%") == [("100%_sure", 1)]
    assert await names(catalog, "%") == []
    assert await names(catalog, "zzz") == []
    assert len(await catalog.tags("blue", limit=1)) == 1


async def test_tag_goes_when_no_document_has_it_any_more(catalog: Catalog) -> None:
    await stored(catalog, "a", tags=("only", "both"))
    await stored(catalog, "b", tags=("both",))
    assert await catalog.assign_tags("blue", "a", ["both", "fresh"]) == ("both", "fresh")
    assert await names(catalog) == [("both", 2), ("fresh", 1)]
    await catalog.delete("blue", "b")
    assert await names(catalog) == [("both", 1), ("fresh", 1)]
    await catalog.assign_tags("blue", "a", [])
    assert await names(catalog) == []
    assert (await catalog.get("blue", "a")).tags == ()


async def test_names_without_letters_are_left_out(catalog: Catalog) -> None:
    kept = await stored(catalog, "a", tags=("--", "☂", "日本"))
    assert kept.tags == ("日本",)


async def test_counts_stay_right_when_many_assign_and_take_away_at_once(
    open_catalog: Callable[[], Awaitable[Catalog]],
) -> None:
    catalogs = [await open_catalog() for _ in range(3)]
    for n in range(6):
        await catalogs[0].create(new(f"d{n}"))

    async def change(n: int) -> None:
        one = catalogs[n % 3]
        for step in range(4):
            await one.assign_tags(
                "blue", f"d{n}", ["shared", f"own {n}", f"step {step}"] if step % 2 else ["b", "a"]
            )
        await one.assign_tags("blue", f"d{n}", ["shared"])

    await asyncio.gather(*map(change, range(6)))
    assert await names(catalogs[0]) == [("shared", 6)]
