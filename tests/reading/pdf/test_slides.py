"""Slides: lists side by side are read one after the other, and a title is a heading also if it is the only text."""

from __future__ import annotations

from typing import Any

import pymupdf
import pytest

from quire.domain.element import ElementKind
from quire.domain.page import PageReading
from quire.reading.pdf.compose import compose
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.list_columns import list_lefts
from quire.reading.pdf.page_reader import read_pages
from quire.reading.pdf.text_lines import TextLine
from tests.reading.conftest import Make, write

CELLS = {50.0: "Hay", 150.0: "-", 250.0: "581,441", 400.0: "-", 430.0: "347,427"}
SIDES = {"Hay": 50.0, "Rye": 400.0}


def slide(title: str, size: tuple[float, float] = (720.0, 405.0), *, mark: str = "•", y: float = 60.0) -> Any:
    """A slide with its title and, with a mark, two lists of five items."""
    document = pymupdf.open()
    page = document.new_page(width=size[0], height=size[1])
    write(page, 50, y, title, size=30)
    for name, x in SIDES.items() if mark else ():
        for row in range(5):
            write(page, x, 120 + 34 * row, mark, size=18)
            write(page, x + 26, 120 + 34 * row, f"{name} of the upper farm {row}", size=18)
    return document


def read(path: str) -> PageReading:
    (reading,) = read_pages(path, None, [1])
    return reading


@pytest.mark.parametrize("mark", ["•", "–", "■"])
def test_lists_are_read_one_after_the_other_when_they_are_side_by_side(mark: str, save: Make) -> None:
    reading = read(save(slide("Fields of the northern council", mark=mark)))
    kinds = [one.kind for one in reading.elements]
    assert kinds == [ElementKind.TITLE, *[ElementKind.LIST_ITEM] * 10]
    items = [one.text for one in reading.elements[1:]]
    assert items == [f"{name} of the upper farm {row}" for name in SIDES for row in range(5)]
    assert reading.words_missing == 0


def text_line(text: str, x: float, y: float, block: int) -> TextLine:
    return TextLine(text, (x, y, x + 9 * len(text), y + 18), 18.0, False, False, True, False, block)


def test_lists_are_no_table_when_the_layout_reader_says_so() -> None:
    lines = [text_line("Fields and farms of the northern council of the river", 50, 40, 0)]
    for row in range(4):
        for name, x in SIDES.items():
            lines += [text_line("•", x, 90 + 34 * row, row + 1)]
            lines += [text_line(f"{name} {row}", x + 26, 90 + 34 * row, row + 1)]
    rows = [("", "Fields and farms of", "", "the northern council"), *[("•", "Hay", "•", "Rye")] * 4]
    table = LayoutBlock("table", (50, 40, 680, 240), rows=tuple(rows))
    filled = compose([table], lines, [], [])
    assert [item.block.kind for item in filled] == ["paragraph", *["list_item"] * 8]
    texts = [item.lines[-1].text for item in filled[1:]]
    assert texts == [f"{name} {row}" for name in SIDES for row in range(4)]


def test_items_of_an_inner_list_are_no_list_beside() -> None:
    marks = [text_line("•", 50 + 25 * (row % 2), 90 + 34 * row, row) for row in range(8)]
    assert list_lefts(marks) == []


def test_dashes_of_empty_cells_are_no_marks() -> None:
    lines = [text_line(text, x, 90 + 34 * row, row) for row in range(4) for x, text in CELLS.items()]
    assert list_lefts(lines) == []


def test_title_is_a_heading_when_a_slide_has_no_other_text(save: Make) -> None:
    reading = read(save(slide("Fields of the council", mark="")))
    assert reading.markdown.startswith("#")


@pytest.mark.parametrize(("size", "y"), [((595.0, 842.0), 60.0), ((720.0, 405.0), 350.0)])
def test_only_line_is_text_when_the_page_is_upright_or_the_line_is_low(
    size: tuple[float, float], y: float, save: Make
) -> None:
    assert not read(save(slide("Fields of the council", size, mark="", y=y))).markdown.startswith("#")
