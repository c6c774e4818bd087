"""Tables whose rows are shaded by turns, each cell with an area of its own."""

from __future__ import annotations

import itertools
from typing import Any

import pymupdf
import pytest

from quire.reading.pdf.page_reader import read_pages
from tests.reading.conftest import PROSE, Make, write

XS = (72, 150, 250, 330, 450)
HEIGHT = 20
ROWS = [
    ["Berth", "Operator", "Depth", "Remarks"],
    ["North", "Nordline", "12 m", ""],
    ["South", "Portex", "9 m", "crane out of use"],
    ["East", "", "14 m", ""],
    ["West", "City ferries", "6 m", "summer only"],
    ["Old", "Rowing club", "5 m", ""],
    ["New", "Portex", "11 m", "reserved"],
]


def shaded(page: Any, rows: list[list[str]]) -> float:
    """Draws the head and every second row on areas, each cell on its own; answers where the table ends."""
    for at, row in enumerate(rows):
        top = 100 + HEIGHT * at
        if at == 0 or at % 2 == 1:
            for left, right in itertools.pairwise(XS):
                page.draw_rect(
                    (left, top, right, top + HEIGHT),
                    color=None,
                    fill=(0.5, 0.6, 0.7) if at == 0 else (0.9,) * 3,
                )
        for x, text in zip(XS, row, strict=False):
            if text:
                write(page, x + 6, top + 14, text, size=9)
    return 100.0 + HEIGHT * len(rows)


@pytest.mark.parametrize("count", [5, 6, 7])
def test_rows_without_shade_belong_to_the_table_of_the_shaded_ones(save: Make, count: int) -> None:
    document = pymupdf.open()
    page = document.new_page()
    end = shaded(page, ROWS[:count])
    write(page, 72, end + 14, PROSE[:75], size=10)
    (reading,) = read_pages(save(document), None, [1])
    tables = [[list(row) for row in one.table.rows] for one in reading.elements if one.table]
    assert tables == [ROWS[:count]]
    assert PROSE[:75].strip() in reading.markdown
