"""Two pages of a book on one sheet: the left one is read before the right one, and nothing else is taken for such."""

from __future__ import annotations

from typing import Any

import pymupdf
import pytest

from quire.domain.element import ElementKind
from quire.reading.pdf.facing_pages import fold_of
from quire.reading.pdf.page_reader import read_pages
from quire.reading.pdf.text_lines import lines_of
from tests.reading.conftest import PROSE, Make, write

WIDTH, HEIGHT = 842.0, 595.0
SIDES = (40.0, 461.0)


def questions(page: Any, x: float, name: str) -> None:
    """Questions with answers in two columns, at the same heights on both pages."""
    page.insert_textbox((x, 60, x + 340, 170), PROSE * 2, fontsize=9)
    for row in range(8):
        y = 200 + 36 * row
        write(page, x, y, f"{name} {row} asks the member what the village has paid for the mill", size=9)
        write(page, x + 20, y + 15, f"yes {name} {row}", size=9)
        write(page, x + 150, y + 15, f"no {name} {row}", size=9)


def sheet(heads: tuple[str, str] = ("208", "209"), y: float = 570.0) -> Any:
    document = pymupdf.open()
    page = document.new_page(width=WIDTH, height=HEIGHT)
    for x, name, head in zip(SIDES, ("Left", "Right"), heads, strict=True):
        questions(page, x, name)
        if head:
            write(page, x, y, head, size=9)
    return document


def fold(document: Any) -> float | None:
    return fold_of(lines_of(document[0].get_text("dict")), (WIDTH, HEIGHT))


@pytest.mark.parametrize(
    ("heads", "y"), [(("208", "209"), 570.0), (("Village rents", "Annex"), 30.0)], ids=["numbers", "heads"]
)
def test_left_page_comes_first_when_the_sheet_has_two(heads: tuple[str, str], y: float, save: Make) -> None:
    document = sheet(heads, y)
    assert fold(document) == WIDTH / 2
    (reading,) = read_pages(save(document), None, [1])
    text = reading.markdown
    assert text.rindex("Left 7") < text.index("Right 0")
    assert text.index(heads[0]) < text.index(heads[1])
    assert reading.words_missing == 0
    for one in reading.elements:
        shown = one.plain_text
        assert not ("Left" in shown and "Right" in shown)


def test_foot_of_a_page_is_no_heading_when_it_is_bold(save: Make) -> None:
    document = sheet(("", ""))
    for x, name in zip(SIDES, ("Report on rents", "Annex to it"), strict=True):
        write(document[0], x, 570, name, size=9, bold=True)
    (reading,) = read_pages(save(document), None, [1])
    heads = [one.text for one in reading.elements if one.kind in (ElementKind.HEADING, ElementKind.TITLE)]
    assert heads == []


def test_table_of_one_page_has_no_text_of_the_other(save: Make) -> None:
    document = sheet()
    page = document[0]
    for row in range(5):
        for column, text in enumerate((f"Barn {row}", f"{row}.25", f"{row * 7}")):
            write(page, 40 + 100 * column, 490 + 13 * row, text, size=9)
    (reading,) = read_pages(save(document), None, [1])
    tables = [one for one in reading.elements if one.kind is ElementKind.TABLE]
    assert all("Right" not in one.plain_text for one in tables)


def test_sheet_is_one_page_when_a_line_crosses_its_middle() -> None:
    document = sheet()
    write(document[0], 300, 45, "Rents of the farms around the village and its mill", size=14)
    assert fold(document) is None


@pytest.mark.parametrize("heads", [("", ""), ("208", ""), ("", "Annex")])
def test_sheet_is_one_page_when_nothing_shows_two(heads: tuple[str, str]) -> None:
    assert fold(sheet(heads)) is None


def test_upright_page_in_two_columns_has_no_fold() -> None:
    assert fold_of(lines_of(sheet()[0].get_text("dict")), (WIDTH, 1.4 * WIDTH)) is None


def test_landscape_table_has_no_fold_when_figures_are_on_both_sides() -> None:
    document = pymupdf.open()
    page = document.new_page(width=WIDTH, height=HEIGHT)
    for x in (40.0, 140.0, 240.0, 500.0, 600.0, 700.0):
        for row in range(30):
            write(page, x, 40 + 18 * row, f"{row * 31}.{row}", size=9)
    assert fold(document) is None
