"""Tables without rules: rows of short pieces below one another, with gutters between."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from quire.reading.pdf.drawn_rules import Box, Rules
from quire.reading.pdf.line_pieces import (
    LinePiece,
    PageWord,
    gutters_between,
    is_number,
    pieces_of,
    text_lines,
)
from quire.reading.pdf.ruled_heads import RuledHead, find_head, head_rows
from quire.reading.pdf.ruled_tables import Table
from quire.reading.pdf.text_lines import TextLine

_MIN_ROWS = 3
_LONG_FIGURE = 80
_EDGE_PT = 3.0
_MAX_COLUMNS = 30
_MAX_WORDS = 4_000
_SHORT_WORDS = 9
_FAR_ROW = 2.2
_FARTHEST_ROW = 7.0
_EVEN = 0.15
_ROWS_BETWEEN = 3
_FAR_APART = 3.0
_HEAD_ROWS = 3
_HEAD_WORDS = 6
_HEAD_GAP = 0.9
_WRAPPED_GAP = 0.6
_HANG_PT = 12.0
"""How far a head may hang over the left edge of the first column of values."""


@dataclass(slots=True)
class Row:
    """A line of the page, cut in pieces."""

    pieces: list[LinePiece]
    top: float
    bottom: float

    @property
    def height(self) -> float:
        return self.bottom - self.top


def could_be_aligned(lines: Sequence[TextLine]) -> bool:
    """Whether MuPDF's lines alone hint at a table: figures set apart, or three lines side by side."""
    figures = 0
    rows: dict[int, int] = {}
    for line in lines:
        figures += len(line.text) < _LONG_FIGURE and is_number(line.text.rsplit(" ", 1)[-1])
        row = round(line.box[3] / 3)
        rows[row] = rows.get(row, 0) + 1
    return figures >= _MIN_ROWS or sum(count >= 3 for count in rows.values()) >= _MIN_ROWS


def find_aligned(words: Sequence[PageWord], rules: Rules, taken: Sequence[Box]) -> list[Table]:
    """Tables made by alignment alone, outside the boxes `taken`.

    Prose in columns looks alike; so a table needs figures in it, or short pieces in three columns under a rule.
    """
    free = [w for w in words if not _is_in_any(w, taken)] if taken else words
    if not free or len(free) > _MAX_WORDS:
        return []
    rows = [_row(line) for line in text_lines(free)]
    tables: list[Table] = []
    end = 0
    for first, after in _joined_runs(rows, _runs(rows)):
        table = _table(rows[first:after], rows[end:first], rules)
        if table is not None:
            tables.append(table)
            end = after
    return tables


def _is_in_any(word: PageWord, boxes: Sequence[Box]) -> bool:
    x, y = word.x, word.y
    return any(box[0] <= x <= box[2] and box[1] <= y <= box[3] for box in boxes)


def _row(line: Sequence[PageWord]) -> Row:
    return Row(pieces_of(line), min(w.box[1] for w in line), max(w.box[3] for w in line))


def _tabular(row: Row) -> bool:
    """Whether the row by itself looks like one of a table: several short pieces, or figures behind a label."""
    if len(row.pieces) < 2:
        return False
    figures = sum(is_number(p.text) for p in row.pieces[1:])
    words = sum(len(p.words) for p in row.pieces) / len(row.pieces)
    return figures * 2 >= len(row.pieces) - 1 or (len(row.pieces) >= 3 and words <= 3.5)


def _runs(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Stretches of tabular rows; single rows of one short piece may be between them, as section heads are."""
    runs: list[tuple[int, int]] = []
    first: int | None = None
    last = 0
    for at, row in enumerate(rows):
        is_tabular = _tabular(row)
        ends = _is_far(rows, at) or (not is_tabular and (at - last > 2 or not _is_short(row)))
        if first is not None and ends:
            runs.append((first, last + 1))
            first = None
        if is_tabular:
            first, last = at if first is None else first, at
    if first is not None:
        runs.append((first, last + 1))
    return [run for run in runs if sum(map(_tabular, rows[slice(*run)])) >= _MIN_ROWS]


def _is_far(rows: Sequence[Row], at: int) -> bool:
    """Whether the row is too far below the one above to belong to its table; evenly spaced rows may be far apart."""
    row, above = rows[at], rows[at - 1]
    gap, height = row.top - above.bottom, max(row.height, above.height)
    if gap <= _FAR_ROW * height:
        return False
    others = [rows[i].top - rows[i - 1].bottom for i in (at - 1, at + 1) if 0 < i < len(rows)]
    return gap > _FARTHEST_ROW * height or not any(abs(gap - one) < _EVEN * gap for one in others)


def _is_short(row: Row) -> bool:
    return len(row.pieces) <= 2 and sum(len(p.words) for p in row.pieces) <= _SHORT_WORDS


def _joined_runs(rows: Sequence[Row], runs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The runs; two with nothing but a section head between them are one table if they share their gutters."""
    joined: list[tuple[int, int]] = []
    for first, after in runs:
        if joined and _is_one_table(rows, joined[-1], (first, after)):
            joined[-1] = (joined[-1][0], after)
        else:
            joined.append((first, after))
    return joined


def _is_one_table(rows: Sequence[Row], run: tuple[int, int], other: tuple[int, int]) -> bool:
    between = rows[run[1] - 1 : other[0] + 1]
    if len(between) > _ROWS_BETWEEN + 2 or not all(
        len(row.pieces) == 1 and _is_short(row) for row in between[1:-1]
    ):
        return False
    if any(below.top - row.bottom > _FAR_APART * row.height for row, below in pairwise(between)):
        return False
    cores = [[row.pieces for row in rows[slice(*one)] if _tabular(row)] for one in (run, other)]
    fewest, most = sorted(len(gutters_between(core)) for core in cores)
    return max(3, fewest) <= len(gutters_between([*cores[0], *cores[1]])) <= most


def _head(above: Sequence[Row], top: Row, columns: Sequence[tuple[float, float]]) -> list[Row]:
    """The rows directly above the run that head its columns: short pieces, none over the labels and a column."""
    head: list[Row] = []
    left, right, values = columns[0][0] - _EDGE_PT, columns[-1][1] + _EDGE_PT, columns[1][0] - _HANG_PT
    below = top
    for row in reversed(above[-_HEAD_ROWS:]):
        close = below.top - row.bottom < _HEAD_GAP * row.height
        inside = all(left <= p.x0 and p.x1 <= right and len(p.words) <= _HEAD_WORDS for p in row.pieces)
        over_values = row.pieces[-1].x0 >= values
        apart = all(p.x0 >= values or p.x1 <= columns[0][1] + _HANG_PT for p in row.pieces)
        if not (close and inside and over_values and apart):
            break
        head.insert(0, row)
        below = row
    return head


def _table(run: Sequence[Row], above: Sequence[Row], rules: Rules) -> Table | None:
    core = [row for row in run if _tabular(row)]
    columns = gutters_between([row.pieces for row in core])
    if not 2 <= len(columns) <= _MAX_COLUMNS:
        return None
    grid = [_cells(row, columns) for row in run]
    if not _aligned(core, columns):
        return None
    if not _convincing(grid, len(columns), run, rules):
        return None
    ruled = find_head(rules, columns, [(row.top + row.bottom) / 2 for row in run])
    if ruled is not None and _is_head(ruled, [*above, *run], columns):
        return _with_ruled_head(ruled, run, above, columns)
    head = _head(above, run[0], columns)
    whole, rows = [*head, *run], [*(_cells(row, columns) for row in head), *grid]
    size = _head_size(rows)
    merged = _join_head(rows[:size], whole[:size], columns) + _join_wrapped(
        rows[size:], whole[size:], columns
    )
    box = (columns[0][0] - 1, whole[0].top - 1, columns[-1][1] + 1, run[-1].bottom + 1)
    return Table(box, tuple(tuple(row) for row in merged))


def _is_head(head: RuledHead, rows: Sequence[Row], columns: Sequence[tuple[float, float]]) -> bool:
    """Whether the texts between the rules are short, and nothing but section heads is between them and the figures."""
    left, right = columns[0][0] - 2 * _HANG_PT, columns[-1][1] + 2 * _HANG_PT
    inside = [row for row in rows if head.holds((row.top + row.bottom) / 2)]
    below = [row for row in rows if (row.top + row.bottom) / 2 > head.bottom]
    first = next((at for at, row in enumerate(below) if _tabular(row)), len(below))
    return (
        all(
            len(p.words) <= _SHORT_WORDS and left <= p.x0 and p.x1 <= right
            for row in inside
            for p in row.pieces
        )
        and first <= _ROWS_BETWEEN
        and all(map(_is_short, below[:first]))
    )


def _with_ruled_head(
    head: RuledHead, run: Sequence[Row], above: Sequence[Row], columns: Sequence[tuple[float, float]]
) -> Table:
    """The table with all that is between the rules of its head, and all that is below them."""
    rows = [row for row in (*above, *run) if (row.top + row.bottom) / 2 > head.top]
    words = [word for row in rows for piece in row.pieces for word in piece.words if head.holds(word.y)]
    body = [row for row in rows if (row.top + row.bottom) / 2 > head.bottom]
    heads, spans = head_rows(head, columns, words)
    grid = _join_wrapped([_cells(row, columns) for row in body], body, columns)
    left, right = (min(w.box[0] for w in words), max(w.box[2] for w in words)) if words else columns[0]
    box = (
        min(columns[0][0], left) - 1,
        head.top - 1,
        max(columns[-1][1], right) + 1,
        run[-1].bottom + 1,
    )
    return Table(box, tuple(tuple(row) for row in (*heads, *grid)), spans=tuple(spans))


def _head_size(rows: Sequence[Sequence[str]]) -> int:
    """How many rows are the head: those without figures above the first with figures; only the last has a label."""
    for at, row in enumerate(rows[: _HEAD_ROWS + 2]):
        values = [cell for cell in row[1:] if cell]
        figures = sum(map(is_number, values))
        if figures:
            return at if 2 * figures >= len(values) else 0
        if row[0]:
            below = [cell for cell in rows[at + 1][1:] if cell] if at + 1 < len(rows) else []
            return at + 1 if any(map(is_number, below)) else 0
    return 0


def _join_head(
    rows: Sequence[list[str]], head: Sequence[Row], columns: Sequence[tuple[float, float]]
) -> list[list[str]]:
    """Rows of the head in which texts wrap are one; a row with a text over several columns stays by itself."""
    joined: list[list[str]] = []
    before: Row | None = None
    for cells, row in zip(rows, head, strict=True):
        close = before is not None and row.top - before.bottom < _WRAPPED_GAP * row.height
        if before is not None and close and not _spans(before, columns) and not _spans(row, columns):
            joined[-1] = [f"{above} {below}".strip() for above, below in zip(joined[-1], cells, strict=True)]
        else:
            joined.append(list(cells))
        before = row
    return joined


def _spans(row: Row, columns: Sequence[tuple[float, float]]) -> bool:
    """Whether one of the row's pieces is over several columns."""
    return any(
        sum(min(piece.x1, end) - max(piece.x0, start) > 1.0 for start, end in columns) > 1
        for piece in row.pieces
    )


def _cells(row: Row, columns: Sequence[tuple[float, float]]) -> list[str]:
    cells = [""] * len(columns)
    for piece in row.pieces:
        shares = [min(piece.x1, end) - max(piece.x0, start) for start, end in columns]
        over = [i for i, share in enumerate(shares) if share > 1.0]
        if len(over) <= 1:
            at = max(range(len(columns)), key=lambda i: shares[i])
            cells[at] = f"{cells[at]} {piece.text}".strip()
            continue
        # A piece over several columns is a head that spans them, or cells set close together, as figures always are.
        are_figures = all(is_number(word.text) for word in piece.words)
        if (are_figures or len(row.pieces) >= len(columns) - 2) and len(piece.words) >= len(over):
            for word in piece.words:
                at = max(
                    over, key=lambda i: min(word.box[2], columns[i][1]) - max(word.box[0], columns[i][0])
                )
                cells[at] = f"{cells[at]} {word.text}".strip()
        else:
            cells[over[0]] = f"{cells[over[0]]} {piece.text}".strip()
    return cells


def _aligned(rows: Sequence[Row], columns: Sequence[tuple[float, float]]) -> bool:
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


def _convincing(grid: Sequence[Sequence[str]], columns: int, run: Sequence[Row], rules: Rules) -> bool:
    body = [cell for row in grid for cell in row[1:] if cell]
    if not body:
        return False
    figures = sum(map(is_number, body)) / len(body)
    words = sum(len(c.split()) for c in body) / len(body)
    filled = sum(bool(c) for row in grid for c in row) / (columns * len(grid))
    if filled < 0.35 or words > 6:
        return False
    if columns == 2:
        labels = sum(not is_number(row[0]) for row in grid)
        return figures >= 0.7 and len(grid) >= 4 and labels >= 0.8 * len(grid)
    top, bottom = run[0].top - 40, run[-1].bottom + 20
    left, right = run[0].pieces[0].x0, max(p.x1 for r in run for p in r.pieces)
    ruled = sum(top <= h.at <= bottom and h.length > 0.5 * (right - left) for h in rules.horizontal)
    return figures >= 0.3 or (ruled >= 2 and words <= 4 and len(grid) >= 4)


def _join_wrapped(
    grid: Sequence[list[str]], run: Sequence[Row], columns: Sequence[tuple[float, float]]
) -> list[list[str]]:
    """Rows that only carry on the row above are joined to it."""
    result: list[list[str]] = []
    previous: Row | None = None
    label_start = 0.0
    for cells, row in zip(grid, run, strict=True):
        filled = [i for i, c in enumerate(cells) if c]
        close = previous is not None and row.top - previous.bottom < 0.6 * row.height
        if result and close and previous is not None and filled:
            above = result[-1]
            text_only = not any(is_number(cells[i]) for i in filled)
            carries_on = text_only and len(filled) < len(columns) and all(above[i] for i in filled)
            if 0 in filled:  # a label that goes on never begins farther to the left
                carries_on = carries_on and row.pieces[0].x0 > label_start - _EDGE_PT / 2
            lower = all(re.match(r"[a-z(]", cells[i]) for i in filled)
            wraps = 0 not in filled or lower or _fills(previous, columns[0])
            if carries_on and wraps and (lower or 0 not in filled or len(filled) == 1):
                for i in filled:
                    above[i] = f"{above[i]} {cells[i]}"
                previous = row
                continue
        result.append(list(cells))
        previous = row
        label_start = row.pieces[0].x0
    return result


def _fills(row: Row, column: tuple[float, float]) -> bool:
    """Whether the row's first piece runs to the end of the first column, as wrapped text does."""
    return row.pieces[0].x1 > column[1] - 0.15 * (column[1] - column[0])
