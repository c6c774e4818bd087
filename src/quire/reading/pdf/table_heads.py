"""Tells how many rows of a table that was found on a page are its head.

The first row always is one. A row below it belongs to the head where the row above has a text over several columns,
whose own names are here, or where it says the units of the columns alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from quire.domain.element import CellSpan
from quire.reading.pdf.line_pieces import is_number, is_year

_MOST_HEAD_ROWS = 5


def head_rows_of(rows: Sequence[Sequence[str]], spans: Sequence[CellSpan]) -> int:
    """How many rows, from the first, name the columns. At least one row is left below them."""
    count = 1
    while count < min(len(rows) - 1, _MOST_HEAD_ROWS) and _is_below_head(rows, spans, count):
        count += 1
    return count


def _is_below_head(rows: Sequence[Sequence[str]], spans: Sequence[CellSpan], at: int) -> bool:
    """Whether the row goes on with the head above it: rows of the table itself have a label, those of a head often not.

    Where none of the rows above has a label, that of the head may be here, but then no figures are.
    """
    row, above = rows[at], rows[:at]
    label, values = (row[0], [text for text in row[1:] if text]) if row else ("", [])
    if not values:
        return False
    has_label = any(texts and texts[0] for texts in above)
    if label and has_label:
        return False
    is_over = any(one.row <= at - 1 < one.row + one.row_span and one.column_span > 1 for one in spans)
    if is_over and not label and has_label:
        return True
    if any(is_number(text) and not is_year(text) for text in values):
        return False
    if label:
        return is_over and any(map(is_number, rows[at + 1][1:]))
    return is_over or (has_label and _names_units(rows, at))


def _names_units(rows: Sequence[Sequence[str]], at: int) -> bool:
    """Whether the row below has a label, and a figure wherever this one has text, as it has above most figures."""
    below = rows[at + 1]
    pairs = list(zip(rows[at], below, strict=False))[1:]
    count = sum(bool(text) for text, _ in pairs)
    return (
        bool(below[0])
        and all(is_number(other) for text, other in pairs if text)
        and 2 * count >= sum(is_number(other) for _, other in pairs)
    )
