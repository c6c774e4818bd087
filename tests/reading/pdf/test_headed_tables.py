"""Tables of words between three level rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymupdf
import pytest

from quire.domain.element import ElementKind
from quire.reading.pdf.drawn_rules import DrawnRule, Rules
from quire.reading.pdf.headed_tables import find_headed, with_headed
from quire.reading.pdf.page_reader import read_pages
from quire.reading.pdf.ruled_tables import Table
from tests.reading.conftest import PROSE, Make, prose, write
from tests.reading.pdf.test_table_evidence import words

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


@pytest.mark.parametrize(("first", "kept"), [(2, 4), (0, 3)])
def test_table_between_three_rules_is_whole_where_alignment_has_a_part_of_it(first: int, kept: int) -> None:
    rows = [
        [(72.0, name), (200.0, "as long as a sentence"), (380.0, "short")]
        for name in ("Oslo", "Rome", "Bern")
    ]
    found = words([[(200.0, "Early"), (380.0, "Late")], *rows])
    rules = Rules(tuple(DrawnRule(at, 70, 480) for at in (97.0, 112.0, 160.0)))
    aligned = Table(
        (72, 110 + 14.0 * first, 480, 158), tuple(tuple(text for _, text in row) for row in rows[first:])
    )
    (table,) = with_headed([aligned], rules, found, [])
    assert len(table.rows) == kept


def test_label_that_hangs_goes_on_with_its_row() -> None:
    lines = [
        [(72.0, "Growth"), (200.0, "Height every year")],
        [(80.0, "Hormone"), (200.0, "and weight")],
        [(72.0, "Heart"), (200.0, "Pressure")],
        [(72.0, "Bone"), (200.0, "Density")],
    ]
    rules = Rules(tuple(DrawnRule(at, 70, 480) for at in (97.0, 112.0, 175.0)))
    (table,) = find_headed(rules, words([[(72.0, "Part"), (200.0, "Checks")], *lines]), [])
    assert table.rows[1] == ("Growth Hormone", "Height every year and weight")
    assert len(table.rows) == 4
