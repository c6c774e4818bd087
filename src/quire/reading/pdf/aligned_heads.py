"""Owns the heads of tables that are found by alignment: which rows above the figures they are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from quire.reading.pdf.centred_heads import joined_head
from quire.reading.pdf.drawn_rules import DrawnRule, Rules
from quire.reading.pdf.line_pieces import LinePiece, is_number
from quire.reading.pdf.row_groups import Row, is_short

_EDGE_PT = 3.0
_HANG_PT = 12.0
"""How far a head may hang over the left edge of the first column of values."""
_HEAD_ROWS = 3
_HEAD_WORDS = 6
_HEAD_GAP = 0.9


def head_above(
    above: Sequence[Row], top: Row, columns: Sequence[tuple[float, float]], rules: Rules
) -> list[Row]:
    """The rows directly above the run that head its columns, and the head of a section between them and the run.

    Where a rule is below the head, the distance to the rule counts, and heads may be as wide as the rule.
    """
    head: list[Row] = []
    rule = _rule_above(top, above, columns, rules)
    end, right = (rule.at, rule.end) if rule is not None else (top.top, columns[-1][1])
    section: list[Row] = []
    for found in reversed(above[-_HEAD_ROWS:]):
        if end - found.bottom >= _HEAD_GAP * found.height:
            break
        cut = _cut_at_starts(found, columns)
        if cut is not None or _heads_columns(found, columns, right):
            head[:0] = [cut or found, *section]
            section = []
        elif not head and not section and _is_section(found, columns):
            section = [found]
        else:
            break
        end = found.top
    return head


def _rule_above(
    top: Row, above: Sequence[Row], columns: Sequence[tuple[float, float]], rules: Rules
) -> DrawnRule | None:
    """The rule as wide as the table that is between its first row and the row above."""
    if not above:
        return None
    left, right = columns[0][0] + _HANG_PT, columns[-1][1] - _HANG_PT
    between = (h for h in rules.horizontal if above[-1].bottom - _EDGE_PT < h.at < top.top + _EDGE_PT)
    return next((h for h in between if h.start <= left and h.end >= right), None)


def _heads_columns(row: Row, columns: Sequence[tuple[float, float]], right: float) -> bool:
    """Whether its pieces are short, and none is over the labels and a column of values.

    They end before `right`; one that ends behind the last column begins with it. Where each column has one that begins
    with it, they may be as wide as they like.
    """
    if len(row.pieces) == len(columns) and all(
        abs(piece.x0 - start) <= _EDGE_PT and len(piece.words) <= _HEAD_WORDS
        for piece, (start, _) in zip(row.pieces, columns, strict=True)
    ):
        return True
    left, values = columns[0][0] - _EDGE_PT, columns[1][0] - _HANG_PT
    last = row.pieces[-1]
    if last.x1 > columns[-1][1] + _EDGE_PT and abs(last.x0 - columns[-1][0]) > _EDGE_PT:
        return False
    return (
        all(left <= p.x0 and p.x1 <= right + _EDGE_PT and len(p.words) <= _HEAD_WORDS for p in row.pieces)
        and row.pieces[-1].x0 >= values
        and all(p.x0 >= values or p.x1 <= columns[0][1] + _HANG_PT for p in row.pieces)
    )


def _is_section(row: Row, columns: Sequence[tuple[float, float]]) -> bool:
    piece = row.pieces[0]
    return len(row.pieces) == 1 and is_short(row) and abs(piece.x0 - columns[0][0]) <= _HANG_PT


def _cut_at_starts(row: Row, columns: Sequence[tuple[float, float]]) -> Row | None:
    """The row cut where words begin at the left edges of the columns, if heads set close together are one at each."""
    words = [word for piece in row.pieces for word in piece.words]
    cuts = [
        next((i for i, word in enumerate(words) if i and abs(word.box[0] - start) <= _EDGE_PT), 0)
        for start, _ in columns[1:]
    ]
    if not all(cuts) or len(row.pieces) >= len(columns):
        return None
    ends = [*cuts, len(words)]
    return Row([LinePiece(words[a:b]) for a, b in pairwise([0, *ends])], row.top, row.bottom)


def head_size(
    rows: Sequence[Sequence[str]], whole: Sequence[Row], columns: Sequence[tuple[float, float]]
) -> int:
    """How many of the rows, from the first, are the head."""
    return _rows_without_figures(rows) or _size_of_levels(rows, whole, columns)


def _rows_without_figures(rows: Sequence[Sequence[str]]) -> int:
    """How many rows are the head: those without figures above the first with figures; only the last has a label."""
    for at, row in enumerate(rows[: _HEAD_ROWS + 2]):
        values = [cell for cell in row[1:] if cell]
        figures = sum(map(is_number, values))
        if figures:
            return at if 2 * figures >= len(values) else 0
        if row[0]:
            if not values and at:
                return at  # the head of a section
            return at + 1 if at + 1 < len(rows) and _has_figure(rows[at + 1]) else 0
    return 0


def _size_of_levels(
    rows: Sequence[Sequence[str]], whole: Sequence[Row], columns: Sequence[tuple[float, float]]
) -> int:
    """How many rows are a head whose first has the label, and a text over several columns that the others name."""
    size = 1
    while size < min(len(rows), _HEAD_ROWS + 1) and not (rows[size][0] or _has_figure(rows[size])):
        size += 1
    is_level = 1 < size < len(rows) and bool(rows[0][0]) and _has_figure(rows[size])
    if not is_level:
        return 0
    _, spans = joined_head(rows[:size], whole[:size], whole[size : size + 1], columns)
    return size if any(span.row == 0 for span in spans) else 0


def _has_figure(row: Sequence[str]) -> bool:
    return any(map(is_number, row[1:]))
