"""Weighs whether aligned rows are a table: by figures, by rules, or by columns that are full."""

from __future__ import annotations

from collections.abc import Sequence

from quire.reading.pdf.drawn_rules import Rules
from quire.reading.pdf.line_pieces import is_figure, is_number
from quire.reading.pdf.row_groups import Row

_MIN_ROWS = 3
_TEXT_ROWS = 4
_CELL_WORDS = 4
_NAME_WORDS, _MANY_COLUMNS = 3, 4
_EDGE_PT = 3.0
_HANG_PT = 12.0


def are_aligned(rows: Sequence[Row], columns: Sequence[tuple[float, float]]) -> bool:
    """Whether the pieces of most columns share an edge or a middle: labels strewn over a chart don't."""
    aligned = 0
    for start, end in columns:
        held = [p for row in rows for p in row.pieces if start - 1 <= (p.x0 + p.x1) / 2 <= end + 1]
        edges = ([p.x0 for p in held], [p.x1 for p in held], [(p.x0 + p.x1) / 2 for p in held])
        aligned += bool(held) and any(_together(values) for values in edges)
    return aligned >= 0.7 * len(columns)


def _together(values: Sequence[float]) -> bool:
    middle = sorted(values)[len(values) // 2]
    return sum(abs(v - middle) <= _EDGE_PT for v in values) >= 0.6 * len(values)


def is_convincing(
    rows: Sequence[Sequence[str]],
    lines: Sequence[Sequence[str]],
    run: Sequence[Row],
    columns: Sequence[tuple[float, float]],
    rules: Rules,
) -> bool:
    """Whether these rows, which were made of these lines, are a table: by figures, by rules, or by full columns."""
    body = [cell for row in rows for cell in row[1:] if cell]
    if not body:
        return False
    figures = sum(map(is_figure, body)) / len(body)
    words = _words(lines)
    filled = sum(bool(c) for row in rows for c in row) / (len(columns) * len(rows))
    if filled < 0.35 or words > 6:
        return False
    if len(columns) == 2:
        labels = sum(not is_number(row[0]) for row in rows)
        return figures >= 0.7 and len(rows) >= 4 and labels >= 0.8 * len(rows)
    top, bottom = run[0].top - 40, run[-1].bottom + 20
    left, right = run[0].pieces[0].x0, max(p.x1 for r in run for p in r.pieces)
    ruled = sum(top <= h.at <= bottom and h.length > 0.5 * (right - left) for h in rules.horizontal)
    if figures >= 0.3 or (ruled >= 2 and words <= 4 and len(rows) >= 4):
        return True
    if words <= _NAME_WORDS and _is_below_names(run, columns):
        return True
    return (ruled > 0 or len(rows) >= _TEXT_ROWS) and _is_full(rows) and _is_flush(run, columns)


def _words(lines: Sequence[Sequence[str]]) -> float:
    """How many words a cell has in a line; of three columns and more, one may be of sentences."""
    counts = [[len(cell.split()) for cell in column if cell] for column in list(zip(*lines, strict=True))[1:]]
    counts = sorted((found for found in counts if found), key=lambda found: sum(found) / len(found))
    kept = [count for found in (counts[:-1] if len(counts) > 1 else counts) for count in found]
    return sum(kept) / len(kept)


def _is_full(rows: Sequence[Sequence[str]]) -> bool:
    """Whether nearly all cells have text, and all of one column are short: what a row is about."""
    full = sum(all(row) for row in rows)
    short = any(
        all(len(cell.split()) <= _CELL_WORDS for cell in column) for column in zip(*rows, strict=True)
    )
    return len(rows) >= _MIN_ROWS and full >= 0.8 * len(rows) and short


def _is_below_names(run: Sequence[Row], columns: Sequence[tuple[float, float]]) -> bool:
    """Whether the first row has a name for each of many columns, and all texts below begin where a name does.

    Such a table may have many empty cells.
    """
    names, *body = run
    starts = [piece.x0 for piece in names.pieces]
    return (
        len(starts) == len(columns) >= _MANY_COLUMNS
        and len(body) >= _MIN_ROWS
        and all(len(row.pieces) > 1 for row in body)
        and all(any(abs(piece.x0 - x) <= _EDGE_PT for x in starts) for row in body for piece in row.pieces)
    )


def _is_flush(run: Sequence[Row], columns: Sequence[tuple[float, float]]) -> bool:
    """Whether the texts of each column begin at one place."""
    starts = [
        [p.x0 for row in run for p in row.pieces if start - 1 <= (p.x0 + p.x1) / 2 <= end + 1]
        for start, end in columns
    ]
    return all(held and max(held) - min(held) <= _HANG_PT for held in starts)
