"""Owns the heads of tables without a grid: which rows of text are one row, and which texts are over several columns.

Nothing is drawn around such a text. It is told by its place: at the middle of columns that have
names of their own in the row below, so that all texts of its row together leave no column between them.
"""

from __future__ import annotations

from collections.abc import Sequence

from quire.domain.element import CellSpan
from quire.reading.pdf.line_pieces import LinePiece, is_number, is_year
from quire.reading.pdf.row_groups import Row

Column = tuple[float, float]

_WRAPPED_GAP = 0.6
_OFF_MIDDLE = 0.3
"""Of the step from column to column: with one column more or less, the middle moves by half of it."""
_LEAST_OFF_PT = 4.0
_MOST_PIECES, _MOST_COLUMNS = 10, 24


def joined_head(
    cells: Sequence[Sequence[str]], head: Sequence[Row], below: Sequence[Row], columns: Sequence[Column]
) -> tuple[list[list[str]], list[CellSpan]]:
    """The rows of the head, whose texts are in `cells`, and their spans; `below` are the rows of the table.

    Rows in which texts wrap are one; a row with a text over several columns stays by itself.
    """
    joined: list[list[str]] = []
    spans: list[CellSpan] = []
    before: Row | None = None
    for at, (texts, row) in enumerate(zip(cells, head, strict=True)):
        groups = _groups(row, head[at + 1 :] or [one for one in below[:1] if _has_years(one)], columns)
        if groups:
            joined.append(_texts(row, groups, columns))
            spans += [CellSpan(len(joined) - 1, a, 1, b - a) for _, a, b in groups if b - a > 1]
            before = None
            continue
        close = before is not None and row.top - before.bottom < _WRAPPED_GAP * row.height
        if before is not None and close and not _is_over(before, columns) and not _is_over(row, columns):
            joined[-1] = [f"{one} {other}".strip() for one, other in zip(joined[-1], texts, strict=True)]
        else:
            joined.append(list(texts))
        before = row
    return joined, spans


def _is_over(row: Row, columns: Sequence[Column]) -> bool:
    """Whether one of the row's pieces is over several columns."""
    return any(
        sum(min(piece.x1, end) - max(piece.x0, start) > 1.0 for start, end in columns) > 1
        for piece in row.pieces
    )


def _groups(row: Row, below: Sequence[Row], columns: Sequence[Column]) -> list[tuple[LinePiece, int, int]]:
    """The pieces behind the label, each with the first column that it is over and the one after the last.

    None are found where every piece is over one column, or where they don't account for all columns from the first to
    the last that they are over. `below` are the rows that name single columns.
    """
    values = [piece for piece in row.pieces if piece.x1 > columns[1][0]]
    others = len(row.pieces) - len(values)
    is_few = 0 < len(values) < len(columns) - 1 and len(values) <= _MOST_PIECES and others <= 1
    if not below or not is_few or len(columns) > _MOST_COLUMNS:
        return []
    names = [_names(column, columns, below) for column in columns]
    extents = [
        (min(start, *(p.x0 for p in own)), max(end, *(p.x1 for p in own))) if own else (start, end)
        for (start, end), own in zip(columns, names, strict=True)
    ]
    found = columns_over(values, extents, from_column=1)
    if not found and not others:
        found = columns_over(values, extents)
    groups = [(piece, *group) for piece, group in zip(values, found, strict=False)]
    wide = [(first, after) for _, first, after in groups if after - first > 1]
    single = groups if len(groups) == 1 else [one for one in groups if one[2] - one[1] == 1]
    if _may_wrap(row, below[0]) and any(
        names[first] and _is_over_one(piece, extents) for piece, first, _ in single
    ):
        return []
    if not wide or not all(all(names[first:after]) for first, after in wide):
        return []
    return groups


def _has_years(row: Row) -> bool:
    """Whether all figures of the row are years, which name columns."""
    figures = [piece.text for piece in row.pieces if is_number(piece.text)]
    return bool(figures) and all(map(is_year, figures))


def _may_wrap(row: Row, below: Row) -> bool:
    """Whether the rows are as close as lines of one text."""
    return below.top - row.bottom < _WRAPPED_GAP * row.height


def _is_over_one(piece: LinePiece, columns: Sequence[Column]) -> bool:
    return sum(start < piece.x1 and piece.x0 < end for start, end in columns) == 1


def _names(column: Column, columns: Sequence[Column], below: Sequence[Row]) -> list[LinePiece]:
    """The pieces that are over this column alone."""
    return [
        piece
        for row in below
        for piece in row.pieces
        if [one for one in columns if piece.x0 < one[1] and one[0] < piece.x1] == [column]
    ]


def columns_over(
    pieces: Sequence[LinePiece], columns: Sequence[Column], *, from_column: int = 0
) -> list[tuple[int, int]]:
    """For each piece the first column that it is over and the one after the last; empty if these don't fit.

    Of the groups that fit, those with most columns in all are taken, then those whose middles are nearest.

    Each group begins where the one before ends, the first at `from_column` or later.
    """
    reached: dict[int, tuple[int, float, list[tuple[int, int]]]] = {
        at: (0, 0.0, []) for at in range(from_column, len(columns))
    }
    for piece in pieces:
        following: dict[int, tuple[int, float, list[tuple[int, int]]]] = {}
        for first, (count, off, groups) in reached.items():
            for after in range(first + 1, len(columns) + 1):
                one = _off(piece, columns, first, after)
                if one is None:
                    continue
                found = count - (after - first), off + one, [*groups, (first, after)]
                if after not in following or found[:2] < following[after][:2]:
                    following[after] = found
        reached = following
    return min(reached.values(), key=lambda found: found[:2])[2] if reached else []


def _off(piece: LinePiece, columns: Sequence[Column], first: int, after: int) -> float | None:
    """How far the piece is from the middle of the columns; None if it is not over them."""
    left, right = columns[first][0], columns[after - 1][1]
    step = (right - left) / (after - first)
    off = abs((piece.x0 + piece.x1 - left - right) / 2)
    is_inside = piece.x0 >= left - step / 2 and piece.x1 <= right + step / 2
    return off if is_inside and off <= max(_LEAST_OFF_PT, _OFF_MIDDLE * step) else None


def _texts(row: Row, groups: Sequence[tuple[LinePiece, int, int]], columns: Sequence[Column]) -> list[str]:
    texts = [""] * len(columns)
    over = [piece for piece, _, _ in groups]
    texts[0] = " ".join([piece.text for piece in row.pieces if piece not in over])
    for piece, first, _ in groups:
        texts[first] = piece.text
    return texts
