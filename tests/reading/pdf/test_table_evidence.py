"""What is a table and what is not, and which rows belong to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymupdf
import pytest

from quire.domain.element import TableGrid
from quire.reading.pdf.aligned_tables import find_aligned
from quire.reading.pdf.compose import compose
from quire.reading.pdf.drawn_rules import DrawnRule, Rules, rules_of, slanted_strokes
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.line_pieces import PageWord, is_figure
from quire.reading.pdf.page_reader import read_pages, without_charts
from quire.reading.pdf.ruled_tables import Table
from quire.reading.pdf.text_lines import TextLine
from tests.reading.conftest import Make, write

STEP = 14.0
SECTION = [[(72.0, "Abroad")], [(72.0, "In thousands")], [(72.0, "By city")]]


def words(rows: list[list[tuple[float, str]]], top: float = 100.0) -> list[PageWord]:
    """Words of rows of texts; each text begins at its x. A row that is empty leaves a gap."""
    found: list[PageWord] = []
    for at, row in enumerate(rows):
        y = top + STEP * at
        for x, text in row:
            at_x = x
            for word in text.split():
                found.append(PageWord(word, (at_x, y, at_x + 5.0 * len(word), y + 10.0)))
                at_x += 5.0 * (len(word) + 1)
    return found


def body(names: list[str], start: int = 10) -> list[list[tuple[float, str]]]:
    return [
        [(72, name), *((200 + 80 * i, f"{start + at}.{i}") for i in range(3))]
        for at, name in enumerate(names)
    ]


def tables(rows: list[list[tuple[float, str]]]) -> list[Table]:
    return find_aligned(words(rows), Rules(), [])


def test_the_rows_that_head_the_columns_belong_to_the_table() -> None:
    head = [(200.0, "Oxide"), (280.0, "Carbide of iron")]
    (table,) = tables([head, *body(["North", "South", "East", "West"])])
    assert table.rows[0] == ("", "Oxide", "Carbide of iron", "")


def test_a_head_that_wraps_is_one_row_and_one_over_columns_stays_by_itself() -> None:
    over = [(200.0, "Amounts of all the years")]
    wrapped = [[(280.0, "Paid")], [(72.0, "Region"), (200.0, "Due"), (280.0, "late"), (360.0, "Open")]]
    (table,) = tables([over, *wrapped, *body(["North", "South", "East", "West"])])
    assert table.rows[:2] == (
        ("", "Amounts of all the years", "", ""),
        ("Region", "Due", "Paid late", "Open"),
    )


def test_prose_above_a_table_stays_outside() -> None:
    prose = [(72.0, "The figures below were sent in by all of the regions in the spring")]
    (table,) = tables([prose, *body(["North", "South", "East", "West"])])
    assert table.rows[0][0] == "North"


def test_a_section_head_between_rows_does_not_cut_a_table() -> None:
    rows = [*body(["North", "South", "East"]), *SECTION, *body(["Oslo", "Rome", "Bern"], 40)]
    (table,) = tables(rows)
    assert [row[0] for row in table.rows][-3:] == ["Oslo", "Rome", "Bern"]
    assert table.rows[0][0] == "North"


def test_rows_that_are_far_but_evenly_apart_are_one_table() -> None:
    rows = [part for row in body(["North", "South", "East", "West"]) for part in (row, [], [], [])]
    (table,) = tables(rows)
    assert [row[0] for row in table.rows] == ["North", "South", "East", "West"]


def test_tables_with_other_columns_stay_apart() -> None:
    other = [[(72.0, name), (150.0, "7,1"), (240.0, "8,2"), (330.0, "9,3")] for name in ("a", "b", "c", "d")]
    rows = [*body(["North", "South", "East"]), *SECTION, *other]
    assert len(tables(rows)) == 2


def composed(rows: tuple[tuple[str, ...], ...]) -> list[str]:
    return [
        item.block.kind
        for item in compose([LayoutBlock("table", (72, 100, 500, 300), rows=rows)], [], [], [])
    ]


def test_sentences_that_run_through_the_rows_are_no_table() -> None:
    prose = (
        ("To motivate", "the overall method of mathematical induction, we examine a ge-"),
        ("ometric", "puzzle and solve it together. This example has been chosen carefully"),
        ("to", "illustrate how the method is relevant when a puzzle has a"),
        ("particular", "type of structure. It is good."),
    )
    assert composed(prose) == []


def test_marks_in_the_first_column_make_a_list() -> None:
    rows = (("·", "$30,000 for service as a member;"), ("·", "$15,000 for service as the"), ("", "chair."))
    made = compose([LayoutBlock("table", (72, 100, 500, 160), rows=rows)], [], [], [])
    assert [(item.block.kind, item.block.text) for item in made] == [
        ("list_item", "$30,000 for service as a member;"),
        ("list_item", "$15,000 for service as the chair."),
    ]


def test_cells_of_several_lines_are_a_table() -> None:
    wrapped = (
        ("Code", "Purpose", "Effect on display"),
        ("CT", "Columns of character data you", "The value itself is unchanged,"),
        ("", "want wrapped according to the", "but if the value cannot fit on one"),
        ("", "column text", "line in the column, CT tells QMF"),
    )
    assert composed(wrapped) == ["table"]
    glossary = (
        ("Cat", "an animal of the house"),
        ("Oak", "a tree of the wood"),
        ("Rye", "a grass of the field"),
    )
    assert composed(glossary) == ["table"]


def test_a_label_that_wraps_in_a_frame_is_one_row(save: Make) -> None:
    def draw(page: Any) -> None:
        labels = ["Data sets", "Applications made by", "the public", "Downloads", "Cities"]
        for at, label in enumerate(labels):
            write(page, 80, 136 + 14 * at, label, size=10)
            for column in range(2):
                if label != "the public":
                    write(page, 250 + 100 * column, 136 + 14 * at, f"{at + 1},{column}10", size=10)
        for x, text in ((80, "Name"), (250, "2010"), (350, "2011")):
            write(page, x, 116, text, size=10)
        for y in (100, 122, 210):
            page.draw_line((72, y), (450, y))
        for x in (72, 240, 340, 450):
            page.draw_line((x, 100), (x, 210))

    document = pymupdf.open()
    draw(document.new_page())
    (grid,) = [one.table for one in read_pages(save(document), None, [1])[0].elements if one.table]
    assert isinstance(grid, TableGrid)
    assert [row[0] for row in grid.rows] == [
        "Name",
        "Data sets",
        "Applications made by the public",
        "Downloads",
        "Cities",
    ]


def prose(text: str, x: float, top: float, block: int) -> list[TextLine]:
    """Lines of one paragraph that is set in a column of 100 points."""
    return [
        TextLine(line, (x, top + 12 * at, x + 100, top + 12 * at + 10), 10, False, False, True, False, block)
        for at, line in enumerate(text.split("/"))
    ]


LEFT = (
    "the banks of the river were/left for years as they had/fallen into decay and are/now a place to live in/"
    "for all who work in town/and want to see the water"
)
RIGHT = (
    "this is much more than a set/of houses for it is the heart/of a new part of the old city/which has grown so fast/"
    "that no map of it is right/and no road has a name"
)


def test_columns_of_text_are_paragraphs_when_the_layout_reader_mixes_them_in_a_table() -> None:
    title = [TextLine("A title over both of the columns", (72, 80, 290, 95), 14, True, False, True, False, 9)]
    lines = [*prose(RIGHT, 190, 120, 1), *prose(LEFT, 72, 120, 2), *title, *prose("Below it all", 72, 200, 3)]
    pairs = zip(LEFT.split("/"), RIGHT.split("/"), strict=True)
    mixed = [" ".join(halves) for halves in zip(*((f"{a} {b[:12]}", b[12:]) for a, b in pairs), strict=True)]
    rows = (("A title over both of the columns", "Photo"), tuple(mixed))
    below = LayoutBlock("paragraph", (72, 200, 172, 210), "Below it all")
    made = compose([LayoutBlock("table", (70, 78, 300, 195), rows=rows), below], lines, [], [])
    assert [item.block.kind for item in made] == ["paragraph"] * 4
    texts = [" ".join(line.text for line in item.lines) for item in made]
    assert texts == [title[0].text, LEFT.replace("/", " "), RIGHT.replace("/", " "), "Below it all"]


def test_table_keeps_its_long_lines_when_no_border_cuts_them() -> None:
    lines = [*prose(RIGHT, 190, 120, 1), *prose(LEFT, 72, 120, 2)]
    rows = (("Before", "Now"), (LEFT.replace("/", " "), RIGHT.replace("/", " ")))
    rules = Rules((DrawnRule(118, 70, 300), DrawnRule(195, 70, 300)))
    made = compose([LayoutBlock("table", (70, 118, 300, 195), rows=rows)], lines, [], [], rules)
    assert [item.block.kind for item in made] == ["table"]


def test_prose_is_read_once_with_its_labels_when_the_layout_reader_has_it_in_two_cells() -> None:
    label = [*prose("First", 72, 120, 1), *prose("Second", 72, 220, 2)]
    lines = [*label, *prose(LEFT, 190, 120, 3), *prose(RIGHT, 190, 220, 4)]
    text = f"{LEFT} {RIGHT}".replace("/", " ")
    block = LayoutBlock("table", (70, 118, 300, 295), rows=(("First Second", text, text), ("", "", "")))
    made = compose([block], lines, [], [])
    texts = [" ".join(line.text for line in item.lines) for item in made]
    assert texts == ["First", LEFT.replace("/", " "), "Second", RIGHT.replace("/", " ")]


def test_table_stays_when_only_a_head_stands_in_several_columns() -> None:
    head = "Students by school and year"
    lines = [*prose(head, 72, 120, 1)]
    rows: list[tuple[str, ...]] = [(head, head, head)]
    for at in range(4):
        cells = (f"School of place {at}", f"{at}1,500 pupils", f"{at}2,400 pupils")
        rows.append(cells)
        for column, cell in enumerate(cells):
            lines += prose(cell, 72 + 100 * column, 140 + 14 * at, 10 * at + column + 2)
    made = compose([LayoutBlock("table", (70, 118, 380, 200), rows=tuple(rows))], lines, [], [])
    assert [item.block.kind for item in made] == ["table"]


def test_table_is_left_out_when_most_of_it_is_running_lines() -> None:
    lines = [
        *prose("Call us today/Visit us/Bank of the West", 72, 760, 1),
        *prose("A last note", 300, 760, 2),
    ]
    block = LayoutBlock(
        "table", (70, 758, 420, 800), rows=(("Call us today", "A last note"), ("Visit us", ""))
    )
    made = compose([block], lines, [], lines[:3])
    assert [[line.text for line in item.lines] for item in made] == [["A last note"]]


def test_only_lines_of_charts_are_slanted_strokes() -> None:
    with pymupdf.open() as document:
        page = document.new_page()
        page.draw_rect((90, 100, 400, 300))
        page.draw_line((90, 200), (400, 200.4))
        page.draw_line((100, 110), (104, 114))  # a check mark
        assert slanted_strokes(page.get_cdrawings(), tuple) == []
        page.draw_polyline([(100, 280), (150, 200), (200, 240), (250, 120)])
        assert len(slanted_strokes(page.get_cdrawings(), tuple)) == 3


def test_rounded_frames_check_marks_and_crosses_are_no_slanted_strokes() -> None:
    with pymupdf.open() as document:
        page = document.new_page()
        page.draw_rect((90, 100, 400, 300), radius=0.1)  # corners of 20 points
        page.draw_polyline([(100, 116), (104, 120), (112, 108)])  # a check mark
        page.draw_line((120, 110), (130, 120))
        page.draw_line((120, 120), (130, 110))  # a cross
        page.draw_line((200, 150), (300, 200))
        page.draw_line((200, 200), (300, 150))  # a cell crossed out
        assert slanted_strokes(page.get_cdrawings(), tuple) == []
        page.draw_line((100, 280), (110, 290))
        page.draw_bezier((150, 200), (170, 120), (200, 260), (250, 220))
        assert len(slanted_strokes(page.get_cdrawings(), tuple)) == 2


def test_table_is_left_out_when_slanted_lines_cross_it() -> None:
    table = Table((90.0, 100.0, 400.0, 300.0), (("1", "2"), ("3", "4")))
    crossing, beside = (120.0, 120.0, 160.0, 180.0), (420.0, 120.0, 480.0, 180.0)
    assert without_charts([table], [crossing, beside, beside]) == [table]  # one may divide the first cell
    assert without_charts([table], [crossing, crossing]) == []


def test_line_stays_where_it_is_when_a_block_far_away_has_the_same_words() -> None:
    note = LayoutBlock("paragraph", (300, 100, 500, 120), "Roe. The tides and their causes: a note.")
    title = LayoutBlock("heading", (72, 200, 400, 240), "The tides hope or hype?")
    lines = [
        TextLine(
            "Roe. The tides and their causes: a note.", (300, 100, 500, 112), 8, False, False, True, False, 0
        ),
        TextLine("The tides and their causes:", (72, 200, 400, 218), 18, False, False, True, False, 1),
        TextLine("hope or hype?", (72, 220, 200, 238), 18, False, False, True, False, 1),
    ]
    made = compose([note, title], lines, [], [])
    assert [[line.text for line in item.lines] for item in made] == [
        [lines[0].text],
        ["The tides and their causes:", "hope or hype?"],
    ]


def bar_page(heights: Sequence[float]) -> Any:
    """Three rows of figures, and filled areas below them on one base line."""
    document = pymupdf.open()
    page = document.new_page()
    for place, height in enumerate(heights):
        x = 120 + 60 * place
        page.draw_rect((x, 300 - height, x + 20, 300), color=None, fill=(0.3, 0.4, 0.7))
        for row in range(4):
            page.insert_text((x, 180 + 30 * row), str(10 + 7 * place + row), fontsize=9)
    return document


def test_figures_over_bars_of_a_chart_are_no_table(save: Make) -> None:
    document = bar_page((140, 90, 125, 60, 110))
    page = document[0]
    assert len(rules_of(page.get_cdrawings(), tuple).bars) == 5
    found = read_pages(save(document), None, [1])[0]
    assert all(element.table is None for element in found.elements)
    assert found.words_missing == 0


def test_shaded_cells_of_one_height_are_no_bars(save: Make) -> None:
    document = bar_page((140, 140, 140, 140, 140))
    assert rules_of(document[0].get_cdrawings(), tuple).bars == ()
    found = read_pages(save(document), None, [1])[0]
    assert any(element.table is not None for element in found.elements)


@pytest.mark.parametrize(
    "text", ["118 mg/dL", "70-100 mg/dL", "7,200 /μL", "82 mL/min", "<5.7 %", "14 m²", "3.5"]
)
def test_figure_is_one_when_its_unit_is_behind_it(text: str) -> None:
    assert is_figure(text)


@pytest.mark.parametrize("text", ["3 men", "Room 5 A", "12 May", "mg/dL", "the 3 m"])
def test_figure_is_none_when_words_are_with_it(text: str) -> None:
    assert not is_figure(text)


def test_box_beside_prose_is_no_table_when_their_lines_are_not_level() -> None:
    lines = [*prose(LEFT, 72, 120, 1), *prose(RIGHT, 190, 125.5, 2)]
    pairs = [(a[:12], a[12:]) for a in LEFT.split("/")]
    cut = [" ".join(halves) for halves in zip(*pairs, strict=True)]
    block = LayoutBlock(
        "table", (70, 118, 300, 200), rows=(("", "", "Photo"), (*cut, RIGHT.replace("/", " ")))
    )
    made = compose([block], lines, [], [])
    texts = [" ".join(line.text for line in item.lines) for item in made]
    assert texts == [LEFT.replace("/", " "), RIGHT.replace("/", " ")]


def test_lines_of_a_comment_are_no_table_when_each_begins_with_an_asterisk() -> None:
    texts = [
        "* Copyright of the society, all rights reserved",
        "* This is free software",
        "* and it has no price",
    ]
    lines = prose("/".join(texts), 72, 120, 1)
    rows = (
        ("*", "Copyright of the society,", "all rights reserved"),
        ("* *", "This is free software and it has no price", ""),
    )
    made = compose([LayoutBlock("table", (70, 118, 300, 160), rows=rows)], lines, [], [])
    assert "table" not in [item.block.kind for item in made]
    assert [line.text for item in made for line in item.lines] == texts


def test_table_stays_when_only_some_rows_begin_with_a_mark() -> None:
    rows = (("*", "Oslo", "12"), ("Rome", "*", "13"), ("*", "Bern", "14"))
    assert composed(rows) == ["table"]
