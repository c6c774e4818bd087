"""Lists that are set in columns: read column by column, and no table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pymupdf
import pytest

from quire.domain.element import ElementKind
from quire.reading.pdf.list_columns import are_list_cells
from quire.reading.pdf.page_reader import read_pages
from tests.reading.conftest import Make

STEP = 13.0
TERMS = (
    "account, 12 agency, 4, 18 asset, 77 balance, 3, 91 bridge, 5 budget, 61 cell, 8, 9 contract, 17 copper, 2 "
    "council, 6 debt, 44, 45 dose, 19 energy, 13 engine, 20 equity, 7 farm, 52 filter, 31 forest, 1 grant, 66 group, 80"
)
ENTRIES = re.findall(r"[a-z]+(?:, \d+)+", TERMS)


def side_by_side(columns: dict[float, Sequence[str]], *, top: float = 100.0, bold_heads: bool = False) -> Any:
    """A page with columns of texts that begin at their x; what is before a tab is the mark of its text."""
    document = pymupdf.open()
    page = document.new_page()
    for x, texts in columns.items():
        for at, text in enumerate(texts):
            mark, _, rest = text.rpartition("\t")
            font = "hebo" if bold_heads and at == 0 else "helv"
            indent = len(rest) - len(rest.lstrip())
            if mark:
                page.insert_text((x, top + STEP * at), mark, fontsize=10)
            page.insert_text(
                (x + indent + (18 if mark else 0), top + STEP * at), rest.strip(), fontsize=10, fontname=font
            )
    return document


def markdown(path: str) -> str:
    (reading,) = read_pages(path, None, [1])
    assert reading.words_missing == 0
    return reading.markdown


def texts(path: str, kind: ElementKind) -> list[str]:
    (reading,) = read_pages(path, None, [1])
    return [element.text for element in reading.elements if element.kind is kind]


@pytest.mark.parametrize("count", [2, 3])
def test_index_is_read_column_by_column_when_its_rows_are_level(count: int, save: Make) -> None:
    size = len(ENTRIES) // count
    columns = [ENTRIES[i * size : (i + 1) * size] for i in range(count)]
    page = side_by_side({60.0 + 170.0 * i: column for i, column in enumerate(columns)})
    assert texts(save(page), ElementKind.LIST_ITEM) == [entry for column in columns for entry in column]


def test_index_is_read_column_by_column_when_its_columns_are_not_level(save: Make) -> None:
    document = side_by_side({60.0: ENTRIES[:10], 320.0: []})
    for at, entry in enumerate(ENTRIES[10:]):
        document[0].insert_text((320, 106.5 + STEP * at), entry, fontsize=10)
    assert texts(save(document), ElementKind.LIST_ITEM) == ENTRIES


def test_entry_of_an_index_goes_on_with_its_pages_and_with_what_had_no_room(save: Make) -> None:
    wrapped = [
        "grant, 1, 12, 13, 14, 15, 16, 17, 18,",
        f"{' ' * 20}45, 46",
        "problems in operation. See errors and",
    ]
    wrapped += [f"{' ' * 20}troubleshooting", "railway", f"{' ' * 10}bridges, 17"]
    page = side_by_side({60.0: [*wrapped, *ENTRIES[:6]], 320.0: ENTRIES[6:18]})
    path = save(page)
    assert texts(path, ElementKind.LIST_ITEM)[:4] == [
        "grant, 1, 12, 13, 14, 15, 16, 17, 18, 45, 46",
        "problems in operation. See errors and troubleshooting",
        "railway",
        "bridges, 17",
    ]
    assert "- railway\n  - bridges, 17" in markdown(path)


def test_index_is_no_table_when_boxes_are_drawn_around_its_pages(save: Make) -> None:
    page = side_by_side({60.0: ENTRIES[:10], 320.0: ENTRIES[10:]})
    for word in page[0].get_text("words"):
        if word[4].strip(",").isdigit():
            page[0].draw_rect((word[0] - 1, word[1], word[2] - 1, word[3]))
    assert "|" not in markdown(save(page))


def test_table_of_figures_is_no_index_when_thousands_have_commas(save: Make) -> None:
    names = [entry.split(",")[0] for entry in ENTRIES[:14]]
    figures = [[f"{at + 1},{101 + at}" for at in range(14)], [f"{at + 2},{302 + at}" for at in range(14)]]
    page = side_by_side({60.0: names, 200.0: figures[0], 300.0: figures[1]})
    assert markdown(save(page)).count("\n|") == 14


@pytest.mark.parametrize("marks", [["•"] * 8, [f"{i}." for i in range(1, 9)]])
def test_lists_side_by_side_are_read_one_after_the_other(marks: list[str], save: Make) -> None:
    names = ["steel", "rural district", "wool", "former trial", "net oil", "grain", "sugar", "public office"]
    marked = [f"{mark}\t{name}" for mark, name in zip(marks, names, strict=True)]
    page = side_by_side({60.0: marked[:5], 320.0: marked[5:]})
    assert texts(save(page), ElementKind.LIST_ITEM) == names


def test_text_below_lists_is_behind_both(save: Make) -> None:
    page = side_by_side({60.0: ["•\tsteel", "•\twool", "•\ttin"], 320.0: ["•\toil", "•\tgrain", "•\tsalt"]})
    page[0].insert_text((60, 170), "Short note.", fontsize=10)
    assert markdown(save(page)).endswith("salt\n\nShort note.")


def test_blocks_of_a_form_are_read_one_after_the_other_when_each_has_a_heading(save: Make) -> None:
    left = ["Sender", "Name: Hayes", "Town: Oslo", "Code: 4711"]
    right = ["Receiver", "Name: Nolan", "Town: Rome", "Code: 8150"]
    found = markdown(save(side_by_side({60.0: left, 320.0: right}, bold_heads=True)))
    assert "|" not in found
    assert [word for word in found.split() if word in ("Hayes", "4711", "Receiver", "Rome")] == [
        *("Hayes", "4711", "Receiver", "Rome"),
    ]


def test_fields_of_a_form_are_read_from_left_to_right_when_nothing_heads_them(save: Make) -> None:
    page = side_by_side({60.0: ["Name:", "Street:", "Town:"], 320.0: ["Date:", "Number:", "Country:"]})
    assert markdown(save(page)).split() == ["Name:", "Date:", "Street:", "Number:", "Town:", "Country:"]


@pytest.mark.parametrize(
    ("rows", "are_lists"),
    [
        ((("• a", "• b"), ("• c", "• d")), True),
        ((("•", "a", "•", "b"), ("•", "c", "• •", "d"), ("", "e", "•", "f")), True),
        ((("1.", "a", "4."), ("2.", "b", "5.")), True),
        ((("Sender", "Receiver"), ("Name: a", "Name: b"), ("Town: c", "Town: d")), True),
        ((("A", "B"), *[("n: a", "n: b")] * 5, ("C", "D"), *[("n: c", "n: d")] * 4), True),
        ((("1.", "a", "x"), ("2.", "b", "y")), False),
        ((("• a", "12"), ("• b", "13")), False),
        ((("Item", "Note"), ("Name: a", "b"), ("Town: c", "d")), False),
    ],
)
def test_cells_are_lists_when_every_column_is_one(rows: tuple[tuple[str, ...], ...], are_lists: bool) -> None:
    assert are_list_cells(rows) is are_lists
