"""Which lines of a table make up one row, and what beside a table, or instead of one, is text."""

from __future__ import annotations

from typing import Any

import pymupdf

from quire.domain.page import PageReading
from quire.reading.pdf.aligned_tables import find_aligned
from quire.reading.pdf.drawn_rules import Rules
from quire.reading.pdf.page_reader import read_pages
from quire.reading.pdf.row_groups import TableLine, row_groups
from tests.reading.conftest import PROSE, Make, write
from tests.reading.pdf.test_table_evidence import body, words

LINE, SPACE = 11.0, 20.0
SENTENCE = ["The council holds the land and the", "northern office keeps the budget", "of the region."]
PLACES = ["Norway", "Spain", "Kenya", "Chile"]
ROWS = [[place, "yes", " ".join(SENTENCE)] for place in PLACES]


def _line(y: float, *filled: int, figures: tuple[int, ...] = ()) -> TableLine:
    return TableLine(y, y + 10.0, frozenset(filled), frozenset(figures))


def _sentences(page: Any, top: float) -> float:
    """A table of places and sentences; more space is between its rows than between their lines."""
    y = top
    for place in PLACES:
        write(page, 80, y, place, size=9)
        write(page, 180, y, "yes", size=9)
        for at, line in enumerate(SENTENCE):
            write(page, 260, y + LINE * at, line, size=9)
        y += LINE * (len(SENTENCE) - 1) + SPACE
    return y


def _tables(reading: PageReading) -> list[list[list[str]]]:
    return [[list(row) for row in one.table.rows] for one in reading.elements if one.table]


def test_rows_that_only_space_divides_are_told_apart(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 90, PROSE[:75])
    for x, text in ((80, "Country"), (180, "Signed"), (260, "What it says")):
        write(page, x, 120, text, size=9, bold=True)
    _sentences(page, 140)
    (table,) = _tables(read_pages(save(document), None, [1])[0])
    assert table == [["Country", "Signed", "What it says"], *ROWS]


def test_space_divides_rows_in_a_frame_with_columns(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    for x, text in ((80, "Country"), (180, "Signed"), (260, "What it says")):
        write(page, x, 120, text, size=9, bold=True)
    bottom = _sentences(page, 140)
    for y in (108, 126, bottom):
        page.draw_line((72, y), (450, y))
    for x in (72, 172, 252, 450):
        page.draw_line((x, 108), (x, bottom))
    (table,) = _tables(read_pages(save(document), None, [1])[0])
    assert table == [["Country", "Signed", "What it says"], *ROWS]


def test_rules_divide_rows_whatever_the_space() -> None:
    lines = [_line(100 + LINE * at, *((0, 1, 2) if at % 2 == 0 else (2,))) for at in range(6)]
    rules = [98.0 + 2 * LINE * at for at in range(4)]
    assert row_groups(lines, rules) == [1, 1, 2, 2, 3, 3]
    assert row_groups(lines, []) is None


def test_groups_with_two_figures_in_a_column_are_several_rows() -> None:
    lines = [_line(100 + LINE * at + SPACE * (at // 2), 0, 1, figures=(1,)) for at in range(8)]
    assert row_groups(lines, []) is None
    assert row_groups(lines, [95.0, 140.0, 180.0, 220.0]) is None


def test_a_little_less_space_now_and_then_divides_nothing() -> None:
    steps = [14.0, 14.0, 14.0, 11.0, 14.0, 14.0, 14.0]
    tops = [100.0 + sum(steps[:at]) for at in range(8)]
    lines = [_line(y, 0) if at == 4 else _line(y, 0, 1, figures=(1,)) for at, y in enumerate(tops)]
    assert row_groups(lines, []) is None


def test_table_in_one_column_is_not_read_across_the_prose_beside_it(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_textbox((310, 90, 530, 600), PROSE * 5, fontsize=10)
    for at, row in enumerate(body(["North", "South", "East", "West", "Inland"])):
        for x, text in row:
            write(page, 60 + (x - 72) / 2, 120 + 12.1 * at, text, size=8)
    (table,) = _tables(read_pages(save(document), None, [1])[0])
    assert [row[0] for row in table] == ["North", "South", "East", "West", "Inland"]
    assert {len(row) for row in table} == {4}


def test_section_between_a_head_and_its_figures_is_a_row_of_the_table() -> None:
    head = [(200.0, "Oxide"), (280.0, "Carbide"), (360.0, "Iron")]
    rows = [head, [(72.0, "In the north")], *body(["North", "South", "East", "West"])]
    (table,) = find_aligned(words(rows), Rules(), [])
    assert table.rows[:2] == (("", "Oxide", "Carbide", "Iron"), ("In the north", "", "", ""))


def test_heads_set_close_together_are_cut_where_the_columns_begin() -> None:
    head = [(72.0, "Tubes of glass"), (150.0, "Solutions"), (200.0, "Yeast")]
    rows = [[(72.0, name), (150.0, "12"), (200.0, "30")] for name in ("One", "Two", "Three", "Four")]
    (table,) = find_aligned(words([head, *rows]), Rules(), [])
    assert table.rows[0] == ("Tubes of glass", "Solutions", "Yeast")


def test_two_addresses_side_by_side_are_no_table(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    left = ["Adams and Baker", "12 Station Road", "Portland", "Maine"]
    right = ["Clark Brothers", "7 Harbour Street", "Salem", "Oregon"]
    for at, (one, other) in enumerate(zip(left, right, strict=True)):
        write(page, 72, 90 + 13 * at, one, size=9)
        write(page, 380, 90 + 13 * at, other, size=9)
    page.insert_textbox((72, 170, 520, 400), PROSE * 3, fontsize=10)
    reading = read_pages(save(document), None, [1])[0]
    assert not _tables(reading)
    text = " ".join(reading.markdown.split())
    assert text.index("Maine") < text.index("Clark Brothers")


def test_headings_in_the_margin_stay_with_their_texts(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    for at, name in enumerate(("Purpose", "Members", "Budget", "Meetings")):
        write(page, 72, 98 + 90 * at, name, size=10, bold=True)
        page.insert_textbox((200, 90 + 90 * at, 520, 175 + 90 * at), f"{name.lower()}: {PROSE}", fontsize=10)
    reading = read_pages(save(document), None, [1])[0]
    assert not _tables(reading)
    text = reading.markdown
    places = [
        text.index(word)
        for name in ("Purpose", "Members", "Budget", "Meetings")
        for word in (name, f"{name.lower()}:")
    ]
    assert places == sorted(places)


def test_fields_to_fill_in_are_no_table(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    for at in range(8):
        for x, text in ((72, f"Name of item {at + 1}:"), (320, f"Date {at + 1}:")):
            write(page, x, 100 + 24 * at, text, size=10)
            page.draw_line((x + 100, 102 + 24 * at), (x + 200, 102 + 24 * at))
    assert not _tables(read_pages(save(document), None, [1])[0])


def ruled_page(*, has_rule: bool) -> Any:
    """A table whose head is in larger type, as those of word processors, with a rule below each row."""
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 80, "Here are some things that a respectful guest of the harbour could eat:", size=12)
    write(page, 245, 130, "Food", size=15)
    write(page, 404, 130, "Calories per", size=15)
    write(page, 404, 147, "portion", size=15)
    rows = (
        ("Leaves", "Ash, Elm, Maple", "50"),
        ("Berries", "Blueberry", "150"),
        ("Grain", "Corn, Barley", "200"),
    )
    for at, row in enumerate(rows):
        for x, text in zip((163, 245, 404), row, strict=True):
            write(page, x, 180 + 34 * at, text, size=12)
    for y in (160, 194, 228, 262) if has_rule else ():
        page.draw_line((67, y), (545, y))
    write(page, 72, 310, "All of it is on the table of the keeper in the evening of the first day.", size=12)
    return document


def test_row_above_the_rule_of_a_table_is_its_head_when_it_is_wider_than_the_figures(save: Make) -> None:
    (reading,) = read_pages(save(ruled_page(has_rule=True)), None, [1])
    (table,) = [e.table for e in reading.elements if e.table is not None]
    assert table.rows[0] == ("", "Food", "Calories per portion")
    assert len(table.rows) == 4
    assert [e.text.split()[0] for e in reading.elements if e.table is None] == ["Here", "All"]


def test_row_far_above_a_table_is_no_head_when_no_rule_is_below_it(save: Make) -> None:
    (reading,) = read_pages(save(ruled_page(has_rule=False)), None, [1])
    (table,) = [e.table for e in reading.elements if e.table is not None]
    assert table.rows[0][0] == "Leaves"
    assert reading.words_missing == 0
