"""Rows and columns that a sheet hides. They are read like others, for filters and folded groups hide what is part of
the data; a line behind the tables says which they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from quire.reading.office.office_pages import MarkdownBlock
from quire.reading.office.review_comments import column_letters
from quire.reading.office.sheet_tables import SheetRow

_MOST_RANGES = 20


class HiddenPlaces:
    """Of one sheet. `rows` and `columns` are hidden ones, counted from 1; those without a value need no word."""

    def __init__(self) -> None:
        self.rows: set[int] = set()
        self.columns: set[int] = set()
        self._found_rows: list[int] = []
        self._found_columns: set[int] = set()

    def watched(self, rows: Iterable[tuple[int, SheetRow]]) -> Iterator[tuple[int, SheetRow]]:
        """The rows as they are, while it is noted which of them, and which of their columns, are hidden."""
        for number, row in rows:
            if number in self.rows:
                self._found_rows.append(number)
            if self.columns:
                self._found_columns |= self.columns & row.keys()
            yield number, row

    def blocks(self) -> list[MarkdownBlock]:
        """The line about them, when all rows have come; nothing where none is hidden."""
        found = (
            _said("row", self._found_rows, str),
            _said("column", sorted(self._found_columns), column_letters),
        )
        text = " and ".join(filter(None, found))
        return [MarkdownBlock(f"*Hidden: {text}.*")] if text else []


def _said(what: str, places: Iterable[int], name: Callable[[int], str]) -> str:
    ranges: list[tuple[int, int]] = []
    for place in places:
        if ranges and place == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], place)
        else:
            ranges.append((place, place))
    shown = [name(first) if first == last else f"{name(first)}–{name(last)}" for first, last in ranges]
    if not shown:
        return ""
    many = "s" if len(ranges) > 1 or ranges[0][0] != ranges[0][1] else ""
    more = [f"{len(shown) - _MOST_RANGES} more"] if len(shown) > _MOST_RANGES else []
    return f"{what}{many} {', '.join([*shown[:_MOST_RANGES], *more])}"
