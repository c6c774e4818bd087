"""How many rows of a table are its head, and which columns a text in it is over where nothing is drawn."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pymupdf
import pytest

from quire.domain.element import CellSpan
from quire.reading.pdf.aligned_tables import find_aligned
from quire.reading.pdf.drawn_rules import DrawnRule, Rules
from quire.reading.pdf.page_reader import read_pages
from quire.reading.pdf.table_heads import head_rows_of
from tests.reading.conftest import Make, write
from tests.reading.pdf.test_table_evidence import body, tables, words

NAMES = ["North", "South", "East", "West"]


def centred(text: str, middle: float) -> tuple[float, str]:
    """The text and where it begins, with its middle at a place; a letter is 5 points wide."""
    return middle - 2.5 * len(text), text


def wide_body(columns: int = 4) -> list[list[tuple[float, str]]]:
    return [
        [(72.0, name), *((200.0 + 60 * i, f"{at + 1}{i}.5") for i in range(columns))]
        for at, name in enumerate(NAMES)
    ]


def named(*texts: str) -> list[tuple[float, str]]:
    return [(200.0 + 60 * i, text) for i, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("rows", "spans", "count"),
    [
        ([("Port", "Ships", ""), ("", "2023", "2024"), ("Oslo", "1", "2")], [CellSpan(0, 1, 1, 2)], 2),
        ([("Port", "Age", ""), ("", "0-17", "18-64"), ("Oslo", "1", "2")], [CellSpan(0, 1, 1, 2)], 2),
        ([("", "Ships", ""), ("Port", "Old", "New"), ("Oslo", "1", "2")], [CellSpan(0, 1, 1, 2)], 2),
        ([("Metal", "Price"), ("", "€/kg"), ("Tin", "24.5")], [], 2),
        ([("Port", "Ships", ""), ("Oslo", "2023", "2024"), ("Rome", "1", "2")], [CellSpan(0, 1, 1, 2)], 1),
        ([("", "Ships", ""), ("Oslo", "7", "9"), ("Rome", "1", "2")], [CellSpan(0, 1, 1, 2)], 1),
        ([("Port", "Party"), ("", "Greens"), ("Oslo", "Farmers")], [], 1),
        ([("Port", "Ships"), ("Coast", ""), ("Oslo", "1")], [CellSpan(1, 0, 1, 2)], 1),
        ([("Port", "Ships", ""), ("", "2023", "2024")], [CellSpan(0, 1, 1, 2)], 1),
    ],
)
def test_rows_that_name_columns_are_the_head(
    rows: list[tuple[str, ...]], spans: list[CellSpan], count: int
) -> None:
    assert head_rows_of(rows, spans) == count


def test_text_at_the_middle_of_named_columns_is_over_them() -> None:
    over = [(72.0, "Port"), centred("Ships", 240), centred("Tonnes", 360)]
    (table,) = tables([over, named("Old", "New", "Old", "New"), *wide_body()])
    assert table.rows[:2] == (("Port", "Ships", "", "Tonnes", ""), ("", "Old", "New", "Old", "New"))
    assert table.spans == (CellSpan(0, 1, 1, 2), CellSpan(0, 3, 1, 2))


def test_heads_of_three_levels_are_three_rows() -> None:
    over = [(72.0, "Port"), centred("All the ships of the year", 300)]
    between = [centred("Sail", 240), centred("Steam", 360)]
    (table,) = tables([over, between, named("Old", "New", "Old", "New"), *wide_body()])
    assert table.rows[0] == ("Port", "All the ships of the year", "", "", "")
    assert table.rows[1] == ("", "Sail", "", "Steam", "")
    assert head_rows_of(table.rows, table.spans) == 3


def test_lines_of_heads_that_wrap_are_over_no_other_column() -> None:
    rows = [[(200.0, "Cost"), (320.0, "Paid")], [(72.0, "Port"), *named("abroad", "Due", "late", "Open")]]
    (table,) = tables([*rows, *wide_body()])
    assert table.rows[0] == ("Port", "Cost abroad", "Due", "Paid late", "Open")
    assert not table.spans


def test_wide_names_in_the_head_do_not_hide_columns() -> None:
    over = [(72.0, "Method"), centred("Set of harbours", 240), centred("Set of rivers", 360)]
    (table,) = tables([over, named("Found", "Lost", "Found", "Lost"), *wide_body()[:3]])
    assert table.rows[0] == ("Method", "Set of harbours", "", "Set of rivers", "")
    assert table.rows[2] == ("North", "10.5", "11.5", "12.5", "13.5")


def test_texts_above_rules_that_touch_each_other_are_two_cells() -> None:
    head = [(72.0, "Port"), centred("Ships", 240), centred("Tonnes", 360)]
    rows = [head, named("Old", "New", "Old", "New"), *wide_body()]
    level = [DrawnRule(at, 72, 410) for at in (97.0, 126.0, 185.0)]
    rules = Rules((level[0], DrawnRule(112, 195, 410), *level[1:]))
    (table,) = find_aligned(words(rows), rules, [])
    assert table.rows[0] == ("Port", "Ships", "", "Tonnes", "")
    assert CellSpan(0, 1, 1, 2) in table.spans
    assert CellSpan(0, 3, 1, 2) in table.spans


def test_title_over_one_column_of_several_is_no_second_row() -> None:
    (table,) = tables([[(280.0, "Carbide")], *body(NAMES)])
    assert table.rows[0] == ("", "", "Carbide", "")
    assert head_rows_of(table.rows, table.spans) == 1


def _grid(page: Any, xs: list[float], ys: list[float]) -> None:
    """A grid in whose first row the last two columns are one, and in whose first column the first two rows are."""
    for y in ys:
        page.draw_line((xs[1] if y == ys[1] else xs[0], y), (xs[-1], y))
    for x in xs:
        page.draw_line((x, ys[1] if x == xs[2] else ys[0]), (x, ys[-1]))


def test_second_row_of_a_drawn_head_is_a_head_in_the_element(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    xs, ys = [72.0, 180.0, 260.0, 340.0], [100.0 + 20 * at for at in range(6)]
    _grid(page, xs, ys)
    rows = [
        ["Port", "Ships", ""],
        ["", "Old", "New"],
        ["Oslo", "1", "2"],
        ["Rome", "3", "4"],
        ["Bern", "5", "6"],
    ]
    for (top, _), row in zip(pairwise(ys), rows, strict=True):
        for x, text in zip(xs, row, strict=False):
            write(page, x + 5, top + 14, text, size=9)
    (table,) = [one.table for one in read_pages(save(document), None, [1])[0].elements if one.table]
    assert table.head_rows == 2
    assert [cell.text for cell in table.cells() if cell.is_head] == ["Port", "Ships", "Old", "New"]
