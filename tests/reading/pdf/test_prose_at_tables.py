"""Prose beside and below a table is none of its cells; what is right above one may be its first row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymupdf
import pytest

from quire.reading.pdf.aligned_tables import find_aligned
from quire.reading.pdf.cut_lines import without_prose_below
from quire.reading.pdf.drawn_rules import DrawnRule, Rules
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.page_reader import read_pages
from quire.reading.pdf.prose_columns import runs_on
from quire.reading.pdf.rows_above import with_rows_above
from quire.reading.pdf.text_lines import TextLine
from tests.reading.conftest import Make, write
from tests.reading.pdf.test_table_evidence import words

PARAGRAPH = [
    "The board of the harbour met in March and looked",
    "at the figures of three years. It found that most of",
    "the traffic had moved to the northern quay, and the",
    "cost of dredging had risen again by the end of the",
    "summer.",
]
CARGO = [("Cargo", "Tonnes"), ("Ore", "8,120"), ("Timber", "3,004"), ("Fish", "1,310"), ("Other", "915")]


def page_with(left: float, right: float, *, has_grid: bool) -> Any:
    """Five lines of prose at `left`, and a table of as many rows at `right`."""
    document = pymupdf.open()
    page = document.new_page()
    write(page, 60, 70, "Traffic", size=16, bold=True)
    for at, (line, row) in enumerate(zip(PARAGRAPH, CARGO, strict=True)):
        write(page, left, 110 + 14 * at, line, size=10)
        for x, text in zip((right, right + 70), row, strict=True):
            write(page, x, 110 + 14 * at, text, size=10)
    if has_grid:
        for at in range(6):
            page.draw_line((right - 5, 99 + 14 * at), (right + 115, 99 + 14 * at))
        for x in (right - 5, right + 65, right + 115):
            page.draw_line((x, 99), (x, 169))
    return document


@pytest.mark.parametrize("has_grid", [True, False])
@pytest.mark.parametrize(("left", "right"), [(60.0, 360.0), (230.0, 65.0)])
def test_short_paragraph_beside_a_table_is_a_paragraph(
    save: Make, left: float, right: float, has_grid: bool
) -> None:
    (reading,) = read_pages(save(page_with(left, right, has_grid=has_grid)), None, [1])
    (table,) = [one.table for one in reading.elements if one.table]
    assert table.rows == tuple(CARGO)
    assert " ".join(PARAGRAPH) in reading.markdown.replace("\n\n", " ")
    assert reading.words_missing == 0


@pytest.mark.parametrize(
    ("texts", "does"),
    [
        (PARAGRAPH, True),
        (["Silting of the", "channel", "Fire on the pier", "Loss of power"], False),
        (["The first is a whole sentence.", "the second is one too.", "the third is one as well."], False),
        (PARAGRAPH[:2], False),
    ],
)
def test_sentences_that_go_on_from_line_to_line_are_prose(texts: list[str], does: bool) -> None:
    assert runs_on(texts) is does


def test_sentences_in_cells_stay_in_their_table() -> None:
    rows = []
    for name, figure in (("Oslo", "12"), ("Rome", "15"), ("Bern", "19"), ("Kiel", "23")):
        rows.append([(72.0, name), (140.0, figure), (200.0, "Takes the noise of the street")])
        rows.append([(200.0, "out of the signal again")])
    (table,) = find_aligned(words(rows), Rules(), [])
    assert table.rows[0] == ("Oslo", "12", "Takes the noise of the street out of the signal again")


def line(text: str, x: float, y: float) -> TextLine:
    return TextLine(text, (x, y, x + 5 * len(text), y + 10), 10, False, False, True, False, 0)


def table_block(rows: Sequence[tuple[str, str]]) -> LayoutBlock:
    return LayoutBlock("table", (70.0, 100.0, 500.0, 100.0 + 14 * len(rows)), rows=tuple(rows))


PARTICULARS = [("Name", "Aurora"), ("Flag", "Norway"), ("Class", "DNV")]
BELOW = [("The harbour board", "met in March and looked at"), ("that most of the", "traffic had moved to it")]


def _lines(rows: Sequence[tuple[str, str]], *, joined: int) -> list[TextLine]:
    """The lines of rows; the last ones have both texts in one line."""
    found = []
    for at, (label, text) in enumerate(rows):
        y = 101.0 + 14 * at
        if at >= len(rows) - joined:
            found.append(line(f"{label} {text}", 72, y))
        else:
            found += [line(label, 72, y), line(text, 200, y)]
    return found


def test_lines_of_a_paragraph_below_a_table_are_taken_out_of_it() -> None:
    rows = [*PARTICULARS, *BELOW]
    block = without_prose_below(table_block(rows), _lines(rows, joined=2))
    assert block.rows == tuple(PARTICULARS)
    assert block.box[3] == 101.0 + 14 * 3


@pytest.mark.parametrize("joined", [0, 1])
def test_rows_stay_where_the_page_has_their_texts_apart(joined: int) -> None:
    rows = [*PARTICULARS, *BELOW]
    assert without_prose_below(table_block(rows), _lines(rows, joined=joined)).rows == tuple(rows)


def test_close_cells_that_begin_anew_stay_rows() -> None:
    rows = [
        *PARTICULARS,
        ("Length over all", "is that of the ship"),
        ("Home", "is the port of Bergen in Norway"),
    ]
    assert without_prose_below(table_block(rows), _lines(rows, joined=2)).rows == tuple(rows)


@pytest.mark.parametrize(("start", "count"), [(200.0, 4), (180.0, 3)])
def test_text_right_above_a_table_is_its_head_where_it_begins_with_the_columns(
    start: float, count: int
) -> None:
    head = LayoutBlock("heading", (72.0, 86.0, 220.0, 96.0), "Short Long")
    lines = [line("Short", 72, 87), line("Long", start, 87), *_lines(PARTICULARS, joined=0)]
    blocks = with_rows_above([head, table_block(PARTICULARS)], lines)
    assert len(blocks[-1].rows) == count
    assert len(blocks) == (1 if count == 4 else 2)


def test_empty_cells_are_no_matter_where_names_are_above_all_columns() -> None:
    names = [(72.0, "Name"), (150.0, "Mon"), (230.0, "Tue"), (310.0, "Wed")]
    rows = [
        [(72.0, "Ana"), (150.0, "early"), (310.0, "late")],
        [(72.0, "Ben"), (230.0, "early")],
        [(72.0, "Cleo"), (150.0, "late"), (230.0, "late")],
    ]
    (table,) = find_aligned(words([names, *rows]), Rules(), [])
    assert table.rows[2] == ("Ben", "", "early", "")
    rows[1] = [(72.0, "Ben"), (250.0, "early")]
    assert find_aligned(words([names, *rows]), Rules(), []) == []


def test_drawn_tables_side_by_side_come_from_left_to_right(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    for left, width, name in ((72, 50, "Port"), (320, 90, "Cargo")):
        for at in range(4):
            page.draw_line((left, 100 + 16 * at), (left + 2 * width, 100 + 16 * at))
            if at < 3:
                write(page, left + 5, 112 + 16 * at, f"{name} {at}", size=9)
                write(page, left + width + 5, 112 + 16 * at, str(at + 7), size=9)
        for x in (left, left + width, left + 2 * width):
            page.draw_line((x, 100), (x, 148))
    (reading,) = read_pages(save(document), None, [1])
    assert [one.table.rows[0][0] for one in reading.elements if one.table] == ["Port 0", "Cargo 0"]


PORTS = [("Port", "Ships"), ("Oslo", "120"), ("Rome", "98"), ("Bern", "31"), ("Kiel", "17")]
LEFT, RIGHT = (72.0, 140.0), (260.0, 330.0, 410.0)
SHARES = [
    ("Ware", "Tonnes", "Share"),
    ("Ore", "8,120", "61"),
    ("Wood", "3,004", "22"),
    ("Fish", "1,310", "10"),
]


def two_tables(rules: Sequence[tuple[float, float, float]]) -> list[tuple[tuple[str, ...], ...]]:
    """Tables side by side, and level rules given by height, start and end."""
    shares = [*SHARES, ("Other", "915", "7")]
    rows = [
        [*zip(LEFT, port, strict=True), *zip(RIGHT, share, strict=True)]
        for port, share in zip(PORTS, shares, strict=True)
    ]
    level = tuple(DrawnRule(*one) for one in rules)
    return [table.rows for table in find_aligned(words(rows), Rules(level), [])]


def test_two_tables_side_by_side_are_two_where_their_rules_end_between_them() -> None:
    left, right = two_tables([(at, *ends) for at in (97, 112, 171) for ends in ((70, 175), (258, 450))])
    assert left == tuple(PORTS)
    assert right[:4] == tuple(SHARES)


@pytest.mark.parametrize(
    "rules",
    [
        [(97, 70, 450), (112, 70, 175), (112, 258, 450), (171, 70, 175), (171, 258, 450)],
        [(at, *ends) for at in (112, 171) for ends in ((138, 175), (258, 290), (330, 360), (410, 450))],
        [(112, 70, 175), (112, 258, 450)],
    ],
)
def test_a_table_is_one_where_a_rule_goes_on_or_is_below_single_columns(
    rules: list[tuple[float, float, float]],
) -> None:
    assert len(two_tables(rules)) == 1
