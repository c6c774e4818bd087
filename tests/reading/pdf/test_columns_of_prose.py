"""Columns of prose on pages that are not plain: newsletters, cards, papers with charts."""

from __future__ import annotations

from typing import Any

import pymupdf

from tests.reading.conftest import Make, write
from tests.support.prose_pages import LEADING, column, markdown, page_of, places


def newsletter(rows: int = 30) -> tuple[Any, Any]:
    """A title over three columns with gutters that are hardly wider than a space, and a line below the title."""
    document = pymupdf.open()
    page = page_of(document)
    write(page, 160, 60, "The Harbour Gazette", size=30, bold=True)
    write(page, 236, 78, "Volume 12, Number 4", size=9)
    for at, (x, tag) in enumerate(zip((36, 220, 404), ("Alpha", "Beta", "Gamma"), strict=True)):
        column(page, x, 110, tag, rows - at, 42)
    return document, page


def test_three_columns_are_read_one_after_the_other_below_their_title(save: Make) -> None:
    document, _ = newsletter()
    text = markdown(save(document))
    found = places(text, "# The Harbour Gazette", "Volume 12", "Alpha", "Beta", "Gamma")
    assert found == sorted(found)
    assert text.count("\n\n") == 4  # the title, the line below it, and a paragraph for each column


def test_few_rows_of_three_columns_are_not_read_across(save: Make) -> None:
    document = pymupdf.open()
    page = page_of(document)
    for x, tag in zip((36, 219, 402), ("Alpha", "Beta", "Gamma"), strict=True):
        column(page, x, 110, tag, 4, 42)
    text = markdown(save(document))
    assert [part.split()[0] for part in text.split("\n\n")] == ["Alpha", "Beta", "Gamma"]


def test_cards_in_three_columns_are_read_card_by_card(save: Make) -> None:
    document = pymupdf.open()
    page = page_of(document)
    names = ("Storage", "Compute", "Network", "Backup", "Logging", "Billing")
    for at, name in enumerate(names):
        x, y = 36 + 184 * (at % 3), 110 + 120 * (at // 3)
        write(page, x, y, name, size=9, bold=True)
        column(page, x, y + LEADING, f"Text-{name.lower()}", 6, 42)
    text = markdown(save(document))
    tags = [tag for name in names for tag in (name, f"Text-{name.lower()}")]
    assert places(text, *tags) == sorted(places(text, *tags))


def test_paper_is_read_column_by_column_when_a_chart_has_turned_and_parted_labels(save: Make) -> None:
    document = pymupdf.open()
    page = page_of(document)
    write(page, 100, 60, "Decay of rag paper in coastal archives: a survey of nine", size=16, bold=True)
    write(page, 250, 80, "collections", size=16, bold=True)
    write(page, 240, 100, "Ruth Adler and Jon Ferrer", size=9)
    column(page, 60, 140, "Alpha", 40, 55)
    column(page, 320, 140, "Beta", 10, 55)
    for at in range(4):
        write(page, 350 + 50 * at, 400, str(2019 + at), size=7)
        page.draw_rect((350 + 50 * at, 300 + 20 * at, 370 + 50 * at, 390), fill=(0.3, 0.4, 0.7))
    page.insert_text((335, 380), "Letters", fontsize=7, rotate=90)
    column(page, 320, 440, "Gamma", 15, 55)
    text = markdown(save(document))
    tags = ("Decay", "collections", "Ruth Adler", "Alpha", "Beta", "2019", "Gamma")
    assert places(text, *tags) == sorted(places(text, *tags))


def test_heading_below_two_columns_heads_what_follows_them(save: Make) -> None:
    document = pymupdf.open()
    page = page_of(document)
    column(page, 60, 100, "Alpha", 14, 55)
    column(page, 320, 100, "Beta", 12, 55)
    write(page, 60, 300, "Afterwards", size=14, bold=True)
    column(page, 60, 322, "Gamma", 8, 115)
    text = markdown(save(document))
    tags = ("Alpha", "Beta", "# Afterwards", "Gamma")
    assert places(text, *tags) == sorted(places(text, *tags))
