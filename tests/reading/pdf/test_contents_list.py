"""Contents lists become lists."""

from __future__ import annotations

from typing import Any

import pymupdf

from quire.domain.element import ElementKind
from quire.reading.pdf.contents_list import contents_entries
from quire.reading.pdf.page_reader import read_pages
from quire.reading.pdf.text_lines import TextLine
from tests.reading.conftest import Make, write

DOTS = "." * 30


def line(text: str, x: float = 72.0) -> TextLine:
    return TextLine(text, (x, 100, 500, 110), 10.0, False, False, True, False, 0)


def test_entries_have_their_depth() -> None:
    found = contents_entries(
        [line(f"Introduction{DOTS}4"), line("1.1 Scope . . . . . . . 5", 90), line(f"Annex {DOTS} A-12")]
    )
    assert [(one.text, one.depth) for one in found] == [
        (f"Introduction{DOTS}4", 0),
        ("1.1 Scope . . . . . . . 5", 1),
        (f"Annex {DOTS} A-12", 0),
    ]


def test_a_title_of_two_lines_is_one_entry() -> None:
    lines = [
        line("A title that is too long"),
        line(f"for one line{DOTS}4"),
        line(f"B{DOTS}5"),
        line(f"C{DOTS}6"),
    ]
    assert [one.text for one in contents_entries(lines)] == [
        f"A title that is too long for one line{DOTS}4",
        f"B{DOTS}5",
        f"C{DOTS}6",
    ]


def test_prose_with_dots_is_no_contents_list() -> None:
    assert (
        contents_entries([line("He waited....... then he left"), line("the house."), line("It rained.")])
        == []
    )
    assert contents_entries([line(f"Name{DOTS}"), line(f"Street{DOTS}"), line(f"Town{DOTS}")]) == []


def test_a_contents_page_is_a_list_in_markdown(save: Make) -> None:
    document = pymupdf.open()
    page: Any = document.new_page()
    for at, title in enumerate(("Introduction", "Stamps", "Fishing", "Catalog")):
        write(page, 72, 100 + 14 * at, f"{title}{DOTS}{at + 4}", size=10)
    reading = read_pages(save(document), None, [1])[0]
    titles = ("Introduction", "Stamps", "Fishing", "Catalog")
    assert reading.markdown == "\n".join(f"- {title}{DOTS}{at + 4}" for at, title in enumerate(titles))
    assert {one.kind for one in reading.elements} == {ElementKind.LIST_ITEM}
    assert reading.words_missing == 0
