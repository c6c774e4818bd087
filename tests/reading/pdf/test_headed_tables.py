"""Tables of words between three level rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymupdf

from quire.domain.element import ElementKind
from quire.reading.pdf.page_reader import read_pages
from tests.reading.conftest import PROSE, Make, prose, write

HEAD = ("Control", "Description")
ROWS = [
    (
        "Noise suppression",
        ["Takes the noise of the fan and of the street out of the", "signal before it is sent."],
    ),
    ("Equaliser", ["Makes the signal even for the codec of the old kind"]),
    ("Squelch", ["Keeps silent what is weaker than the level that the user", "has set on the front panel."]),
]


def page_with(rules: Sequence[float], *, above: str = "") -> Any:
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 80, "The options of the radio are these, and each of them may be turned off.", size=10)
    for y in rules:
        page.draw_line((72, y), (520, y), width=0.6)
    for x, text in zip((76, 200), HEAD, strict=True):
        write(page, x, 136, text, size=10)
    y = 154
    for label, lines in ROWS:
        write(page, 76, y, label, size=10)
        for line in lines:
            write(page, 200, y, line, size=10)
            y += 12
        y += 2
    prose(page, 72, y + 20, 450)
    return document


def tables(path: str) -> list[list[tuple[str, ...]]]:
    (reading,) = read_pages(path, None, [1])
    assert reading.words_missing == 0
    found = [one.table for one in reading.elements if one.kind is ElementKind.TABLE]
    return [list(table.rows) for table in found if table is not None]


def test_words_are_a_table_when_rules_are_above_and_below_their_head_and_at_the_end(save: Make) -> None:
    rows = [HEAD, *((label, " ".join(lines)) for label, lines in ROWS)]
    assert tables(save(page_with((124, 141, 226)))) == [rows]


def test_two_columns_of_prose_are_no_table_when_rules_are_about_the_head_of_the_page(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    for y in (60, 80, 700):
        page.draw_line((72, y), (520, y), width=0.6)
    write(page, 72, 74, "Journal of farms", size=10)
    write(page, 320, 74, "Volume 3", size=10)
    for x in (72, 310):
        page.insert_textbox((x, 90, x + 205, 690), PROSE * 6, fontsize=10)
    assert tables(save(document)) == []


def test_rule_below_the_head_of_the_page_does_not_hide_the_table(save: Make) -> None:
    rows = [HEAD, *((label, " ".join(lines)) for label, lines in ROWS)]
    assert tables(save(page_with((50, 124, 141, 226)))) == [rows]


def test_table_between_three_rules_is_whole_where_only_some_rows_are_aligned(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 80, PROSE[:75], size=10)
    for y in (100, 118, 292):
        page.draw_line((72, y), (520, y), width=0.6)
    write(page, 200, 113, "Childhood", size=10)
    write(page, 380, 113, "Later", size=10)
    y = 132.0
    wanted = [("", "Childhood", "Later")]
    lines = [
        ("Growth", "Height and weight every"),
        ("hormone", "year until the age of ten"),
        ("", "Bone age"),
    ]
    for at, (label, text) in enumerate(lines):
        write(page, 76 + 10 * (at == 1), y, label, size=10)
        write(page, 200, y, text, size=10)
        y += 13
    write(page, 380, 132, "Thyroid function", size=10)
    wanted.append(
        ("Growth hormone", "Height and weight every year until the age of ten Bone age", "Thyroid function")
    )
    for label, early, late in [
        ("Heart", "Pressure", "Scan"),
        ("Bone", "Spine", "Density"),
        ("Ears", "Hearing", "Hearing"),
        ("Kidneys", "Scan", "Culture"),
    ]:
        for x, text in ((76, label), (200, early), (380, late)):
            write(page, x, y, text, size=10)
        wanted.append((label, early, late))
        y += 13
    assert tables(save(document)) == [wanted]
