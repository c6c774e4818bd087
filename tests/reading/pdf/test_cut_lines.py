"""Prose that a chance gap cuts below a numbered heading is no table."""

from __future__ import annotations

import pytest

from quire.reading.pdf.cut_lines import is_cut_prose
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.text_lines import TextLine


def line(text: str, y: float, x: float = 72.0, *, bold: bool = False) -> TextLine:
    return TextLine(text, (x, y, x + 5 * len(text), y + 10), 10.0, bold, False, True, False, 0)


def table(*rows: tuple[str, ...]) -> LayoutBlock:
    return LayoutBlock("table", (72, 90, 520, 200), rows=rows)


HEAD = [line("5.4", 100, bold=True), line("Kinematics modules", 100, 103, bold=True)]
PROSE = [
    line("The council has sold both mills, for their wheels", 114),
    line("In spring the others follow.", 126),
]


def test_table_is_prose_when_its_border_is_a_space_below_a_numbered_heading() -> None:
    cells = [("The", "council has sold both mills, for their wheels"), ("In", "spring the others follow.")]
    assert is_cut_prose(table(("5.4", "Kinematics modules"), *cells), [*HEAD, *PROSE])
    assert is_cut_prose(table(("5.4", "Kinematics modules"), cells[0]), [*HEAD, PROSE[0]])


def test_table_is_none_when_it_has_numbered_headings_only() -> None:
    assert is_cut_prose(table(("5.4", "Kinematics modules")), HEAD)


@pytest.mark.parametrize("bold", [True, False])
def test_table_stays_when_its_cells_are_lines_of_their_own(bold: bool) -> None:
    rows = [("5.4", "Kinematics modules"), ("Mills by the river", "two of them"), ("Barns", "four")]
    lines = [line("Mills by the river", 114), line("two of them", 114, 300), line("Barns", 126)]
    head = [line("5.4", 100, bold=bold), line("Kinematics modules", 100, 103, bold=bold)]
    assert not is_cut_prose(table(*rows), [*head, *lines, line("four", 126, 300)])


def test_table_stays_when_figures_are_close_behind_their_labels() -> None:
    rows = [("Rents of the upper farms", "118"), ("Rents of the lower farms", "204")]
    lines = [line("Rents of the upper farms 118", 100), line("Rents of the lower farms 204", 112)]
    assert not is_cut_prose(table(*rows), lines)


def test_table_stays_when_its_first_column_has_letters_in_bold() -> None:
    rows = [("L", "Numeric data, with a point"), ("D", "Numeric data, with a currency")]
    lines = [
        piece
        for at, (letter, text) in enumerate(rows)
        for piece in (line(letter, 100 + 12 * at, bold=True), line(text, 100 + 12 * at, 103))
    ]
    assert not is_cut_prose(table(*rows), lines)
