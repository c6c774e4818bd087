"""Joins the parts of a table that goes on over page breaks. No cell is lost, and none is there twice.

A head that a part repeats word for word is left out. A row that the break cuts in two is one again only where that is
certain; else its halves are rows of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.domain.element import TableGrid

_MOST_HEAD_ROWS = 3
_ENDS = (".", "!", "?", ":", ";")


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """One table, and in which of its rows each part begins. A part may begin in the last row of the one before."""

    grid: TableGrid
    first_rows: tuple[int, ...]


def join_tables(parts: Sequence[TableGrid]) -> JoinedTable:
    """The parts, of which there is at least one, as one table with the head of the first."""
    first = parts[0]
    rows, spans, marked = list(first.rows), list(first.spans), list(first.marked)
    starts = [0]
    last = first
    for part in parts[1:]:
        skipped = repeated_head(first, part)
        own = [row + (("",) * (_width(first) - len(row))) for row in part.rows[skipped:]]
        starts.append(len(rows))
        if own and _is_cut(last, part, skipped):
            rows[-1] = tuple(_as_one(*cells) for cells in zip(rows[-1], own.pop(0), strict=True))
            starts[-1] -= 1
            skipped += 1
        shift = len(rows) - skipped
        rows += own
        spans += [span._replace(row=span.row + shift) for span in part.spans if span.row >= skipped]
        marked += [mark._replace(row=mark.row + shift) for mark in part.marked if mark.row >= skipped]
        last = part
    grid = TableGrid(tuple(rows), first.head_rows, tuple(spans), tuple(marked))
    return JoinedTable(grid, tuple(starts))


def repeated_head(first: TableGrid, part: TableGrid) -> int:
    """How many rows at the top of a part are the head of the first one, word for word.

    A row below the first belongs to the head only if it fills cells that the row above leaves empty or spans: rows of
    a table may well be equal.
    """
    most = min(len(first.rows), len(part.rows), _MOST_HEAD_ROWS)
    count = 0
    while count < most and _words(first.rows[count]) == _words(part.rows[count]):
        if count >= max(1, first.head_rows) and not _is_below_head(first, count):
            break
        count += 1
    if not count or sum(map(bool, _words(first.rows[0]))) < min(2, _width(first)):
        return 0
    crosses = any(span.row < count < span.row + span.row_span for span in part.spans)
    return 0 if crosses else count


def _is_below_head(table: TableGrid, row: int) -> bool:
    texts, above = table.rows[row], table.rows[row - 1]
    if any(any(map(str.isdigit, text)) for text in texts):
        return False
    wide = any(span.row == row - 1 and span.column_span > 1 for span in table.spans)
    return wide or any(text and not over for text, over in zip(texts, above, strict=False))


def _words(row: Sequence[str]) -> list[str]:
    return ["".join(text.split()).casefold() for text in row]


def _width(table: TableGrid) -> int:
    return max(map(len, table.rows), default=0)


def _is_cut(before: TableGrid, part: TableGrid, row: int) -> bool:
    """Whether the first row of a part is the rest of the last row before: its first cell is empty, and all others go on
    in the middle of sentences."""
    if len(before.rows) < 2 or _has_marks(before, len(before.rows) - 1) or _has_marks(part, row):
        return False
    return is_rest_of_row(before.rows[-1], part.rows[row])


def is_rest_of_row(above: Sequence[str], row: Sequence[str]) -> bool:
    """Whether all texts of a row go on in the middle of sentences of the row above, and its first cell is empty."""
    filled = [(over, text) for over, text in zip(above, row, strict=False) if text]
    if not filled or not above or not above[0] or row[0] or len(row) > len(above):
        return False
    return all(over and not over.endswith(_ENDS) and text[0].islower() for over, text in filled)


def _has_marks(table: TableGrid, row: int) -> bool:
    """Whether cells of the row are Markdown or span others: these are never put together."""
    return any(mark.row == row for mark in table.marked) or any(
        span.row <= row < span.row + span.row_span for span in table.spans
    )


def _as_one(above: str, below: str) -> str:
    return f"{above} {below}" if above and below else above or below
