"""Finds prose beside a table in the rows that both make: short paragraphs, which `prose_columns` does not know by
themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from quire.reading.pdf.drawn_rules import Box
from quire.reading.pdf.line_pieces import gutters_between, is_figure
from quire.reading.pdf.prose_columns import runs_on
from quire.reading.pdf.row_groups import Row, cells_of

_EDGE_PT = 3.0
_MAX_COLUMNS = 30
_FIGURES = 0.35
_ROWS_OF_HEAD = 3
_HEAD_GAP = 0.9


def running_texts(rows: Sequence[Row], first: int, after: int) -> list[Box]:
    """The columns of a run that are prose beside a table: sentences run on in them, and figures are in the others."""
    core = [row for row in rows[first:after] if len(row.pieces) > 1]
    columns = gutters_between([row.pieces for row in core]) if core else []
    if not 2 <= len(columns) <= _MAX_COLUMNS:
        return []
    grid = [cells_of(row, columns) for row in core]
    found = []
    for at, texts in enumerate(zip(*grid, strict=True)):
        others = [cell for row in grid for place, cell in enumerate(row) if cell and place != at]
        if runs_on([text for text in texts if text]) and sum(map(is_figure, others)) >= _FIGURES * len(
            others
        ):
            left, right = columns[at][0] - _EDGE_PT, columns[at][1] + _EDGE_PT
            top = _beginning(rows, first, left, right)
            found.append((left, top, right, rows[after - 1].bottom))
    return found


def _beginning(rows: Sequence[Row], first: int, left: float, right: float) -> float:
    """Where the text between these edges begins that goes on beside the head of a table."""
    for at in range(first - 1, max(-1, first - 1 - _ROWS_OF_HEAD), -1):
        row = rows[at]
        is_inside = any(left <= piece.x0 and piece.x1 <= right for piece in row.pieces)
        if not is_inside or rows[first].top - row.bottom >= _HEAD_GAP * row.height:
            break
        first = at
    return rows[first].top
