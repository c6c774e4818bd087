"""Cells of a sheet as tables: which rows and columns belong together, and the cells that are merged.

Rows without a value are left out, and so are columns, however far apart values are: a cell in the last corner of a
sheet costs one row.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from quire.domain.element import CellSpan
from quire.reading.office.inline_markdown import block
from quire.reading.office.office_pages import MarkdownBlock, OfficePage, Pager

_ROWS_AT_ONCE = 5_000
_SMALL_AREA = 20_000
_LEAST_FILLED = 0.05
_LEAST_ROWS = 3
_FIGURE = re.compile(
    r"-|[-+(]?\s?(?:[$€£¥]|[A-Z]{3}(?= ))?\s?[-+(]?\d[\d.,\u00a0' ]*+\)?\s?"
    r"(?:[%€$£¥]|(?!(?:st|nd|rd|th)\b)[A-Za-z]{1,3}[²³]?|°[CF]?)?\)?"
)
"""A number as cells show it, with what it is a number of; a stroke is how formats of money show zero."""

SheetRow = dict[int, str]
"""The cells of a row that have a value, as Markdown, by column."""


class MergedArea(NamedTuple):
    """First and last row and column, from 1."""

    top: int
    left: int
    bottom: int
    right: int


class _Table(NamedTuple):
    rows: list[tuple[int, SheetRow]]
    goes_on: bool = False
    """It is a further part of the table before it: a long one comes in parts."""


def add_tables(pager: Pager, rows: Iterator[tuple[int, SheetRow]], merged: Sequence[MergedArea] = ()) -> bool:
    """Adds the tables of a sheet to the pager; whether there is any. `rows` have their number in the sheet."""
    found = False
    head: SheetRow = {}
    for table in _tables(rows):
        for one in _side_by_side(table):
            found = True
            numbered = one.rows
            if one.goes_on:
                numbered = [(numbered[0][0], head), *numbered]
            else:
                head = numbered[0][1]
            _add(pager, numbered, () if one.goes_on else merged)
    return found


def sheet_pages(heading: str, pager: Pager) -> list[OfficePage]:
    """The pages of a sheet, of which each says to what sheet it belongs."""
    first, *rest = pager.finish()
    return [first, *(_continued(heading, one) for one in rest)]


def _continued(heading: str, page: OfficePage) -> OfficePage:
    captions = tuple(one._replace(line=one.line + 2) for one in page.captions)
    markdown = f"## {heading} (continued)\n\n{page.markdown}"
    return replace(page, markdown=markdown, captions=captions)


def _add(pager: Pager, numbered: list[tuple[int, SheetRow]], merged: Sequence[MergedArea]) -> None:
    rows = [row for _, row in numbered]
    columns = sorted({column for row in rows for column in row})
    if len(rows) == 1 and len(columns) == 1:
        pager.add(MarkdownBlock(block(rows[0][columns[0]])))
    elif _is_scattered(rows, len(columns)):
        for row in rows:
            pager.add(MarkdownBlock("- " + "; ".join(row.values()), tight=True))
    else:
        spans = _spans([number for number, _ in numbered], columns, merged)
        pager.add_table([_filled(row, columns) for row in rows], spans=spans)


def _tables(rows: Iterator[tuple[int, SheetRow]]) -> Iterator[_Table]:
    """Rows that belong together. After a gap, rows in other columns than before are another table.

    So are rows that begin with a head or a title of their own, and without a gap rows that are all beside those before.
    """
    table: list[tuple[int, SheetRow]] = []
    goes_on = False
    last, first_column, last_column = 0, 0, 0
    for number, row in rows:
        low, high = min(row), max(row)
        apart = number > last + 1 and not (first_column <= low and high <= last_column and len(table) > 1)
        apart = apart or (len(table) > 1 and _begins_anew(row, table[-1][1], number - last - 1, first_column))
        widens = len(table) == 1 and len(table[0][1]) == 1 and number == last + 1 and len(row) > 1
        touches = low <= last_column and first_column <= high
        moved = number == last + 1 and len(row) == 1 and len(table) == 1 and not touches
        beside = len(table) > 1 and len(row) > 1 and not touches
        full = len(table) >= _ROWS_AT_ONCE
        if table and (apart or widens or moved or beside or full):
            yield _Table(table, goes_on)
            table, goes_on = [], full and not (apart or beside)
        if not table and not goes_on:
            first_column, last_column = low, high
        first_column, last_column = min(first_column, low), max(last_column, high)
        table.append((number, row))
        last = number
    if table:
        yield _Table(table, goes_on)


def _begins_anew(row: SheetRow, above: SheetRow, gap: int, first_column: int) -> bool:
    """Whether a row after `gap` empty ones begins another table in the same columns.

    It does as a head: all its cells are texts, as many as the row above has, and that one has figures. After two empty
    rows it also does as a title, one text in the first column; after one empty row that is a part of the table.
    """
    if not gap or any(_FIGURE.fullmatch(text) for text in row.values()):
        return False
    if len(row) == 1:
        return gap > 1 and first_column in row
    return row.keys() == above.keys() and any(_FIGURE.fullmatch(text) for text in above.values())


def _side_by_side(table: _Table) -> Iterator[_Table]:
    """The tables that are beside each other: an empty column is between them.

    Either they have other rows, or each of them has names and figures of its own. A table with an empty column for its
    look has the names once.
    """
    groups = [] if table.goes_on else _column_groups(table.rows)
    parts = [
        [(number, {c: text for c, text in row.items() if low <= c <= high}) for number, row in table.rows]
        for low, high in groups
    ]
    parts = [[(number, row) for number, row in part if row] for part in parts]
    extents = {(part[0][0], part[-1][0]) for part in parts}
    are_tables = all(len(part) > 1 and len({c for _, row in part for c in row}) > 1 for part in parts)
    if are_tables and len(extents) < len(parts):
        are_tables = all(map(_has_own_names, parts))
    if len(groups) < 2 or not are_tables:
        yield table
        return
    for part in parts:
        yield from _tables(iter(part))


def _has_own_names(rows: Sequence[tuple[int, SheetRow]]) -> bool:
    """Whether a full head, a first column of names that are all different, and a column of figures make it a table."""
    (_, head), *body = rows
    first, *others = sorted({column for _, row in rows for column in row})
    names = [row.get(first, "") for _, row in body]
    is_named = all(names) and len(set(names)) == len(names) and not any(map(_FIGURE.fullmatch, names))
    figures = (all(_FIGURE.fullmatch(row.get(column, "")) for _, row in body) for column in others)
    is_headed = len(head) == 1 + len(others) and not _FIGURE.fullmatch(head[first])
    return len(rows) >= _LEAST_ROWS and is_headed and is_named and any(figures)


def _column_groups(rows: Sequence[tuple[int, SheetRow]]) -> list[tuple[int, int]]:
    """First and last column of each run of columns that have values."""
    groups: list[tuple[int, int]] = []
    for column in sorted({column for _, row in rows for column in row}):
        if groups and column == groups[-1][1] + 1:
            groups[-1] = (groups[-1][0], column)
        else:
            groups.append((column, column))
    return groups


def _spans(
    numbers: Sequence[int], columns: Sequence[int], merged: Sequence[MergedArea]
) -> tuple[CellSpan, ...]:
    """The merged areas that begin in a cell of the table, counted in its own rows and columns."""
    found: list[CellSpan] = []
    for area in merged:
        row, column = bisect_left(numbers, area.top), bisect_left(columns, area.left)
        if row == len(numbers) or column == len(columns):
            continue
        if numbers[row] == area.top and columns[column] == area.left:
            high = bisect_right(numbers, area.bottom) - row
            wide = bisect_right(columns, area.right) - column
            if high > 1 or wide > 1:
                found.append(CellSpan(row, column, high, wide))
    return tuple(sorted(found))


def _is_scattered(rows: Sequence[SheetRow], width: int) -> bool:
    """Whether it would be a table of nothing but gaps, which grows with the square of what is in it."""
    area = len(rows) * width
    return area > _SMALL_AREA and sum(map(len, rows)) < _LEAST_FILLED * area


def _filled(row: SheetRow, columns: Sequence[int]) -> list[str]:
    last = max(row)
    return [row.get(column, "") for column in columns if column <= last]
