"""Rows of RTF tables that do not begin at the left border of their table."""

from __future__ import annotations

from tests.reading.office.conftest import ReadMarkdown

_HEAD = r"\trowd\trleft{} \cellx1000\cellx2000\cellx3000 A\cell B\cell C\cell\row "


def test_cells_are_in_their_columns_when_a_row_begins_late(markdown: ReadMarkdown) -> None:
    late = r"\trowd\trleft1000\cellx2000\cellx3000 b\cell c\cell\row "
    page = "{\\rtf1 " + _HEAD.replace("{}", "0") + late + "}"
    assert markdown(page) == "| A | B | C |\n|---|---|---|\n|  | b | c |"


def test_table_has_no_empty_column_when_all_its_rows_are_set_in(markdown: ReadMarkdown) -> None:
    page = "{\\rtf1 " + _HEAD.replace("{}", "500") * 2 + "}"
    assert markdown(page) == "| A | B | C |\n|---|---|---|\n| A | B | C |"
