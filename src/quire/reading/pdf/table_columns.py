"""Owns the columns of a table that was found on a page: which of them are one column in truth.

A gutter or a rule is only a border of columns where some row has text on both sides of it. Heads that are set to the
left above figures that are set to the right leave a gutter too, but no row has text on both sides of that one.
"""

from __future__ import annotations

from collections.abc import Sequence

from quire.domain.element import CellSpan

Rows = tuple[tuple[str, ...], ...]

_SIGNS_BEFORE = frozenset("$€£¥")
_SIGNS_AFTER = frozenset({"%", ")", "%)", ")%"})


def true_columns(rows: Rows, spans: Sequence[CellSpan] = ()) -> tuple[Rows, tuple[CellSpan, ...]]:
    """The table with columns joined that are one: signs with their figures, then those that never share a row."""
    width = max(map(len, rows), default=0)
    rows, spans = _joined(rows, spans, _sign_groups(rows, width))
    return _joined(rows, spans, _ghost_groups(rows, max(map(len, rows), default=0)))


def _joined(
    rows: Rows, spans: Sequence[CellSpan], groups: Sequence[Sequence[int]]
) -> tuple[Rows, tuple[CellSpan, ...]]:
    if len(groups) < 2 or all(len(group) == 1 for group in groups):
        return rows, tuple(spans)
    joined = tuple(
        tuple(" ".join(row[i] for i in group if i < len(row) and row[i]) for group in groups) for row in rows
    )
    return joined, _moved(spans, {column: at for at, group in enumerate(groups) for column in group})


def _sign_groups(rows: Rows, width: int) -> list[list[int]]:
    """The columns, those of nothing but currency or per cent signs with the column of their figures."""
    groups: list[list[int]] = []
    opened = False
    for column in range(width):
        cells = {row[column] for row in rows if column < len(row) and row[column]}
        is_after = bool(groups) and bool(cells) and cells <= _SIGNS_AFTER
        if opened or is_after:
            groups[-1].append(column)
        else:
            groups.append([column])
        opened = bool(cells) and cells <= _SIGNS_BEFORE and column + 1 < width
    return groups


def _ghost_groups(rows: Rows, width: int) -> list[list[int]]:
    """The columns, every two neighbours together that no row has text in both of.

    A row with one text only says nothing: in a form to fill in, every row below the head is such a row.
    """
    filled = [{i for i, cell in enumerate(row) if cell} for row in rows]
    telling = {i for row in filled if len(row) > 1 for i in row}
    doubtful = set().union(*filled) - telling
    groups: list[list[int]] = []
    for column in range(width):
        may_join = bool(groups) and column not in doubtful and doubtful.isdisjoint(groups[-1])
        if may_join and not any(column in row and not row.isdisjoint(groups[-1]) for row in filled):
            groups[-1].append(column)
        else:
            groups.append([column])
    return groups


def _moved(spans: Sequence[CellSpan], place: dict[int, int]) -> tuple[CellSpan, ...]:
    moved: list[CellSpan] = []
    for span in spans:
        first, last = place[span.column], place[span.column + span.column_span - 1]
        if span.row_span > 1 or last > first:
            moved.append(CellSpan(span.row, first, span.row_span, last - first + 1))
    return tuple(moved)
