"""Claims checked against the words of pages, and lists put together from several windows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.domain.element import Element, ElementKind, ElementLine, PageElements, TableGrid
from quire.extraction.citation_check import QuoteMatch, ValueClaim, check_claim
from quire.extraction.field_schema import SchemaLeaf, read_schema
from quire.extraction.findings import ground_claims, merge, values_of
from quire.extraction.local_findings import local_findings
from quire.extraction.model_answer import read_claims
from quire.extraction.page_windows import QuestionPage, halves, windows
from quire.extraction.page_words import PageWords, collapsed

TEXT = SchemaLeaf(("string",), {"type": "string"})
NUMBER = SchemaLeaf(("number",), {"type": "number"})
ENUM = SchemaLeaf(("string",), {}, ("EUR", "USD"))
LEVEL = SchemaLeaf(("integer",), {}, (1, 77))
FLAG = SchemaLeaf(("boolean",), {"type": "boolean"})


def page(number: int, *texts: str, **more: Any) -> PageElements:
    """A page with a paragraph for each text, one line high and one below the other."""
    elements = tuple(
        Element(
            f"p{number}-e{place}",
            ElementKind.PARAGRAPH,
            text,
            (10.0, 20.0 * place, 200.0, 20.0 * place + 12),
            lines=(ElementLine(0, (10.0, 20.0 * place, 200.0, 20.0 * place + 12)),),
            **more,
        )
        for place, text in enumerate(texts, 1)
    )
    return PageElements(number, elements, "mupdf", 300, 400)


def checked(
    leaf: SchemaLeaf, value: Any, quote: str, at: int | None, *pages: PageElements
) -> tuple[str, list[str]]:
    words = {one.number: PageWords(one) for one in pages}
    found = check_claim(leaf, ValueClaim(value, quote, at), words)
    return found.match.value, [str(one) for one in found.doubts]


ONE = page(1, "Invoice number: INV-77", "Total due: 1.234,50 EUR on 12 March 2024", "Ferrum Werkzeuge GmbH")
TWO = page(2, "Second page", "Signed by Ingrid Halvorsen")
TERMS = "The supplier is not liable for damage that the carrier causes on the way"
THREE = page(3, TERMS)


@pytest.mark.parametrize(
    ("leaf", "value", "quote", "at", "match", "doubts"),
    [
        (TEXT, "INV-77", "Invoice number: INV-77", 1, "exact", []),
        (TEXT, "INV-77", "**Invoice  NUMBER**: INV-77", 1, "normalised", []),
        (NUMBER, 1234.5, "Total due: 1.234,50 EUR", 1, "normalised", []),
        (TEXT, "2024-03-12", "on 12 March 2024", 1, "normalised", []),
        (ENUM, "EUR", "1.234,50 EUR", 1, "exact", []),
        (TEXT, "Ingrid Halvorsen", "Signed by Ingrid Halvorsen", 1, "exact", ["page"]),
        (TEXT, "Ingrid Halvorsen", "It is signed with the name of Ingrid", 2, "fuzzy", ["quote"]),
        (TEXT, "Ferrum Werkzeuge GmbH", "Ferrum Werkzeug GmbH", 1, "fuzzy", ["quote"]),
        (TEXT, "INV-99", "Invoice number: INV-99", 1, "none", ["ungrounded"]),
        (NUMBER, 999, "Total due: 1.234,50 EUR", 1, "none", ["ungrounded"]),
        (NUMBER, 1234.51, "Total due: 1.234,50 EUR", 1, "none", ["ungrounded"]),
        (ENUM, "USD", "all in dollars", 1, "none", ["ungrounded"]),
        (ENUM, "USD", "Total due: 1.234,50 EUR", 1, "fuzzy", []),
        (FLAG, True, "Ferrum Werkzeuge GmbH", 1, "fuzzy", []),
        (LEVEL, 77, "Invoice number: INV-77", 1, "exact", []),
        (LEVEL, 1, "Invoice number: INV-77", 1, "none", ["ungrounded"]),
        (TEXT, TERMS, TERMS, 3, "exact", []),
        (TEXT, TERMS.replace("not ", ""), TERMS, 3, "fuzzy", []),
        (TEXT, None, "", None, "none", ["missing"]),
        (NUMBER, 77, "", 1, "none", ["ungrounded"]),
    ],
)
def test_a_claim_is_as_good_as_what_the_pages_say(
    leaf: SchemaLeaf, value: Any, quote: str, at: int, match: str, doubts: list[str]
) -> None:
    assert checked(leaf, value, quote, at, ONE, TWO, THREE) == (match, doubts)


def test_of_the_places_of_a_quotation_those_that_say_the_value_count() -> None:
    words = PageWords(page(1, "Paid in EUR", "paid in eur", "Paid in dollars"))
    found = check_claim(ENUM, ValueClaim("EUR", "Paid in", 1), {1: words})
    assert (found.match, len(found.spans)) == (QuoteMatch.FUZZY, 3)
    found = check_claim(ENUM, ValueClaim("EUR", "Paid in EUR", 1), {1: words})
    assert (found.match, len(found.spans)) == (QuoteMatch.EXACT, 2)


@given(st.data())
def test_every_stretch_of_a_page_is_found_at_a_box_that_has_it(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.text("ab1 .-é", min_size=1, max_size=12), min_size=1, max_size=4))
    words = PageWords(page(1, *texts))
    if not words.words:
        return
    first = data.draw(st.integers(0, len(words.words) - 1))
    last = data.draw(st.integers(first, len(words.words) - 1))
    wanted = words.words[first : last + 1]
    spans = words.occurrences(wanted)
    assert spans
    for span in spans:
        places = words.places(span)
        assert collapsed(" ".join(one.text for one in places)) == collapsed(words.said(span))
        for one in places:
            assert one.box == one.element.box
            assert one.text in one.element.text


LIST = read_schema(
    {
        "properties": {
            "rows": {
                "type": "array",
                "items": {"properties": {"what": {"type": "string"}, "sum": {"type": "number"}}},
            }
        }
    }
)


def rows(*found: tuple[str, float, int]) -> dict[str, Any]:
    return {
        "rows": [
            {
                "what": {"value": what, "quote": f"{what} {total}", "page": at},
                "sum": {"value": total, "quote": f"{what} {total}", "page": at},
            }
            for what, total, at in found
        ]
    }


def findings(answer: dict[str, Any], *pages: PageElements) -> tuple[Any, int]:
    claims, problems = read_claims(LIST, answer)
    assert problems == []
    return ground_claims(LIST, claims, {one.number: PageWords(one) for one in pages})


def test_equal_rows_are_two_items_and_a_repeated_item_is_dropped() -> None:
    sheet = page(1, "Bread 2.5", "Milk 1.1", "Bread 2.5")
    tree, doubles = findings(
        rows(("Bread", 2.5, 1), ("Milk", 1.1, 1), ("Bread", 2.5, 1), ("Milk", 1.1, 1)), sheet
    )
    assert doubles == 1
    places = [one["sum"].place.start for one in tree["rows"]]
    assert len(set(places)) == 3
    assert [one["what"].value for one in tree["rows"]] == ["Bread", "Milk", "Bread"]


def test_an_item_that_two_windows_have_seen_is_one_and_none_is_lost() -> None:
    first, second, third = page(1, "Bread 2.5"), page(2, "Milk 1.1", "Milk 1.1"), page(3, "Eggs 3.5")
    one, _ = findings(rows(("Bread", 2.5, 1), ("Milk", 1.1, 2), ("Milk", 1.1, 2)), first, second)
    two, _ = findings(rows(("Eggs", 3.5, 3), ("Milk", 1.1, 2), ("Milk", 1.1, 2)), second, third)
    merged = merge(LIST, [one, two])
    assert [row["what"] for row in values_of(merged, keep_ungrounded=False)["rows"]] == [
        "Bread",
        "Milk",
        "Milk",
        "Eggs",
    ]


def test_parts_of_a_document_that_disagree_are_named() -> None:
    schema = read_schema({"properties": {"sum": {"type": "number"}}})
    trees = []
    for number, said in ((1, 10.5), (2, 12.5), (3, 10.5)):
        claims, _ = read_claims(schema, {"sum": {"value": said, "quote": f"Sum {said}", "page": number}})
        trees.append(ground_claims(schema, claims, {number: PageWords(page(number, f"Sum {said}"))})[0])
    merged = merge(schema, trees)
    assert isinstance(merged, dict)
    assert (merged["sum"].value, merged["sum"].match) == (10.5, QuoteMatch.EXACT)
    assert [one.value for one in merged["sum"].alternatives] == [12.5]
    assert "conflict" in merged["sum"].doubts


@given(st.lists(st.integers(1, 400), max_size=30), st.integers(100, 900))
def test_windows_have_every_page_in_order_and_fit(sizes: list[int], most: int) -> None:
    pages = [QuestionPage.of(page(number, "word " * size)) for number, size in enumerate(sizes, 1)]
    found = windows(pages, most)
    numbers = [one.number for window in found for one in window]
    assert sorted(set(numbers)) == list(range(1, len(sizes) + 1))
    for window in found:
        assert [one.number for one in window] == list(range(window[0].number, window[-1].number + 1))
        assert len(window) == 1 or sum(one.tokens for one in window) <= most
        if len(window) > 1:
            assert [one for part in halves(window) for one in part] == list(window)


def test_pairs_and_tables_are_found_without_ai() -> None:
    grid = TableGrid((("Name", "Ada"), ("Sum", "3")))
    elements = (
        *page(1, "Number: 17\nDate: today", "No pair: at all, because this sentence: is long").elements,
        Element("t", ElementKind.TABLE, table=grid, box=(1.0, 2.0, 3.0, 4.0)),
        Element("f", ElementKind.FORM_FIELD, "Oslo", marker="City"),
    )
    found = local_findings([PageElements(1, elements)])
    pairs = {one["key"]: one["value"] for one in found["pairs"]}
    assert pairs.items() >= {"Number": "17", "Date": "today", "Name": "Ada", "City": "Oslo"}.items()
    assert found["tables"] == [
        {"page": 1, "box": [1.0, 2.0, 3.0, 4.0], "element": "t", "rows": [["Name", "Ada"], ["Sum", "3"]]}
    ]
