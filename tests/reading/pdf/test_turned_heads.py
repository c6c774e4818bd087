"""Turned text at a table: heads of its columns, a label beside its rows, a stamp in the margin."""

from __future__ import annotations

from typing import Any

import pymupdf

from quire.domain.page import PageReading
from quire.reading.pdf.page_reader import read_pages
from tests.reading.conftest import PROSE, Make, write

PORTS = ["Oslo", "Rome", "Bern", "Kiel", "Cork"]
STARTS = (180, 220, 260, 300)


def turned(page: Any, x: float, bottom: float, text: str, size: float = 9) -> None:
    page.insert_text((x, bottom), text, fontsize=size, fontname="helv", rotate=90)


def figures(page: Any, top: float = 200) -> None:
    for row, port in enumerate(PORTS):
        write(page, 80, top + 16 * row, port, size=9)
        for column, x in enumerate(STARTS):
            write(page, x, top + 16 * row, f"{row + 1}{column}", size=9)


def read(save: Make, document: Any) -> PageReading:
    return read_pages(save(document), None, [1])[0]


def rows_of(reading: PageReading) -> list[tuple[str, ...]]:
    (table,) = [one.table for one in reading.elements if one.table]
    return list(table.rows)


def test_turned_texts_above_columns_are_their_heads(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 80, PROSE[:75])
    write(page, 80, 184, "Port", size=9)
    for x, name in zip(STARTS, ("Fuel", "Fresh water", "Shore power", "Crane"), strict=True):
        turned(page, x + 8, 186, name)
    figures(page)
    rows = rows_of(read(save, document))
    assert rows[0] == ("Port", "Fuel", "Fresh water", "Shore power", "Crane")
    assert rows[1] == ("Oslo", "10", "11", "12", "13")
    assert len(rows) == 6


def test_turned_label_beside_a_table_is_in_none_of_its_rows(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 80, PROSE[:75])
    turned(page, 64, 270, "Level in centimetres")
    figures(page)
    reading = read(save, document)
    assert rows_of(reading)[2] == ("Bern", "30", "31", "32", "33")
    assert "Level in centimetres" in reading.markdown
    assert reading.words_missing == 0


def test_stamp_in_the_margin_is_in_no_cell(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 80, PROSE[:75])
    turned(page, 560, 400, "Downloaded from the library of the harbour on 24 October")
    figures(page)
    reading = read(save, document)
    assert all(len(row) == 5 for row in rows_of(reading))
    assert "Downloaded from the library" in reading.markdown


def test_turned_text_among_the_rows_is_lost_nowhere(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 80, PROSE[:75])
    turned(page, 250, 262, "closed")
    figures(page)
    reading = read(save, document)
    assert "closed" in reading.markdown
    assert reading.words_missing == 0
