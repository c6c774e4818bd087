"""A page that is a contents list is read row by row."""

from __future__ import annotations

from typing import Any

import pymupdf

from quire.domain.element import ElementKind
from quire.reading.pdf.page_reader import read_pages
from tests.reading.conftest import Make, write

TITLES = ["Of the farms", "Rents", "Of the long meadows by the river", "Barns", "Hay", "Of the mills"]
RIGHT = 520.0


def contents(*, right: float = RIGHT) -> Any:
    """A contents page: chapters in bold without dots, sections with dots in lines of their own."""
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 80, "Contents", size=18, bold=True)
    y = 120.0
    for chapter in range(1, 4):
        write(page, 72, y, f"{chapter} Chapter of the council", size=10, bold=True)
        ends(page, y, f"{chapter * 10}", RIGHT, bold=True)
        for at, title in enumerate(TITLES):
            y += 14
            write(page, 90, y, f"{chapter}.{at + 1}", size=10)
            write(page, 118, y, title, size=10)
            dots = 118 + pymupdf.get_text_length(title, "helv", 10) + 12
            edge = right if at % 2 else RIGHT
            write(page, dots, y, ". " * int((edge - 20 - dots) / 5.6), size=10)
            ends(page, y, f"{chapter * 10 + at}", edge)
        y += 26
    return document


def ends(page: Any, y: float, text: str, right: float, *, bold: bool = False) -> None:
    width = pymupdf.get_text_length(text, "hebo" if bold else "helv", 10)
    write(page, right - width, y, text, size=10, bold=bold)


def test_rows_are_entries_when_dots_are_lines_of_their_own(save: Make) -> None:
    (reading,) = read_pages(save(contents()), None, [1])
    heads = [one.text for one in reading.elements if one.kind in (ElementKind.HEADING, ElementKind.TITLE)]
    items = [(one.depth, one.text) for one in reading.elements if one.kind is ElementKind.LIST_ITEM]
    assert heads == ["Contents"]
    assert len(items) == 3 * (len(TITLES) + 1)
    assert items[:3] == [
        (0, "1 Chapter of the council 10"),
        (1, "1.1 Of the farms ... 10"),
        (1, "1.2 Rents ... 11"),
    ]
    assert reading.words_missing == 0


def test_page_is_no_contents_list_when_its_numbers_have_two_edges(save: Make) -> None:
    (reading,) = read_pages(save(contents(right=400)), None, [1])
    items = [one.text for one in reading.elements if one.kind is ElementKind.LIST_ITEM]
    assert len(items) < 3 * (len(TITLES) + 1)
    assert reading.words_missing == 0
