"""Kinds of elements that a PDF page has: captions, footnotes, formulas, figures, the title; and merged columns."""

from __future__ import annotations

from typing import Any

import pymupdf
import pytest

from quire.domain.element import CellSpan, Element, ElementKind
from quire.reading.pdf.block_elements import ComposeStyle, PageBuilder
from quire.reading.pdf.block_matching import FilledBlock
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.page_figures import figure_boxes
from quire.reading.pdf.page_reader import read_pages
from quire.reading.pdf.paragraph_kinds import paragraph_kind
from quire.reading.pdf.table_columns import true_columns
from quire.reading.pdf.text_lines import TextLine
from tests.reading.conftest import Make, prose, write

PAGE = (595.0, 842.0)


def kind_of(text: str, *, size: float = 10.0, y: float = 300.0, math: float = 0.0) -> ElementKind:
    line = TextLine(text, (72, y, 500, y + size), size, False, False, True, False, 0, math)
    return paragraph_kind(text, [line], 10.0, 842.0)


@pytest.mark.parametrize(
    "text",
    [
        "Figure 3: The hall",
        "Fig. 2. Cost by year",
        "Table 1 Results of the tender",
        "TABLE IV",
        "Tabelle 2 – Kosten",
    ],
)
def test_a_numbered_label_makes_a_caption(text: str) -> None:
    assert kind_of(text) is ElementKind.CAPTION


@pytest.mark.parametrize(
    "text",
    [
        "Table 3 shows the results.",
        "Figures are in thousands.",
        "Figure 2, like Figure 1, shows",
        "Table of contents",
    ],
)
def test_a_sentence_that_refers_to_a_figure_is_no_caption(text: str) -> None:
    assert kind_of(text) is ElementKind.PARAGRAPH


def test_a_formula_is_told_by_its_fonts_and_a_relation() -> None:
    assert kind_of("E = mc2 (4)", math=0.7) is ElementKind.FORMULA
    assert (
        kind_of("where the energy E equals the mass times a constant = c", math=0.1) is ElementKind.PARAGRAPH
    )


@pytest.mark.parametrize(
    ("text", "x", "y", "math", "is_rest"),
    [
        ("2a", 200.0, 311.0, 1.0, True),
        ("2a", 200.0, 330.0, 1.0, False),  # a line farther down
        ("2a", 520.0, 311.0, 1.0, False),  # beside the formula
        ("a = b", 200.0, 311.0, 1.0, False),  # the next formula
        ("where a", 200.0, 311.0, 0.2, False),
    ],
)
def test_a_denominator_belongs_to_the_formula_above_it(
    text: str, x: float, y: float, math: float, is_rest: bool
) -> None:
    above = TextLine("x = b + c", (100, 300, 500, 310), 10.0, False, False, True, False, 0, 1.0)
    below = TextLine(text, (x, y, x + 12, y + 10), 10.0, False, False, True, False, 0, math)
    page = PageBuilder(1, ComposeStyle(10.0, 842.0, True), {})
    page.add_blocks([FilledBlock(LayoutBlock("paragraph", line.box), [line]) for line in (above, below)])
    elements = page.finished()
    assert [one.text for one in elements] == ([f"x = b + c\n{text}"] if is_rest else ["x = b + c", text])
    if is_rest:
        assert elements[0].kind is ElementKind.FORMULA
        assert elements[0].box == (100, 300, 500, y + 10)
        assert [(line.start, line.box) for line in elements[0].lines] == [(0, above.box), (10, below.box)]


def test_a_small_numbered_text_at_the_bottom_may_be_a_footnote() -> None:
    assert kind_of("1 See the report of the committee.", size=8, y=700) is ElementKind.FOOTNOTE
    assert kind_of("1 See the report of the committee.", size=8, y=100) is ElementKind.PARAGRAPH
    assert kind_of("and the rest of a small text goes on", size=8, y=700) is ElementKind.PARAGRAPH


def _elements(save: Make, draw: Any) -> list[Element]:
    document = pymupdf.open()
    draw(document.new_page())
    return list(read_pages(save(document), None, [1])[0].elements)


def test_a_page_has_its_title_figure_caption_and_footnote(save: Make) -> None:
    picture = pymupdf.Pixmap(pymupdf.csRGB, (0, 0, 60, 40), False)
    picture.clear_with(120)

    def draw(page: Any) -> None:
        write(page, 72, 90, "Annual report", size=24, bold=True)
        write(page, 72, 130, "The new hall", size=14, bold=True)
        prose(page, 72, 150, 450, paragraphs=2)
        page.insert_image((72, 400, 372, 600), pixmap=picture)
        write(page, 72, 620, "Figure 1: The hall from the north", size=9)
        write(page, 72, 760, "1 The tender is open until the end of the spring.", size=7)

    found = _elements(save, draw)
    kinds = [one.kind for one in found]
    assert kinds[0] is ElementKind.TITLE
    assert kinds.count(ElementKind.FOOTNOTE) == 1
    figure = next(one for one in found if one.kind is ElementKind.FIGURE)
    caption = next(one for one in found if one.kind is ElementKind.CAPTION)
    assert figure.box is not None
    assert [round(value) for value in figure.box] == [72, 400, 372, 600]
    assert caption.parent == figure.id
    assert found.index(figure) == found.index(caption) - 1


def test_text_below_makes_a_small_numbered_line_no_footnote(save: Make) -> None:
    def draw(page: Any) -> None:
        prose(page, 72, 90, 450, paragraphs=2)
        write(page, 72, 500, "1 The tender is open until the end of the spring.", size=7)
        prose(page, 72, 560, 450, paragraphs=1)

    assert ElementKind.FOOTNOTE not in [one.kind for one in _elements(save, draw)]


def test_strips_of_a_picture_are_one_figure() -> None:
    strips = [(100.0, 100.0 + 20 * i, 400.0, 120.0 + 20 * i) for i in range(10)]
    assert figure_boxes(strips, [], PAGE) == [(100.0, 100.0, 400.0, 300.0)]


def test_backgrounds_ornaments_and_boxes_that_are_no_numbers_are_no_figures() -> None:
    nan = float("nan")
    images = [(0.0, 0.0, 595.0, 842.0), (10.0, 10.0, 30.0, 30.0), (nan, nan, nan, nan)]
    assert figure_boxes(images, [], PAGE) == []


def test_many_shapes_side_by_side_are_one_figure() -> None:
    bars = [(100.0 + 20 * i, 200.0, 112.0 + 20 * i, 400.0) for i in range(14)]
    assert figure_boxes([], bars, PAGE) == [(100.0, 200.0, 372.0, 400.0)]
    assert figure_boxes([], bars[:5], PAGE) == []


def test_neighbouring_columns_that_no_row_fills_both_are_one() -> None:
    rows = (("Region", "Total", ""), ("North", "", "12"), ("South", "", "7"))
    assert true_columns(rows)[0] == (("Region", "Total"), ("North", "12"), ("South", "7"))


def test_columns_that_one_row_fills_both_stay() -> None:
    rows = (("Date", "Debit", "Credit"), ("1 May", "12", ""), ("2 May", "", "7"))
    assert true_columns(rows) == (rows, ())


def test_signs_belong_to_their_figures() -> None:
    rows = (
        ("", "", "2024", "", "2025", ""),
        ("Cost", "$", "17", "$", "18", ""),
        ("Rise", "", "4", "", "5", "%"),
    )
    assert true_columns(rows)[0] == (("", "2024", "2025"), ("Cost", "$ 17", "$ 18"), ("Rise", "4", "5 %"))


def test_spans_move_with_their_columns() -> None:
    rows = (("Head", "", ""), ("a", "b", ""), ("c", "", "d"))
    joined, spans = true_columns(rows, [CellSpan(0, 0, 1, 3), CellSpan(1, 1, 1, 2)])
    assert joined == (("Head", ""), ("a", "b"), ("c", "d"))
    assert spans == (CellSpan(0, 0, 1, 2),)


def test_empty_columns_of_a_form_stay() -> None:
    rows = (("", "Mitosis", "Meiosis"), ("parents", "", ""), ("divisions", "", ""))
    assert true_columns(rows) == (rows, ())


def test_form_fields_have_their_name_and_value_and_markdown_has_the_value_once(save: Make) -> None:
    def field(page: Any, name: str, kind: int, value: Any, y: float) -> None:
        widget = pymupdf.Widget()
        widget.field_name, widget.field_type, widget.field_value = name, kind, value
        widget.rect = pymupdf.Rect(200, y, 400, y + 20)
        page.add_widget(widget)

    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 114, "Your name")
    field(page, "name", pymupdf.PDF_WIDGET_TYPE_TEXT, "Ada Lovelace", 100)
    field(page, "agreed", pymupdf.PDF_WIDGET_TYPE_CHECKBOX, True, 140)
    reading = read_pages(save(document), None, [1])[0]
    fields = {one.marker: one for one in reading.elements if one.kind is ElementKind.FORM_FIELD}
    assert fields["name"].text == "Ada Lovelace"
    assert fields["agreed"].text == "checked"
    assert fields["name"].box == (200.0, 100.0, 400.0, 120.0)
    assert reading.markdown.count("Ada Lovelace") == 1


def test_a_value_that_the_page_does_not_show_is_in_the_markdown_with_its_name(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 114, "Please fill in")
    widget = pymupdf.Widget()
    widget.field_name, widget.field_type, widget.field_value = "city", pymupdf.PDF_WIDGET_TYPE_TEXT, "Turin"
    widget.rect = pymupdf.Rect(200, 100, 400, 120)
    page.add_widget(widget)
    for made in page.widgets():
        document.xref_set_key(made.xref, "AP", "null")
    reading = read_pages(save(document), None, [1])[0]
    assert reading.markdown.count("Turin") == 1


def test_bullets_begin_items_when_the_layout_reader_calls_the_block_a_paragraph() -> None:
    texts = ("\uf0b7", "a spare float", "for the boat", "• oil", "• string")
    lines = [
        TextLine(text, (72, 100 + 13 * at, 200, 110 + 13 * at), 10.0, False, False, True, False, 0)
        for at, text in enumerate(texts)
    ]
    page = PageBuilder(1, ComposeStyle(10.0, 800.0, join_hyphens=True), {})
    page.add_blocks([FilledBlock(LayoutBlock("paragraph", (72, 100, 200, 170)), lines)])
    found = [(one.kind, one.text) for one in page.finished()]
    assert found == [
        (ElementKind.LIST_ITEM, text) for text in ("a spare float for the boat", "oil", "string")
    ]


def test_item_of_a_list_in_a_list_is_an_item_when_the_block_has_both() -> None:
    def line(text: str, x: float, y: float, right: float) -> TextLine:
        return TextLine(text, (x, y, right, y + 10), 10.0, False, False, True, False, 0)

    block = LayoutBlock("list_item", (72, 100, 500, 150), marker="2.", ordered=True)
    lines = [
        line("2. Read the gauge and write down what it says, then go on to the one at", 72, 100, 495),
        line("a) the mill, below.", 90, 114, 170),
        line("b) Second gauge", 90, 128, 160),
    ]
    page = PageBuilder(1, ComposeStyle(10.0, 800.0, join_hyphens=True), {})
    page.add_blocks([FilledBlock(block, lines)])
    first, second = page.finished()
    assert first.text.endswith("the one at a) the mill, below.")
    assert (second.marker, second.text, second.depth) == ("b)", "Second gauge", 1)


@pytest.mark.parametrize(("y", "kind"), [(780, ElementKind.PARAGRAPH), (500, ElementKind.HEADING)])
def test_bold_line_heads_nothing_when_it_is_the_foot_of_the_page(
    y: float, kind: ElementKind, save: Make
) -> None:
    def draw(page: Any) -> None:
        prose(page, 72, 90, 450, paragraphs=3)
        write(page, 72, y, "Survey of the harbours, January", size=10, bold=True)

    assert _elements(save, draw)[-1].kind is kind
