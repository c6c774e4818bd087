"""Cells of OpenDocument tables and sheets, row by row; what is repeated is named once, with its count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from quire.domain.element import CellSpan
from quire.reading.office.office_pages import Spans, kept_spans
from quire.reading.office.ooxml_package import Package

MAX_REPEATED = 1_000
_MOST_ROWS = 1 << 20
_MOST_COLUMNS = 1 << 14
_MAX_SPAN = 64
_CELLS = ("table-cell", "covered-table-cell")
_ROW_HOLDERS = ("table-header-rows", "table-rows", "table-row-group")

LineOf = Callable[[Element], str]
"""The text of a cell in one line of Markdown."""


class OdfCell(NamedTuple):
    """A cell, and as many more of the same as `repeated` says; `column` counts from 0."""

    column: int
    repeated: int
    text: str
    wide: int
    high: int
    element: Element


class OdfRow(NamedTuple):
    """A row, and as many more of the same as `repeated` says; `number` counts from 1."""

    number: int
    repeated: int
    cells: list[OdfCell]
    is_hidden: bool = False


def table_rows(package: Package, table: Element, line_of: LineOf) -> Iterator[OdfRow]:
    """The rows of a table; those without a text too."""
    number = 1
    for row in _rows(package, table):
        repeated = _count(package, row, "number-rows-repeated", _MOST_ROWS)
        yield OdfRow(number, repeated, list(_cells(package, row, line_of)), _is_hidden(package, row))
        number += repeated


def hidden_columns(package: Package, table: Element) -> set[int]:
    """The columns of a sheet that are hidden, counted from 1."""
    found: set[int] = set()
    number = 1
    for one in table.iter():
        name = package.local[one.tag]
        if name == "table-row" or number > _MOST_COLUMNS:
            break
        if name == "table-column":
            repeated = _count(package, one, "number-columns-repeated", _MOST_COLUMNS)
            if _is_hidden(package, one):
                found.update(range(number, min(number + repeated, _MOST_COLUMNS + 1)))
            number += repeated
    return found


def _is_hidden(package: Package, element: Element) -> bool:
    return package.attribute(element, "visibility") in ("collapse", "filter")


def read_table(package: Package, table: Element, line_of: LineOf) -> tuple[list[list[str]], Spans]:
    """The rows that have any text, each cut to the last column that has any, and the spans among them."""
    rows: list[list[str]] = []
    spans: list[CellSpan] = []
    for row in table_rows(package, table, line_of):
        cells: list[str] = []
        for one in row.cells:
            if one.wide > 1 or one.high > 1:
                spans.append(CellSpan(len(rows), len(cells), one.high, one.wide))
            cells += [one.text] * min(one.repeated, MAX_REPEATED)
        while cells and not cells[-1]:
            cells.pop()
        rows += [list(cells) for _ in range(min(row.repeated, MAX_REPEATED) if cells else 1)]
    kept, moved = kept_spans(spans, rows)
    width = max(map(len, kept), default=0)
    return kept, tuple(span for span in moved if span.column + span.column_span <= width)


def _rows(package: Package, holder: Element) -> Iterator[Element]:
    for one in holder:
        name = package.local[one.tag]
        if name == "table-row":
            yield one
        elif name in _ROW_HOLDERS:
            yield from _rows(package, one)


def _cells(package: Package, row: Element, line_of: LineOf) -> Iterator[OdfCell]:
    column = 0
    for one in row:
        name = package.local[one.tag]
        if name not in _CELLS:
            continue
        text = line_of(one).replace("\n", " ") if name == "table-cell" else ""
        repeated = _count(package, one, "number-columns-repeated", _MOST_COLUMNS)
        wide = _count(package, one, "number-columns-spanned", _MAX_SPAN)
        high = _count(package, one, "number-rows-spanned", MAX_REPEATED)
        yield OdfCell(column, repeated, text, wide, high, one)
        column += repeated
        if column > _MOST_COLUMNS:
            return


def _count(package: Package, element: Element, name: str, most: int) -> int:
    given = package.attribute(element, name, "1")
    return max(1, min(int(given), most)) if given.isascii() and given.isdigit() and len(given) < 9 else 1
