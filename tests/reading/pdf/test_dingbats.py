"""A check mark is a check mark, and not the letter that its font calls it by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pymupdf

from quire.domain.element import ElementKind
from quire.reading.pdf.page_reader import read_pages

TEXT = "The harbour office answers every letter within a week."


def read(document: Any, folder: Path) -> Any:
    path = folder / "signs.pdf"
    document.save(path)
    return read_pages(str(path), None, [1])[0]


def test_the_mark_of_a_check_box_is_a_mark_when_its_form_calls_it_by_a_digit(tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 72), TEXT)
    for at, (label, value) in enumerate((("Member:", True), ("Guest:", False))):
        page.insert_text((72, 110 + 30 * at), label)
        box = pymupdf.Widget()
        box.field_name, box.field_type = label, pymupdf.PDF_WIDGET_TYPE_CHECKBOX
        box.rect, box.field_value = pymupdf.Rect(130, 98 + 30 * at, 145, 113 + 30 * at), value
        page.add_widget(box)
    found = read(document, tmp_path)
    assert "Member: \u2713" in found.markdown
    assert "3" not in found.markdown
    assert "Guest:" in found.markdown
    fields = [one.text for one in found.elements if one.kind is ElementKind.FORM_FIELD]
    assert fields == ["checked", "not checked"]
    assert found.words_missing == 0


def test_signs_in_cells_are_the_same_as_in_lines_and_digits_of_other_fonts_stay(tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 60), f"{TEXT} There are 34 berths.")
    rows = [("Ship", "Paid", "Fee"), ("Anna", "4", "120"), ("Berta", "8", "480"), ("Clara", "4", "34")]
    for row, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            sign = row and column == 1
            page.insert_text((80 + 100 * column, 96 + 25 * row), cell, fontname="zadb" if sign else "helv")
    for row in range(5):
        page.draw_line((72, 80 + 25 * row), (372, 80 + 25 * row))
    for column in range(4):
        page.draw_line((72 + 100 * column, 80), (72 + 100 * column, 180))
    found = read(document, tmp_path)
    (table,) = (one.table for one in found.elements if one.table)
    assert [row[1] for row in table.rows] == ["Paid", "\u2714", "\u2718", "\u2714"]
    assert table.rows[3][2] == "34"
    assert "34 berths" in found.markdown
