"""Tables by what is drawn: shading, rules that go on beyond the grid, rules below the heads of several columns."""

from __future__ import annotations

from typing import Any

import pytest

from quire.domain.element import CellSpan
from quire.reading.pdf.aligned_tables import find_aligned
from quire.reading.pdf.drawn_rules import Box, DrawnRule, Rules, rules_of
from quire.reading.pdf.line_pieces import PageWord, lines_text
from quire.reading.pdf.ruled_tables import find_grids
from tests.reading.pdf.test_table_evidence import STEP, body, words

GREEN, WHITE = (0.5, 0.8, 0.5), (1.0, 1.0, 1.0)


def area(box: Box, fill: tuple[float, ...] = GREEN, opacity: float = 1.0) -> dict[str, Any]:
    return {"type": "f", "rect": box, "fill": fill, "fill_opacity": opacity, "items": [("re", box, 1)]}


def levels(*drawings: dict[str, Any]) -> list[float]:
    return [rule.at for rule in rules_of(drawings, lambda box: box).horizontal]


CELL, LINE = (72.0, 100.0, 200.0, 130.0), (76.0, 100.0, 196.0, 115.0)


def test_shading_of_a_line_in_a_cell_of_the_same_colour_is_no_border() -> None:
    assert levels(area(CELL), area(LINE)) == [100.0, 130.0]


@pytest.mark.parametrize(
    "above",
    [
        [area(LINE, (0.1, 0.1, 0.9))],
        [area(LINE, opacity=0.5)],
        [area((70.0, 99.0, 210.0, 131.0), WHITE), area(LINE)],
    ],
    ids=["another colour", "darker where both are", "on a white area"],
)
def test_shading_that_can_be_seen_is_a_border(above: list[dict[str, Any]]) -> None:
    assert levels(area(CELL), *above) == [100.0, 115.0, 130.0]


def _grid(first: float, last: float, rows: list[list[tuple[float, str]]]) -> tuple[tuple[str, ...], ...]:
    """The rows of the table that two upright rules make with level ones from first to last."""
    heights = [100.0 - 2 + STEP * at for at in range(len(rows) + 1)]
    level = tuple(DrawnRule(at, first, last) for at in heights)
    upright = tuple(DrawnRule(x, heights[0], heights[-1]) for x in (200.0, 300.0))
    (table,) = find_grids(Rules(level, upright), words(rows))
    return table.rows


def test_columns_beyond_the_outer_upright_rules_belong_to_the_table_when_the_level_rules_go_on() -> None:
    rows = [
        [(72.0, "Task"), (210.0, "Teachers"), (310.0, "Trainers")],
        [(72.0, "Plans"), (210.0, "yes")],
        [(72.0, "Tests"), (210.0, "yes"), (310.0, "yes")],
    ]
    assert _grid(70.0, 400.0, rows) == (
        ("Task", "Teachers", "Trainers"),
        ("Plans", "yes", ""),
        ("Tests", "yes", "yes"),
    )


def _ruled(*parts: DrawnRule) -> Rules:
    whole = [DrawnRule(at, 70.0, 390.0) for at in (98.0, 98.0 + 3 * STEP, 98.0 + 9 * STEP)]
    return Rules(tuple(sorted((*whole, *parts), key=lambda rule: rule.at)), ())


HEAD: list[list[tuple[float, str]]] = [
    [(230.0, "In 2007"), (360.0, "Left")],
    [(195.0, "Sent"), (275.0, "Paid"), (360.0, "open")],
    [(72.0, "Region"), (195.0, "late"), (275.0, "early")],
]
TOWNS = ["North", "South", "East", "West", "Inland", "Abroad"]


def test_rule_below_a_head_tells_which_columns_it_is_over() -> None:
    part = DrawnRule(98.0 + STEP, 190.0, 310.0)
    (table,) = find_aligned(words([*HEAD, *body(TOWNS)]), _ruled(part), [])
    assert table.rows[:3] == (
        ("Region", "In 2007", "", "Left open"),
        ("", "Sent late", "Paid early", ""),
        ("North", "10.0", "10.1", "10.2"),
    )
    assert set(table.spans) == {CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2), CellSpan(0, 3, 2, 1)}
    assert len(table.rows) == 2 + len(TOWNS)


def test_prose_between_a_ruled_head_and_figures_stays_outside() -> None:
    prose: list[tuple[float, str]] = [(72.0, "These figures were sent in by all of the regions in spring")]
    part = DrawnRule(98.0 + STEP, 190.0, 310.0)
    (table,) = find_aligned(words([*HEAD, prose, *body(TOWNS)]), _ruled(part), [])
    assert [row[0] for row in table.rows] == TOWNS


def test_section_head_is_not_taken_for_more_of_the_label_above_it() -> None:
    rows = body(TOWNS)
    rows[2:2] = [[(80.0, "Islands and reefs")], [(72.0, "Others, by coast")]]
    rows[1][0] = (80.0, "Coast of the southern")
    (table,) = find_aligned(words(rows), Rules(), [])
    assert [row[0] for row in table.rows[:4]] == [
        "North",
        "Coast of the southern Islands and reefs",
        "Others, by coast",
        "East",
    ]


def test_figures_set_close_together_are_in_their_columns() -> None:
    figures = ["123,068,550,000", "103,540,000,000", "100,510,000,000"]
    rows = [[*row, (460.0, "5.5"), (520.0, "6.6")] for row in body(TOWNS)]
    rows[2] = [(72.0, "East"), *zip((195.0, 274.0, 353.0), figures, strict=True)]
    (table,) = find_aligned(words(rows), Rules(), [])
    assert table.rows[2] == ("East", *figures, "", "")


def test_words_of_a_turned_head_are_read_from_the_bottom_up() -> None:
    turned = [PageWord("Authority", (100.0, 40.0, 110.0, 90.0)), PageWord("No", (100.0, 95.0, 110.0, 108.0))]
    assert lines_text(turned) == "No Authority"
    upright = [PageWord("Authority", (100.0, 40.0, 150.0, 50.0)), PageWord("No", (100.0, 55.0, 112.0, 65.0))]
    assert lines_text(upright) == "Authority No"
