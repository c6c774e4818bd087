"""Headings in regular type are known by their place: right above the text that they head."""

from __future__ import annotations

from typing import Any

import pymupdf
import pytest

from quire.domain.element import ElementKind
from quire.reading.pdf.page_reader import read_pages
from tests.reading.conftest import PROSE, Make, write

HEADS = (ElementKind.HEADING, ElementKind.TITLE)


def page_with(text: str, *, size: float, bold_heading: bool = True, below: str = PROSE * 2) -> Any:
    """A page with prose in 10 points, the line, and more prose right below it."""
    document = pymupdf.open()
    page = document.new_page()
    if bold_heading:
        write(page, 72, 80, "Members of the council", size=16, bold=True)
    page.insert_textbox((72, 96, 520, 300), PROSE * 2, fontsize=10)
    write(page, 72, 240, text, size=size)
    page.insert_textbox((72, 254, 520, 500), below, fontsize=10)
    return document


def headings(path: str) -> list[str]:
    (reading,) = read_pages(path, None, [1])
    return [one.text for one in reading.elements if one.kind in HEADS]


@pytest.mark.parametrize(("text", "size"), [("Rents of the farms", 12), ("RENTS OF THE FARMS", 10)])
def test_regular_line_is_a_heading_when_it_is_right_above_text(text: str, size: float, save: Make) -> None:
    assert text in headings(save(page_with(text, size=size)))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("RENTS OF FARMS:", 10),
        ("All rents are paid.", 12),
        ("Rents of the farms", 10),
        ("(A) (B)", 12),
        ("CC", 10),
    ],
)
def test_regular_line_is_text_when_it_introduces_or_has_no_word(text: str, size: float, save: Make) -> None:
    assert text not in headings(save(page_with(text, size=size)))


def test_line_in_capitals_is_text_when_no_text_is_below_it(save: Make) -> None:
    assert "RENTS OF THE FARMS" not in headings(save(page_with("RENTS OF THE FARMS", size=10, below="")))


def test_line_in_capitals_is_text_when_a_page_number_is_in_its_row(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 100, "112", size=10)
    write(page, 300, 100, "RENTS OF THE FARMS", size=10)
    page.insert_textbox((72, 112, 520, 400), PROSE * 3, fontsize=10)
    assert headings(save(document)) == []


def test_heading_is_larger_than_the_text_when_most_letters_are_in_small_cells(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_textbox((72, 60, 520, 120), PROSE, fontsize=12)
    line = "The members of the council met here"
    write(page, 72, 130, line, size=12)
    for row in range(24):
        y = 160 + 20 * row
        for column in range(4):
            x = 72 + 110 * column
            page.draw_rect((x, y, x + 110, y + 20), width=0.5)
            write(page, x + 3, y + 12, f"Meadow and barn number {row}{column}", size=7)
    page.insert_textbox((72, 660, 520, 760), PROSE, fontsize=12)
    assert headings(save(document)) == []


MARGIN = ["Rents of the farms", "Mills by the river", "Barns and meadows"]


def page_with_margin(*, lines: int, bold: bool, count: int = 3) -> Any:
    """A page whose text is a column on the right, with a line to the left of the beginning of its parts."""
    document = pymupdf.open()
    page = document.new_page()
    for at, text in enumerate(MARGIN[:count]):
        y = 90 + 180 * at
        write(page, 72, y, text, size=10, bold=bold)
        for row in range(lines):
            first = "The members" if row == 0 else "of the society"
            write(
                page, 210, y + 12.5 * row, f"{first} met in the hall of town {at}{row} and heard the", size=10
            )
    return document


def test_bold_line_in_the_margin_is_a_heading_when_prose_begins_beside_it(save: Make) -> None:
    assert headings(save(page_with_margin(lines=8, bold=True))) == MARGIN


@pytest.mark.parametrize(("lines", "bold", "count"), [(2, True, 3), (8, False, 3)])
def test_line_in_the_margin_is_text_when_it_is_a_term_or_regular(
    lines: int, bold: bool, count: int, save: Make
) -> None:
    assert headings(save(page_with_margin(lines=lines, bold=bold, count=count))) == []
