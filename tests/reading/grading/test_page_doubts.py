"""A page's elements give reasons to doubt its text; a plain page, and a page without places, give none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quire.domain.element import Element, ElementKind, ElementLine, TableGrid
from quire.reading.grading.page_doubts import (
    COMPLEX_PAGE,
    FORMULAS,
    GLUED_WORDS,
    OUT_OF_ORDER,
    PROSE_IN_TABLE,
    READ_ACROSS,
    SCATTERED,
    TORN_LINES,
    TORN_SENTENCES,
    TORN_TABLE,
    PageKind,
    page_doubts,
)

SENTENCE = "The harbour office paid for the repairs."


def paragraph(text: str, top: float = 100.0, left: float = 70.0) -> Element:
    box = (left, top, left + 200.0, top + 10.0)
    return Element("p1-e1", ElementKind.PARAGRAPH, text, box, lines=(ElementLine(0, box),))


def table(*rows: tuple[str, ...]) -> Element:
    return Element("p1-e1", ElementKind.TABLE, box=(70.0, 100.0, 500.0, 200.0), table=TableGrid(rows))


def down_the_page(texts: list[str], left: float = 70.0) -> list[Element]:
    return [paragraph(text, 100.0 + 14.0 * place, left) for place, text in enumerate(texts)]


def test_plain_page_has_no_doubts() -> None:
    assert page_doubts(down_the_page([SENTENCE] * 30)) == ()
    assert page_doubts([*down_the_page([SENTENCE] * 20), *down_the_page([SENTENCE] * 20, left=320.0)]) == ()
    rows = tuple((f"Row {place}", str(place), "4.5") for place in range(8))
    assert page_doubts([paragraph(SENTENCE), table(*rows)]) == ()


def test_elements_without_places_are_not_doubted() -> None:
    office = Element("p1-e1", ElementKind.TABLE, table=TableGrid((("Name", "and so on"), ("x", "the rest"))))
    assert page_doubts([office]) == ()


def test_order_is_doubted_when_prose_jumps_from_side_to_side() -> None:
    left, right = down_the_page([SENTENCE] * 12), down_the_page([SENTENCE] * 12, left=320.0)
    mixed = [element for pair in zip(left, right, strict=True) for element in pair]
    assert page_doubts(mixed) == (READ_ACROSS,)


@pytest.mark.parametrize(("gap", "doubts"), [(10.0, ()), (24.0, (READ_ACROSS,))])
def test_pieces_of_a_line_are_no_columns_when_a_word_space_is_between_them(
    gap: float, doubts: tuple[str, ...]
) -> None:
    """OCR of wide typewriter letters gives lines in pieces."""
    text = "\n".join(["The harbour office"] * 40)
    lines = []
    for place in range(40):
        top, left = 100.0 + 14.0 * (place // 2), 70.0 + place % 2 * (120.0 + gap)
        lines.append(ElementLine(19 * place, (left, top, left + 120.0, top + 10.0)))
    element = Element("p1-e1", ElementKind.PARAGRAPH, text, (70.0, 100.0, 334.0, 376.0), lines=tuple(lines))
    assert page_doubts([element]) == doubts


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (
            (("To motivate", "the overall method"), *((f"word {n}", "goes on here") for n in range(6))),
            PROSE_IN_TABLE,
        ),
        ((("Reign", "959 to 975"), ("Born", "943")), TORN_TABLE),
    ],
)
def test_table_is_doubted_when_it_may_be_none(rows: tuple[tuple[str, ...], ...], reason: str) -> None:
    assert page_doubts([paragraph(SENTENCE), table(*rows)]) == (reason,)


def test_formulas_are_doubted_when_their_form_is_lost() -> None:
    assert page_doubts(down_the_page([SENTENCE, "33 = 23 + 3 · 22", "= n3 + 3 n2 + 1"])) == (FORMULAS,)


def test_words_are_doubted_when_their_spaces_are_lost() -> None:
    glued = "Thereforeacandidategeneration modulethatproducesareasonable number"
    assert page_doubts(down_the_page([SENTENCE, glued])) == (GLUED_WORDS,)


def test_single_words_are_doubted_when_the_page_has_drawings() -> None:
    labels = down_the_page([SENTENCE, "0.8", "0.6", "constant", "variable"])
    assert page_doubts(labels) == ()
    assert page_doubts(labels, PageKind(has_graphics=True)) == (SCATTERED,)


def test_sentences_are_doubted_when_ocr_tore_them_apart() -> None:
    torn = down_the_page(["the first half of it", "goes on in the next"] * 3)
    assert page_doubts(torn) == (TORN_SENTENCES,)
    assert page_doubts(torn, PageKind(by_ocr=True)) == (TORN_SENTENCES,)
    assert page_doubts(torn[:5]) == ()


def test_many_torn_sentences_are_needed_when_ocr_has_read_many_paragraphs() -> None:
    torn = down_the_page([*["the first half of it", "goes on in the next"] * 3, *[SENTENCE] * 20])
    assert page_doubts(torn) == (TORN_SENTENCES,)
    assert page_doubts(torn, PageKind(by_ocr=True)) == ()


def test_page_is_doubted_when_it_has_two_weak_signs() -> None:
    page = down_the_page([SENTENCE, "23 = 1 + 3 + 3"])
    assert page_doubts(page) == ()
    assert page_doubts(page, PageKind(has_graphics=True)) == (COMPLEX_PAGE,)


def test_hyphens_before_other_words_are_a_reason_when_there_are_two() -> None:
    torn = "Our study has im- only innovative but also; due to hard- ensuring the absence of bias."
    assert page_doubts(down_the_page([SENTENCE] * 5 + [torn])) == (TORN_SENTENCES,)
    kept = "Pre- and post-war prices, in- or outside the city; al- Sadu"
    assert page_doubts(down_the_page([SENTENCE] * 5 + [kept])) == ()


def test_short_texts_beside_a_table_are_a_reason_when_they_look_like_a_lost_column() -> None:
    grid = Element(
        "p1-e1",
        ElementKind.TABLE,
        box=(70.0, 100.0, 300.0, 200.0),
        table=TableGrid(tuple((f"Test {place}", str(place)) for place in range(8))),
    )
    column = down_the_page(["70-100 mg/dL", "<5.7%", "<200 mg/dL"], left=320.0)
    assert page_doubts([grid, *column]) == (TORN_TABLE,)
    below = [paragraph(text, 220.0 + 14 * place) for place, text in enumerate([SENTENCE] * 3)]
    assert page_doubts([grid, *below]) == ()


def test_prose_that_goes_back_up_in_its_column_is_a_reason() -> None:
    order = down_the_page([SENTENCE] * 6)
    assert page_doubts([*order[:2], *order[3:], order[2]]) == (OUT_OF_ORDER,)
    assert page_doubts([*order, *down_the_page([SENTENCE] * 6, left=320.0)]) == ()


def test_empty_cells_are_a_reason_when_the_page_was_read_by_ocr() -> None:
    rows = table(*((f"Row {place}", "", "4.5" if place % 3 else "") for place in range(9)))
    assert page_doubts([rows], PageKind(by_ocr=True)) == (TORN_TABLE,)
    assert page_doubts([rows]) == ()


def test_rows_are_joined_when_two_columns_have_twice_their_figures() -> None:
    single = [(f"Test {place}", f"{place}18 mg", f"{place}0-{place}9 mg", "HIGH") for place in range(6)]
    joined = ("LDL HDL", "142 mg 48 mg", "100 mg 40 mg", "HIGH")
    assert page_doubts([table(*single, joined)], PageKind(by_ocr=True)) == (TORN_TABLE,)
    assert page_doubts([table(*single, ("Sum", "142 mg 48 mg", "100 mg", ""))], PageKind(by_ocr=True)) == ()
    assert page_doubts([table(*single, joined)]) == ()


def test_table_of_a_scan_is_torn_when_one_cell_has_the_figures_of_three_rows() -> None:
    torn = table(
        ("Run", "41.68", "87.34"),
        ("Each", "", "27.01 99.44 89.53"),
        ("Net", "77", ""),
        ("All", "40.66", "43.1"),
    )
    whole = table(
        ("Run", "41.68", "87.34"), ("Each", "", "27.01 99.44"), ("Net", "77", ""), ("All", "40.66", "43.1")
    )
    assert page_doubts([torn], PageKind(by_ocr=True)) == (TORN_TABLE,)
    assert page_doubts([whole], PageKind(by_ocr=True)) == ()


def placed(text: str, box: tuple[float, float, float, float]) -> Element:
    return Element("p1-e1", ElementKind.PARAGRAPH, text, box, lines=(ElementLine(0, box),))


@pytest.mark.parametrize(("torn", "doubts"), [(0, ()), (1, ()), (2, (TORN_LINES,)), (4, (TORN_LINES,))])
def test_order_is_doubted_when_pieces_of_one_line_do_not_follow_one_another(
    torn: int, doubts: tuple[str, ...]
) -> None:
    lines = down_the_page([SENTENCE] * 20)
    ends = [
        placed("the end", (275.0 + 20 * place, 100.0 + 42 * place, 330.0, 110.0 + 42 * place))
        for place in range(torn)
    ]
    wide = [
        replace(line, box=(70.0, top, 270.0 + 20 * (at // 3), top + 10.0))
        for at, line in enumerate(lines)
        if (top := 100.0 + 14.0 * at)
    ]
    wide = [replace(line, lines=(ElementLine(0, line.box),)) for line in wide if line.box]
    assert page_doubts([*wide, *ends]) == doubts


def test_order_is_not_doubted_when_a_column_begins_close_behind_another() -> None:
    beside = [placed("beside", (275.0, 100.0 + 14 * place, 400.0, 110.0 + 14 * place)) for place in range(12)]
    assert TORN_LINES not in page_doubts([*down_the_page([SENTENCE] * 12), *beside])


def item(text: str, top: float, left: float = 70.0) -> Element:
    return Element("p1-e1", ElementKind.LIST_ITEM, text, (left, top, left + 60.0, top + 10.0))


@pytest.mark.parametrize(("top", "left", "doubts"), [(130.0, 300.0, (OUT_OF_ORDER,)), (118.0, 80.0, ())])
def test_order_is_doubted_when_a_text_from_beside_a_list_is_between_its_items(
    top: float, left: float, doubts: tuple[str, ...]
) -> None:
    box = placed("A rectangle", (left, top, left + 80.0, top + 10.0))
    items = [item("With foo", 100.0), item("Bar", 115.0), box, item("And baz", 130.0)]
    assert page_doubts(items) == doubts


def heading(text: str, top: float) -> Element:
    return Element("p1-e1", ElementKind.HEADING, text, (70.0, top, 160.0, top + 12.0))


def test_order_is_doubted_when_a_text_comes_after_the_next_heading_than_its_own() -> None:
    texts = [placed(SENTENCE, (200.0, top, 500.0, top + 40.0)) for top in (100.0, 180.0)]
    headings = [heading("Starting", 100.0), heading("Copying", 180.0)]
    assert page_doubts([*headings, *texts]) == (OUT_OF_ORDER,)
    assert page_doubts([headings[0], texts[0], headings[1], texts[1]]) == ()


def test_headings_of_one_column_are_not_doubted_when_text_of_another_begins_at_their_height() -> None:
    column = placed(SENTENCE, (200.0, 100.0, 500.0, 400.0))
    assert page_doubts([heading("Methods", 100.0), heading("Samples", 114.0), column]) == ()


def lines_of(text: str, left: float, top: float, count: int, height: float) -> Element:
    """A paragraph of so many lines of type of this height."""
    boxes = [
        (left, top + 1.2 * height * row, left + 200.0, top + 1.2 * height * row + height)
        for row in range(count)
    ]
    whole = (left, top, left + 200.0, boxes[-1][3])
    return Element(
        "p1-e1", ElementKind.PARAGRAPH, text, whole, lines=tuple(ElementLine(0, box) for box in boxes)
    )


@pytest.mark.parametrize(
    ("end", "size", "notes", "doubts"),
    [
        ("and came from the", 8.0, 4, (OUT_OF_ORDER,)),
        ("and came from there.", 8.0, 4, ()),
        ("and came from the", 10.0, 4, ()),
        ("and came from the", 8.0, 1, ()),
    ],
    ids=["notes", "a whole sentence", "type of one size", "a short note"],
)
def test_order_is_doubted_when_long_notes_are_inside_of_a_sentence(
    end: str, size: float, notes: int, doubts: tuple[str, ...]
) -> None:
    first = lines_of(f"{SENTENCE} " * 6 + end, 70.0, 100.0, 6, 10.0)
    below = [lines_of(SENTENCE, 70.0, 200.0 + 40.0 * place, 2, size) for place in range(notes)]
    beside = lines_of(f"Harbour, as they say. {SENTENCE}", 300.0, 100.0, 6, 10.0)
    assert page_doubts([first, *below, beside]) == doubts
