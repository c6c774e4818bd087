"""Contents lists become lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
        ("Introduction ... 4", 0),
        ("1.1 Scope ... 5", 1),
        ("Annex ... A-12", 0),
    ]


def test_a_title_of_two_lines_is_one_entry() -> None:
    lines = [
        line("A title that is too long"),
        line(f"for one line{DOTS}4"),
        line(f"B{DOTS}5"),
        line(f"C{DOTS}6"),
    ]
    assert [one.text for one in contents_entries(lines)] == [
        "A title that is too long for one line ... 4",
        "B ... 5",
        "C ... 6",
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
    assert reading.markdown == "\n".join(f"- {title} ... {at + 4}" for at, title in enumerate(titles))
    assert {one.kind for one in reading.elements} == {ElementKind.LIST_ITEM}
    assert reading.words_missing == 0


def contents_page(rows: Sequence[tuple[str, str]], heading: str = "", leader: str = "") -> Any:
    document = pymupdf.open()
    page: Any = document.new_page()
    if heading:
        write(page, 72, 80, heading, size=14, bold=True)
    for at, (title, number) in enumerate(rows):
        x = 90 if "." in title.split()[0] else 72
        write(page, x, 110 + 16 * at, title + leader, size=10)
        write(page, 520 - pymupdf.get_text_length(number, fontsize=10), 110 + 16 * at, number, size=10)
    return document


CHAPTERS = (("1 Grass", "3"), ("1.1 Roots", "5"), ("1.2 Seeds", "9"), ("2 Trees", "14"), ("3 Moss", "20"))


def test_numbers_set_apart_are_page_numbers_when_titles_are_numbered(save: Make) -> None:
    reading = read_pages(save(contents_page(CHAPTERS)), None, [1])[0]
    assert reading.markdown == "- 1 Grass 3\n  - 1.1 Roots 5\n  - 1.2 Seeds 9\n- 2 Trees 14\n- 3 Moss 20"
    boxes = [one.box for one in reading.elements if one.box]
    assert [round(box[1]) for box in boxes] == sorted({round(box[1]) for box in boxes})
    assert all(box[2] > 500 for box in boxes)
    assert reading.words_missing == 0


def test_numbers_set_apart_are_page_numbers_when_dots_lead_to_them(save: Make) -> None:
    rows = (("Grass", "iv"), ("Trees", "1"), ("Moss", "8"), ("Fern", "8"))
    reading = read_pages(save(contents_page(rows, leader=" " + DOTS)), None, [1])[0]
    assert [one.kind for one in reading.elements] == [ElementKind.LIST_ITEM] * 4
    assert reading.markdown == "- Grass ... iv\n- Trees ... 1\n- Moss ... 8\n- Fern ... 8"
    assert reading.words_missing == 0


def test_numbers_set_apart_are_page_numbers_when_the_heading_says_so(save: Make) -> None:
    rows = (("Grass", "3"), ("Trees", "5"), ("Moss of the north", "9"), ("Fern", "14"))
    listed = read_pages(save(contents_page(rows, heading="Table of contents")), None, [1])[0]
    table = read_pages(save(contents_page(rows, heading="Plants found")), None, [1])[0]
    assert sum(one.kind is ElementKind.LIST_ITEM for one in listed.elements) == 4
    assert ElementKind.TABLE in {one.kind for one in table.elements}


def test_numbers_set_apart_are_page_numbers_when_they_begin_at_one_edge(save: Make) -> None:
    document = pymupdf.open()
    page: Any = document.new_page()
    for at, (title, number) in enumerate(CHAPTERS):
        write(page, 72, 110 + 16 * at, title, size=10)
        write(page, 490, 110 + 16 * at, number, size=10)
    reading = read_pages(save(document), None, [1])[0]
    assert [one.text for one in reading.elements] == [f"{title} {number}" for title, number in CHAPTERS]
    assert {one.kind for one in reading.elements} == {ElementKind.LIST_ITEM}


def test_an_entry_has_its_number_when_only_some_numbers_are_lines_of_their_own() -> None:
    def beside(text: str, y: float, x: float = 72.0) -> TextLine:
        return TextLine(text, (x, y, x + 20, y + 10), 10.0, False, False, True, False, 0)

    lines = [beside(f"2.1 Data {DOTS}", 100), beside("10", 100, 490), beside(f"3 Results {DOTS} 22", 114)]
    lines += [beside(f"References {DOTS}", 128), beside("40", 128, 490)]
    assert [one.text for one in contents_entries(lines)] == [
        "2.1 Data ... 10",
        "3 Results ... 22",
        "References ... 40",
    ]


def test_figures_that_go_down_are_a_table_when_dots_lead_to_them(save: Make) -> None:
    rows = (("Rent", "812"), ("Heat", "90"), ("Light", "75"), ("Water", "120"), ("Phone", "31"))
    reading = read_pages(save(contents_page(rows, leader=" " + DOTS)), None, [1])[0]
    assert [one.kind for one in reading.elements] == [ElementKind.TABLE]


def test_a_title_of_two_lines_has_one_entry_when_its_number_is_set_apart(save: Make) -> None:
    document = contents_page(CHAPTERS[:3])
    page: Any = document[0]
    write(page, 72, 158, "2 Trees of the valleys and", size=10)
    write(page, 72, 170, "of the hills", size=10)
    write(page, 509, 170, "14", size=10)
    reading = read_pages(save(document), None, [1])[0]
    assert reading.markdown.endswith("\n- 2 Trees of the valleys and of the hills 14")


def test_numbered_titles_are_entries_when_they_follow_one_another_without_pages() -> None:
    titles = ["2.1. Versions", "2.2. Base Package", "2.2.1. Its parts", "2.3. Module Path"]
    found = contents_entries(list(map(line, titles)))
    assert [(one.text, one.depth) for one in found] == list(zip(titles, (0, 0, 1, 0), strict=True))
    # Numbers that don't count on, sentences and titles in bold are no contents list.
    assert contents_entries(list(map(line, titles[::-1]))) == []
    assert contents_entries([*map(line, titles), line("2.4. It was closed, for the money was gone")]) == []
    assert contents_entries([replace(line(title), bold=True) for title in titles]) == []


def test_an_entry_has_the_boxes_of_its_lines(save: Make) -> None:
    document = contents_page(CHAPTERS[:3])
    page: Any = document[0]
    write(page, 72, 158, "2 Trees of the valleys and", size=10)
    write(page, 72, 170, "of the hills", size=10)
    write(page, 509, 170, "14", size=10)
    reading = read_pages(save(document), None, [1])[0]
    last = [one for one in reading.elements if one.kind is ElementKind.LIST_ITEM][-1]
    parts = [last.text[one.start :] for one in last.lines]
    assert [part.split()[0] for part in parts] == ["2", "of", "14"]
    assert all(one.lines and one.lines[0].start == 0 for one in reading.elements if one.text)
