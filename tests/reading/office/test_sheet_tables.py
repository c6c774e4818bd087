"""Which cells of a sheet are one table: empty rows and columns divide some, and are only for the look in others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.reading.office.conftest import ReadMarkdown
from tests.support.office_files import xlsx

Rows = Sequence[Sequence[str | int | None]]


def _sheet(rows: Rows) -> bytes:
    """A sheet with a row for each of the rows, the empty ones too."""
    lines = []
    for number, row in enumerate(rows, 1):
        cells = "".join(
            f'<c r="{chr(65 + at)}{number}"><v>{value}</v></c>'
            if isinstance(value, int)
            else f'<c r="{chr(65 + at)}{number}" t="inlineStr"><is><t>{value}</t></is></c>'
            for at, value in enumerate(row)
            if value is not None
        )
        lines.append(f'<row r="{number}">{cells}</row>')
    return xlsx({"S": "".join(lines)})


def _tables(text: str) -> list[str]:
    """The first row of each table, and lines that are none."""
    blocks = text.split("\n\n")[1:]
    return [block.split("\n")[0].strip("| ") for block in blocks]


_FRUIT: Rows = [["Fruit", "Kg"], ["Apple", 3], ["Pear", 4]]


@pytest.mark.parametrize(
    ("rows", "tables"),
    [
        (
            [["Fruit", "Kg", None, "City", "Pop"], ["Apple", 3, None, "Bonn", 300], ["Pear", 4, None, "Ulm", 120]],
            ["Fruit | Kg", "City | Pop"],
        ),
        (
            [["Item", None, "Q1", "Q2", None, "Sum"], ["Sales", None, 1, 2, None, 3], ["Costs", None, 4, 5, None, 9]],
            ["Item | Q1 | Q2 | Sum"],
        ),
        (
            [["Name", "Pay", None, "Team", "Year"], ["Ann", 3, None, "Sea", 7], ["Bob", 4, None, "Sea", 8]],
            ["Name | Pay | Team | Year"],
        ),
        (
            [["Name", "Town", None, "Post", "Desk"], ["Ann", "Ulm", None, "a", "b"], ["Bob", "Bonn", None, "c", "d"]],
            ["Name | Town | Post | Desk"],
        ),
    ],
    ids=["each has names and figures", "names once", "names repeated", "no figures"],
)  # fmt: skip
def test_tables_of_the_same_rows_are_apart_only_when_each_has_names_and_figures(
    markdown: ReadMarkdown, rows: Rows, tables: list[str]
) -> None:
    assert _tables(markdown(_sheet(rows))) == tables


@pytest.mark.parametrize(
    ("rows", "tables"),
    [
        ([*_FRUIT, [], ["City", "Pop"], ["Bonn", 300]], ["Fruit | Kg", "City | Pop"]),
        ([*_FRUIT, [], [], ["Below"], ["x", 1], ["y", 2]], ["Fruit | Kg", "Below", "x | 1"]),
        ([*_FRUIT, [], ["Dried"], ["Fig", 1], ["Date", 2]], ["Fruit | Kg"]),
        ([*_FRUIT, [], [], ["Fig", 1], ["Date", 2]], ["Fruit | Kg"]),
        ([["a", "b"], ["c", "d"], [], ["e", "f"]], ["a | b"]),
    ],
    ids=["head", "title after two rows", "part after one row", "no title", "no figures"],
)
def test_rows_below_a_gap_are_another_table_only_when_they_begin_like_one(
    markdown: ReadMarkdown, rows: Rows, tables: list[str]
) -> None:
    assert _tables(markdown(_sheet(rows))) == tables
