"""A letter as high as several lines is the first of its paragraph."""

from __future__ import annotations

import pymupdf

from tests.reading.conftest import Make, write
from tests.support.prose_pages import LEADING, column, lines_of, markdown, page_of


def test_drop_cap_is_the_first_letter_of_its_paragraph(save: Make) -> None:
    document = pymupdf.open()
    page = page_of(document)
    write(page, 60, 124, "F", size=38)
    for at, line in enumerate(lines_of("urther", 3, 80)):
        write(page, 88, 100 + at * LEADING, line, size=10)
    for at, line in enumerate(lines_of("and", 4, 86)):
        write(page, 60, 136 + at * LEADING, line, size=10)
    text = markdown(save(document))
    assert text.startswith("Further the members")
    assert "\n" not in text


def test_drop_cap_that_is_a_word_keeps_its_space(save: Make) -> None:
    document = pymupdf.open()
    page = page_of(document)
    write(page, 60, 124, "A", size=38)
    for at, line in enumerate(lines_of("report", 3, 80)):
        write(page, 90, 100 + at * LEADING, line, size=10)
    column(page, 60, 136, "and", 4, 86)
    assert markdown(save(document)).startswith("A report the members")


def test_letter_beside_the_entries_that_begin_with_it_is_no_drop_cap(save: Make) -> None:
    document = pymupdf.open()
    page = page_of(document)
    write(page, 60, 124, "A", size=38)
    for at, entry in enumerate(("anchor of the boat", "archive of the town", "autumn in the bay")):
        write(page, 92, 100 + at * LEADING, entry, size=10)
    text = markdown(save(document))
    assert "anchor of the boat" in text
    assert "Aanchor" not in text
