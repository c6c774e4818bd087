"""Marks of items that are drawn, as browsers draw those of lists."""

from __future__ import annotations

from typing import Any

import pymupdf

from quire.domain.element import ElementKind
from quire.domain.page import PageClass
from quire.reading.pdf.page_reader import read_pages
from tests.reading.conftest import Make, write

BLACK = (0.0, 0.0, 0.0)


def page_with(*rows: tuple[float, str, Any], radius: float = 1.7) -> Any:
    """Rows of text at their indents below an introduction; one with a colour has a filled circle before it."""
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 100, "Bring all that is on the list below to the harbour on the first day of the month:")
    for at, (x, text, colour) in enumerate(rows):
        y = 130 + 20.0 * at
        write(page, x, y, text)
        if colour is not None:
            page.draw_circle((x - 10, y - 3.5), radius, color=None, fill=colour)
    return document


def test_text_is_an_item_when_its_mark_is_drawn(save: Make) -> None:
    document = page_with(
        (90, "a lamp and the oil that it needs", BLACK),
        (90, "two spare oars", BLACK),
        (130, "one of them for the boat of the guests", BLACK),
        (130, "one for our own", BLACK),
        (90, "a rope", BLACK),
        (72, "All of it is checked by the keeper of the harbour in the evening.", None),
    )
    reading = read_pages(save(document), None, [1])[0]
    items = [e for e in reading.elements if e.kind is ElementKind.LIST_ITEM]
    assert [(e.text, e.depth) for e in items] == [
        ("a lamp and the oil that it needs", 0),
        ("two spare oars", 0),
        ("one of them for the boat of the guests", 1),
        ("one for our own", 1),
        ("a rope", 0),
    ]
    assert items[0].box is not None
    assert items[0].box[0] < 83  # with its mark
    assert reading.page_class is PageClass.TEXT_ONLY
    assert reading.words_missing == 0
    assert not any(e.kind is ElementKind.FIGURE for e in reading.elements)


def test_marks_of_a_long_list_are_no_figure(save: Make) -> None:
    document = page_with(*((90, f"item number {at} of a long list", BLACK) for at in range(30)))
    reading = read_pages(save(document), None, [1])[0]
    kinds = [e.kind for e in reading.elements]
    assert kinds.count(ElementKind.LIST_ITEM) == 30
    assert ElementKind.FIGURE not in kinds


def test_text_is_no_item_when_the_shapes_are_the_colours_of_a_legend(save: Make) -> None:
    document = page_with((90, "low constant", (0.9, 0.1, 0.1)), (90, "high constant", (0.1, 0.1, 0.9)))
    reading = read_pages(save(document), None, [1])[0]
    assert not any(e.kind is ElementKind.LIST_ITEM for e in reading.elements)


def test_text_is_no_item_when_only_one_shape_is_before_a_line(save: Make) -> None:
    document = page_with((90, "the harbour is here", BLACK), (90, "the keeper's house is behind it", None))
    reading = read_pages(save(document), None, [1])[0]
    assert not any(e.kind is ElementKind.LIST_ITEM for e in reading.elements)


def test_text_is_no_item_when_the_shape_is_a_box_to_tick(save: Make) -> None:
    document = page_with((90, "yes, we come", BLACK), (90, "no, we stay", BLACK), radius=4.4)
    reading = read_pages(save(document), None, [1])[0]
    assert not any(e.kind is ElementKind.LIST_ITEM for e in reading.elements)
