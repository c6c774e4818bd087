"""Documents, their attempts and lists of them, on both databases."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable

import pytest

from quire.catalog.catalog import Catalog
from quire.domain.vault_document import (
    UNSUPPORTED_TYPE,
    Classification,
    ContentPage,
    ConversionRecord,
    DocumentFilters,
    DocumentState,
    DocumentStatus,
)
from quire.errors import MissingError, RequestError
from tests.catalog.stored_documents import new, stored
from tests.support.clocks import MovableClock

FAILURE = {"error": "The document is damaged.", "code": "damaged_document", "retryable": False}


async def ids(catalog: Catalog, team: str = "blue", **filters: object) -> list[str]:
    page = await catalog.list(team, DocumentFilters(**filters))  # type: ignore[arg-type]
    return [one.id for one in page.documents]


async def test_creating_answers_with_what_is_there_when_done_twice(catalog: Catalog) -> None:
    first, made = await catalog.create(new("a", metadata={"from": "mail", "Ü": "\ud800\0"}))
    again, made_again = await catalog.create(new("a", filename="other.pdf"))
    assert (made, made_again) == (True, False)
    assert again == first == await catalog.get("blue", "a")
    assert (first.status, first.attempt, first.filename) == (DocumentStatus.PENDING, 0, "a.pdf")
    assert first.metadata["from"] == "mail"


async def test_one_document_is_made_when_many_create_it_at_once(
    open_catalog: Callable[[], Awaitable[Catalog]],
) -> None:
    catalogs = [await open_catalog() for _ in range(3)]
    answers = await asyncio.gather(*(catalogs[n % 3].create(new("a")) for n in range(9)))
    assert sum(made for _, made in answers) == 1
    assert await ids(catalogs[0]) == ["a"]


async def test_another_teams_document_is_not_found_when_asked_for(catalog: Catalog) -> None:
    await stored(catalog, "a", "secret plans", title="Plans", tags=("secret",), content_hash="h")
    for ask in (
        catalog.get("red", "a"),
        catalog.assign_tags("red", "a", ["mine"]),
    ):
        with pytest.raises(MissingError):
            await ask
    assert await catalog.find("red", "a") is None
    assert await catalog.find_by_hash("red", "h") is None
    assert await catalog.begin_processing("red", "a") is None
    assert not await catalog.fail("red", "a", 1, FAILURE)
    assert await catalog.set_content("red", "a", 1, [ContentPage("x")]) is None
    assert await catalog.delete("red", "a") is None
    assert await ids(catalog, "red") == []
    assert await catalog.tags("red") == []
    assert sum((await catalog.counts("red")).values()) == 0
    assert (await catalog.search("red", "secret plans")).hits == ()
    assert await catalog.document_to_embed("red", "a", "m") is None
    assert (await catalog.get("blue", "a")).tags == ("secret",)


async def test_classification_is_kept_when_an_attempt_completes(
    catalog: Catalog, clock: MovableClock
) -> None:
    await catalog.create(new("a"))
    attempt = await catalog.begin_processing("blue", "a")
    assert attempt == 1
    conversion = ConversionRecord(
        job_id="j1", result_ref="results/j1", pages=3, kind="png", metadata={"n": 1}
    )
    assert await catalog.note_conversion("blue", "a", 1, conversion)
    clock.time += 5
    found = Classification(
        "Réponse\0",
        "openai:gpt",
        summary="A letter",
        date="2024-02-29",
        language="fr",
        tags=("Courrier", "2024"),
    )
    assert await catalog.complete("blue", "a", 1, found)
    kept = await catalog.get("blue", "a")
    assert (kept.title, kept.summary, kept.date, kept.language) == ("Réponse", "A letter", "2024-02-29", "fr")
    assert (kept.classified_by, kept.tags, kept.error) == ("openai:gpt", ("Courrier", "2024"), None)
    assert (kept.job_id, kept.result_ref, kept.pages, kept.kind) == ("j1", "results/j1", 3, "png")
    assert (kept.status, kept.completed_at, kept.pending_since) == (
        DocumentStatus.COMPLETED,
        clock.time,
        None,
    )


async def test_document_needs_classification_when_completed_without_one(
    catalog: Catalog, clock: MovableClock
) -> None:
    await catalog.create(new("a"))
    await catalog.begin_processing("blue", "a")
    assert await catalog.complete("blue", "a", 1, None, error=FAILURE)
    kept = await catalog.get("blue", "a")
    assert (kept.title, kept.error) == (None, FAILURE)
    assert kept.state(clock.now()) is DocumentState.NEEDS_CLASSIFICATION
    assert await ids(catalog, state=DocumentState.NEEDS_CLASSIFICATION) == ["a"]


async def test_earlier_classification_stays_when_a_retry_brings_none(catalog: Catalog) -> None:
    await stored(catalog, "a", title="Lease", tags=("housing",))
    attempt = await catalog.begin_processing("blue", "a")
    assert attempt == 2
    assert await catalog.complete("blue", "a", 2, None)
    kept = await catalog.get("blue", "a")
    assert (kept.title, kept.tags) == ("Lease", ("housing",))


async def test_late_end_of_an_old_attempt_changes_nothing(catalog: Catalog) -> None:
    await catalog.create(new("a"))
    assert await catalog.begin_processing("blue", "a") == 1
    assert await catalog.begin_processing("blue", "a") == 2
    before = await catalog.get("blue", "a")
    late = Classification("Late", "local", tags=("late",))
    assert not await catalog.complete("blue", "a", 1, late)
    assert not await catalog.fail("blue", "a", 1, FAILURE)
    assert not await catalog.note_conversion("blue", "a", 1, ConversionRecord(job_id="old"))
    assert await catalog.set_content("blue", "a", 1, [ContentPage("late words")]) is None
    assert not await catalog.still_current("blue", "a", 1)
    assert await catalog.still_current("blue", "a", 2)
    assert await catalog.get("blue", "a") == before
    assert await catalog.tags("blue") == []
    assert (await catalog.search("blue", "late")).hits == ()


async def test_finished_attempt_stays_as_it_is_when_finished_again(catalog: Catalog) -> None:
    await catalog.create(new("a"))
    await catalog.begin_processing("blue", "a")
    assert await catalog.fail("blue", "a", 1, FAILURE)
    assert not await catalog.complete("blue", "a", 1, Classification("T", "local"))
    kept = await catalog.get("blue", "a")
    assert (kept.status, kept.error, kept.title) == (DocumentStatus.FAILED, FAILURE, None)
    assert await catalog.begin_processing("blue", "a") == 2
    again = await catalog.get("blue", "a")
    assert (again.status, again.error, again.completed_at) == (DocumentStatus.PENDING, None, None)


async def test_one_retry_begins_when_many_saw_the_same_attempt(
    open_catalog: Callable[[], Awaitable[Catalog]],
) -> None:
    catalogs = [await open_catalog() for _ in range(3)]
    await stored(catalogs[0], "a")
    begun = await asyncio.gather(*(catalogs[n % 3].begin_processing("blue", "a", seen=1) for n in range(9)))
    assert sorted(one for one in begun if one is not None) == [2]


async def test_race_of_retry_and_finish_ends_in_one_state(
    open_catalog: Callable[[], Awaitable[Catalog]],
) -> None:
    first, second = await open_catalog(), await open_catalog()
    await first.create(new("a"))
    await first.begin_processing("blue", "a")
    for attempt in range(1, 8):
        done = Classification(f"Title {attempt}", "local", tags=(f"t{attempt}",))
        finished, begun = await asyncio.gather(
            first.complete("blue", "a", attempt, done), second.begin_processing("blue", "a", seen=attempt)
        )
        assert begun == attempt + 1
        kept = await first.get("blue", "a")
        assert (kept.status, kept.attempt) == (DocumentStatus.PENDING, attempt + 1)
        assert (kept.title == f"Title {attempt}") is finished


async def test_list_pages_through_everything_once_when_documents_come_and_go(catalog: Catalog) -> None:
    for n in range(25):
        await catalog.create(new(f"d{n:02}"))
    seen: list[str] = []
    cursor = None
    for step in range(10):
        page = await catalog.list("blue", cursor=cursor, limit=4)
        seen += [one.id for one in page.documents]
        cursor = page.next_cursor
        await catalog.create(new(f"late{step}"))
        await catalog.delete("blue", seen[-1])  # the one at the cursor
        if cursor is None:
            break
    assert seen == [f"d{n:02}" for n in reversed(range(25))]


async def test_cursor_is_refused_when_it_is_of_another_question(catalog: Catalog) -> None:
    for n in range(3):
        await stored(catalog, f"d{n}", "words", title="T")
    listed = (await catalog.list("blue", limit=1)).next_cursor
    searched = (await catalog.search("blue", "words", limit=1)).next_cursor
    assert listed
    assert searched
    for cursor in (listed, searched, "", "!!", "e30", "WzEsMl0", "x" * 2000, "Ä"):
        with pytest.raises(RequestError):
            await catalog.list("red", cursor=cursor)
        with pytest.raises(RequestError):
            await catalog.search("blue", "other words", cursor=cursor)


async def test_filters_narrow_a_list(catalog: Catalog, clock: MovableClock) -> None:
    early = clock.time
    await stored(
        catalog, "a", "apples and pears", title="A", tags=("Fruit", "Été"), date="2020-01-31", language="en"
    )
    clock.time += 100
    await stored(
        catalog, "b", "Äpfel", title="B", tags=("fruit",), date="2021-06-01", language="de", kind="png"
    )
    await stored(catalog, "c", "pears", tags=(), language="en")
    await catalog.create(new("d"))
    assert await ids(catalog, tags=("fruit",)) == ["b", "a"]
    assert await ids(catalog, tags=("FRUIT", "ete")) == ["a"]
    assert await ids(catalog, tags=("nothing",)) == []
    assert await ids(catalog, kinds=("png", "gif")) == ["b"]
    assert await ids(catalog, language="en") == ["c", "a"]
    assert await ids(catalog, date_from="2020-01-31", date_to="2020-12-31") == ["a"]
    assert await ids(catalog, date_from="2021-01-01") == ["b"]
    assert await ids(catalog, created_to_s=early + 100) == ["a"]
    assert await ids(catalog, created_from_s=early + 100) == ["d", "c", "b"]
    assert await ids(catalog, text="pears") == ["c", "a"]
    assert await ids(catalog, text="APPLES pears") == ["a"]
    assert await ids(catalog, text="apfel") == ["b"]
    assert await ids(catalog, text="fruit", language="en") == ["a"]
    assert await ids(catalog, state=DocumentState.PENDING) == ["d"]
    assert await ids(catalog, state=DocumentState.COMPLETED) == ["c", "b", "a"]
    assert await ids(catalog, state=DocumentState.STALE) == []
    clock.time += 601
    assert await ids(catalog, state=DocumentState.STALE) == ["d"]


async def test_stale_documents_of_all_teams_are_found_when_pending_too_long(
    catalog: Catalog, clock: MovableClock
) -> None:
    await catalog.create(new("old", "red"))
    clock.time += 60
    await catalog.create(new("new", "blue"))
    await stored(catalog, "done")
    clock.time += 541
    assert [(one.team, one.id) for one in await catalog.stale_of_all_teams(600)] == [("red", "old")]
    counted = await catalog.counts("red")
    assert counted[DocumentState.STALE] == 1
    assert sum(counted.values()) == 1
    await catalog.begin_processing("red", "old")
    assert await catalog.stale_of_all_teams(600) == []


async def test_counts_add_up_when_there_is_one_of_each_state(catalog: Catalog, clock: MovableClock) -> None:
    await catalog.create(new("stale"))
    clock.time += 601
    await catalog.create(new("pending"))
    await stored(catalog, "untitled")
    await stored(catalog, "done", title="Done")
    await catalog.create(new("failed"))
    await catalog.begin_processing("blue", "failed")
    await catalog.fail("blue", "failed", 1, FAILURE)
    await catalog.create(new("zip"))
    await catalog.begin_processing("blue", "zip")
    await catalog.complete("blue", "zip", 1, None, error={"code": UNSUPPORTED_TYPE, "error": "A ZIP."})
    assert dict(await catalog.counts("blue")) == dict.fromkeys(DocumentState, 1)
    assert await ids(catalog, state=DocumentState.UNSUPPORTED) == ["zip"]
    assert await ids(catalog, state=DocumentState.NEEDS_CLASSIFICATION) == ["untitled"]


async def test_classification_that_ends_late_fills_the_completed_document(catalog: Catalog) -> None:
    await catalog.create(new("d"))
    await catalog.begin_processing("blue", "d")
    await catalog.complete("blue", "d", 1, None, error={"code": "classifying", "error": "Not yet."})
    first = await catalog.get("blue", "d")
    made = Classification(title="Late", by="local", tags=("a",))

    assert not await catalog.complete("blue", "d", 1, made)
    assert await catalog.complete("blue", "d", 1, made, late=True)
    after = await catalog.get("blue", "d")
    assert (after.title, after.tags, after.error, after.completed_at) == (
        "Late",
        ("a",),
        None,
        first.completed_at,
    )
    await catalog.begin_processing("blue", "d")
    assert not await catalog.complete("blue", "d", 1, made, late=True)


async def test_each_gives_every_document_when_there_are_more_than_a_page(catalog: Catalog) -> None:
    for n in range(210):
        await catalog.create(new(f"d{n:03}"))
    found = [one.id async for one in catalog.each("blue")]
    assert found == [f"d{n:03}" for n in reversed(range(210))]
    assert [one.id async for one in catalog.each("blue", DocumentFilters(kinds=("docx",)))] == []


async def test_documents_are_found_by_their_bytes_newest_first(catalog: Catalog) -> None:
    await catalog.create(new("a", content_hash="x"))
    await catalog.create(new("b", content_hash="x"))
    found = await catalog.find_by_hash("blue", "x")
    assert found is not None
    assert found.id == "b"


def test_classification_is_refused_when_no_record_could_hold_it() -> None:
    good = Classification("Title", "local", date="2024-12-31", tags=("a",))
    for change in (
        {"date": "2024-13-01"},
        {"date": "20241231"},
        {"date": "yesterday"},
        {"title": "  "},
        {"title": "x" * 301},
        {"tags": ("",)},
        {"tags": ("x" * 65,)},
        {"summary": "x" * 4001},
    ):
        with pytest.raises(ValueError, match=r"title|summary|tag|date"):
            dataclasses.replace(good, **change)  # type: ignore[arg-type]
