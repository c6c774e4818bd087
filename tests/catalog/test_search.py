"""Search on both databases: words, spelling, snippets, filters and pages."""

from __future__ import annotations

import pytest

from quire.catalog.catalog import Catalog
from quire.domain.text_chunk import ChunkPlace
from quire.domain.vault_document import ChunkStart, ContentPage, DocumentFilters, DocumentState, Snippet
from tests.catalog.stored_documents import new, stored


async def found(catalog: Catalog, query: str, team: str = "blue", **filters: object) -> list[str]:
    page = await catalog.search(team, query, DocumentFilters(**filters))  # type: ignore[arg-type]
    return [hit.document.id for hit in page.hits]


def marked(snippet: Snippet | None) -> list[str]:
    assert snippet is not None
    return [snippet.text[start:end] for start, end in snippet.highlights]


@pytest.fixture
async def letters(catalog: Catalog) -> Catalog:
    await stored(catalog, "rent", "The rent for the flat in Lyon is due on the first of May.", title="Lease")
    await stored(catalog, "budget", "Minutes of the meeting about the annual budget.", title="Minutes")
    await stored(catalog, "cafe", "Facture du Café Müller à Zürich, 42 couverts.", title="Facture 2024-118")
    return catalog


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("rent Lyon", ["rent"]),
        ("LYON", ["rent"]),
        ("lease", ["rent"]),
        ("cafe muller", ["cafe"]),
        ("CAFÉ", ["cafe"]),
        ("zurich", ["cafe"]),
        ("118", ["cafe"]),
        ("2024-118", ["cafe"]),
        ("budg", ["budget"]),
        ("budgets", ["budget"]),
        ("meetings", ["budget"]),
        ("zebra", []),
        ("rent.pdf", ["rent"]),
        ('") OR team_word : *', []),
        ("'; DROP TABLE documents --", []),
        ("AND OR NOT NEAR(", []),
        ("\0", []),
        ("\ud800", []),
    ],
)
async def test_words_are_found_in_any_spelling_and_nothing_breaks(
    letters: Catalog, query: str, wanted: list[str]
) -> None:
    assert (await found(letters, query))[:1] == wanted[:1]
    if not wanted:
        assert await found(letters, query) == []


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("bugdet", "budget"),
        ("anual", "annual"),
        ("meating", "meeting"),
        ("factrue", "facture"),
        ("ninutes", "minutes"),
    ],
)
async def test_misspelt_words_are_corrected_when_no_document_has_them(
    letters: Catalog, query: str, wanted: str
) -> None:
    page = await letters.search("blue", query)
    assert len(page.hits) == 1
    assert dict(page.corrections) == {query: wanted}
    assert wanted in [word.lower() for word in marked(page.hits[0].snippet)] or page.hits[0].title_highlights


async def test_corrections_never_come_from_another_team(catalog: Catalog) -> None:
    await stored(catalog, "a", "confidential acquisition", team="red")
    await stored(catalog, "b", "nothing of note")
    page = await catalog.search("blue", "aquisition")
    assert page.hits == ()
    assert dict(page.corrections) == {}


async def test_scripts_without_spaces_are_searched_by_parts(catalog: Catalog) -> None:
    await stored(catalog, "ja", "東京都の請求書です。株式会社の住所。", title="請求書")
    await stored(catalog, "en", "An invoice", title="Invoice")
    assert await found(catalog, "請求書") == ["ja"]
    assert await found(catalog, "株式会社") == ["ja"]
    page = await catalog.search("blue", "住所")
    assert marked(page.hits[0].snippet)


async def test_title_counts_more_than_text_and_rare_words_more_than_common_ones(catalog: Catalog) -> None:
    for n in range(12):
        await stored(catalog, f"noise{n}", "A report about many things, quarterly.", title="Report")
    await stored(catalog, "text", "Somewhere here an orchard is mentioned in a report.", title="Report")
    await stored(catalog, "title", "Trees and land.", title="Orchard survey")
    assert (await found(catalog, "orchard"))[:2] == ["title", "text"]
    assert (await found(catalog, "report orchard"))[:2] in (["text", "title"], ["title", "text"])
    assert (await found(catalog, "mentioned report"))[0] == "text"


async def test_words_close_together_win_over_words_apart(catalog: Catalog) -> None:
    apart = (
        "Green paint was bought. " + "Other matters were dealt with at length. " * 12 + "A house was sold."
    )
    await stored(catalog, "apart", apart)
    await stored(
        catalog, "close", "The green house was painted. " + "Other matters were dealt with at length. " * 12
    )
    assert await found(catalog, "green house") == ["close", "apart"]


async def test_snippet_shows_the_words_and_their_page_when_the_text_is_long(catalog: Catalog) -> None:
    await catalog.create(new("a"))
    attempt = await catalog.begin_processing("blue", "a")
    assert attempt is not None
    filler = "Nothing to see on this line of the page at all. " * 60
    pages = [ContentPage(filler, n) for n in range(1, 9)]
    pages[5] = ContentPage(filler + "\nThe <b>Lighthouse</b>\tkeeper’s & wife's café\n" + filler, 6)
    await catalog.set_content("blue", "a", attempt, pages)
    hit = (await catalog.search("blue", "lighthouse cafe")).hits[0]
    assert hit.snippet is not None
    assert hit.snippet.page == 6
    assert marked(hit.snippet) == ["Lighthouse", "café"]
    assert (
        "<b>Lighthouse</b> keeper’s & wife's café" in hit.snippet.text
    )  # as it is: escaping is the caller's
    assert len(hit.snippet.text) < 330


async def test_snippet_has_the_chunk_and_the_element_of_its_words(catalog: Catalog) -> None:
    await catalog.create(new("a"))
    attempt = await catalog.begin_processing("blue", "a")
    assert attempt is not None
    first = ChunkPlace(2, "p2-e9", (1.0, 2.0, 3.0, 4.0))
    second = ChunkPlace(3, "p3-e1", (5.0, 6.0, 7.0, 8.0), len("The keeper of\n\n"))
    texts = [
        ContentPage("Nothing here.", 1, (ChunkStart(0, 0, "h0"),), (ChunkPlace(1, "p1-e1", None),)),
        ContentPage("The keeper of\n\nthe lighthouse.", 2, (ChunkStart(0, 1, "h1"),), (first, second)),
    ]
    await catalog.set_content("blue", "a", attempt, texts)
    snippets = [(await catalog.search("blue", query)).hits[0].snippet for query in ("lighthouse", "keeper")]
    assert snippets == [
        Snippet("The keeper of  the lighthouse.", ((19, 29),), 3, ChunkStart(0, 1, "h1"), (second,)),
        Snippet("The keeper of  the lighthouse.", ((4, 10),), 2, ChunkStart(0, 1, "h1"), (first,)),
    ]


async def test_title_highlights_and_summary_snippet_are_given_when_only_the_head_fits(
    catalog: Catalog,
) -> None:
    await stored(catalog, "a", "Body.", title="Über den Jahresabschluß", summary="The yearly statement.")
    hit = (await catalog.search("blue", "uber jahresabschluss")).hits[0]
    assert [hit.document.title[a:b] for a, b in hit.title_highlights] == ["Über", "Jahresabschluß"]  # type: ignore[index]
    hit = (await catalog.search("blue", "yearly statement")).hits[0]
    assert hit.snippet == Snippet("The yearly statement.", ((4, 10), (11, 20)), None)


@pytest.mark.usefixtures("few")
async def test_filters_hold_in_searches(letters: Catalog) -> None:
    await stored(
        letters, "other", "rent again", title="Rent", tags=("Housing",), date="2024-05-05", language="en"
    )
    assert set(await found(letters, "rent")) == {"rent", "other"}
    assert await found(letters, "rent", tags=("housing",)) == ["other"]
    assert await found(letters, "rent", tags=("missing",)) == []
    await stored(
        letters, "both", "rent once more", title="Rent", tags=("Housing", "Taxes"), date="2024-06-05"
    )
    assert await found(letters, "rent", tags=("housing", "taxes")) == ["both"]
    assert set(await found(letters, "rent", tags=("housing",))) == {"other", "both"}
    assert await found(letters, "rent", tags=("housing",), date_to="2024-05-31") == ["other"]
    assert await found(letters, "rent", language="en", date_from="2024-05-01", date_to="2024-05-31") == [
        "other"
    ]
    assert await found(letters, "rent", state=DocumentState.FAILED) == []
    assert await found(letters, "rent", text="lyon") == ["rent"]
    assert await found(letters, "rent", kinds=("docx",)) == []


async def test_pages_give_every_hit_once_when_documents_come_in_between(catalog: Catalog) -> None:
    for n in range(23):
        await stored(catalog, f"d{n:02}", "harbour " * (n % 5 + 1) + "word " * n, title=f"Number {n}")
    seen: list[str] = []
    cursor = None
    for step in range(20):
        page = await catalog.search("blue", "harbour", cursor=cursor, limit=4)
        seen += [hit.document.id for hit in page.hits]
        cursor = page.next_cursor
        if cursor is None:
            break
        await stored(catalog, f"late{step}", "harbour", title=f"Late {step}")
    assert len(seen) == len(set(seen))
    assert {f"d{n:02}" for n in range(23)} <= set(seen)


async def test_newest_documents_are_listed_when_the_query_is_empty(letters: Catalog) -> None:
    assert await found(letters, "  ") == ["cafe", "budget", "rent"]
    first = await letters.search("blue", "", limit=2)
    rest = await letters.search("blue", "", limit=2, cursor=first.next_cursor)
    assert [hit.document.id for hit in rest.hits] == ["rent"]


async def test_file_name_is_found_while_the_document_is_pending(catalog: Catalog) -> None:
    await catalog.create(new("a", filename="Kaufvertrag_Müller-2023.pdf"))
    assert await found(catalog, "kaufvertrag") == ["a"]
    assert await found(catalog, "muller 2023") == ["a"]


async def test_text_is_cut_when_it_is_longer_than_allowed(catalog: Catalog) -> None:
    await catalog.create(new("a"))
    attempt = await catalog.begin_processing("blue", "a")
    assert attempt is not None
    long = "x" * 300_000 + " " + "filler " * 700_000 + "needle"
    kept = await catalog.set_content("blue", "a", attempt, [ContentPage("haystack"), ContentPage(long)])
    assert kept is not None
    assert kept.truncated
    assert kept.chars <= 4_000_000
    assert await found(catalog, "haystack") == ["a"]
    assert await found(catalog, "needle") == []


async def test_small_team_finds_its_own_when_another_has_much_more_of_the_same(catalog: Catalog) -> None:
    await stored(catalog, "mine", "harbour dues", team="small", title="Harbour")
    for n in range(30):
        await stored(catalog, f"theirs{n}", "harbour harbour harbour", team="large", title="Harbour")
    assert await found(catalog, "harbour", "small") == ["mine"]
    large = await catalog.search("large", "harbour", limit=100)
    assert {hit.document.team for hit in large.hits} == {"large"}
    assert len(large.hits) == 30
