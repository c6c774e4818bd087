"""Tables without rules: rows of short pieces below one another, with gutters between."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from quire.reading.pdf.aligned_heads import head_above, head_size
from quire.reading.pdf.centred_heads import joined_head
from quire.reading.pdf.drawn_rules import Box, Rules
from quire.reading.pdf.line_pieces import (
    PageWord,
    gutters_between,
    is_number,
    pieces_of,
    text_lines,
)
from quire.reading.pdf.prose_beside import running_texts
from quire.reading.pdf.row_groups import Row, cells_of, is_short, joined_rows
from quire.reading.pdf.ruled_heads import RuledHead, find_head, head_rows
from quire.reading.pdf.ruled_tables import Table
from quire.reading.pdf.table_evidence import are_aligned, is_convincing
from quire.reading.pdf.tables_beside import border_between
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
_WRAPPED_GAP = 0.6
_MEAN_WORDS = 3.5
_CELL_WORDS = 4
_MOST_WRAPPED = 8
_HEAD_SPACE = 60.0
_HANG_PT = 12.0


def could_be_aligned(lines: Sequence[TextLine]) -> bool:
    """Whether MuPDF's lines alone hint at a table: figures set apart, or three lines side by side."""
    figures = 0
    rows: dict[int, int] = {}
    for line in lines:
        figures += len(line.text) < _LONG_FIGURE and is_number(line.text.rsplit(" ", 1)[-1])
        row = round(line.box[3] / 3)
        rows[row] = rows.get(row, 0) + 1
    return figures >= _MIN_ROWS or sum(count >= 3 for count in rows.values()) >= _MIN_ROWS


def find_aligned(
    words: Sequence[PageWord], rules: Rules, taken: Sequence[Box], prose: Sequence[Box] = ()
) -> list[Table]:
    """Tables made by alignment alone, outside the boxes `taken` and not across columns of `prose`.

    Prose in columns looks alike; so a table needs figures in it, short pieces in three columns under a rule, or rows
    that are full.
    """
    free = words
    for x0, y0, x1, y1 in (*taken, *prose):
        free = [w for w in free if not (x0 <= w.x <= x1 and y0 <= w.y <= y1)]
    if not free or len(free) > _MAX_WORDS:
        return []
    tables: list[Table] = []
    for table in _with_halves(_tables(free, rules), free, rules):
        between = next((box for box in prose if _overlap(table.box, box)), None)
        tables += [table] if between is None else _beside(table.box, between, free, rules)
    return tables


def _with_halves(tables: Sequence[Table], words: Sequence[PageWord], rules: Rules) -> list[Table]:
    """The tables, with two for each that is two side by side."""
    found: list[Table] = []
    for table in tables:
        border = border_between(table, rules)
        if border is None:
            found.append(table)
            continue
        near = [w for w in words if table.box[1] - _HEAD_SPACE < w.y < table.box[3]]
        sides = [w for w in near if w.x < border], [w for w in near if w.x > border]
        halves = [half for side in sides if side for half in _tables(side, rules)]
        found += halves if len(halves) == len(sides) else [table]
    return found


def _beside(box: Box, prose: Box, words: Sequence[PageWord], rules: Rules) -> list[Table]:
    """The tables left and right of a column of prose, at the height of a table that was found across it."""
    near = [w for w in words if box[1] - _HEAD_SPACE < w.y < box[3]]
    sides = [w for w in near if w.x < prose[0]], [w for w in near if w.x > prose[2]]
    found = [table for side in sides if side for table in _tables(side, rules)]
    return [table for table in found if not _overlap(table.box, prose)]


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _tables(words: Sequence[PageWord], rules: Rules) -> list[Table]:
    rows = [_row(line) for line in text_lines(words)]
    runs = _runs(rows)
    prose = [box for run in runs for box in running_texts(rows, *run)]
    if prose:
        words = [w for w in words if not any(x0 <= w.x <= x1 and y0 <= w.y <= y1 for x0, y0, x1, y1 in prose)]
        rows = [_row(line) for line in text_lines(words)]
        runs = _runs(rows)
    tables: list[Table] = []
    end = 0
    for first, after in _joined_runs(rows, runs):
        table = _table(rows[first:after], rows[end:first], rules)
        if table is not None:
            tables.append(table)
            end = after
    return tables


def _row(line: Sequence[PageWord]) -> Row:
    return Row(pieces_of(line), min(w.box[1] for w in line), max(w.box[3] for w in line))


def _tabular(row: Row) -> bool:
    """Whether the row by itself looks like one of a table: several short pieces, or figures behind a label."""
    if len(row.pieces) < 2:
        return False
    figures = sum(is_number(p.text) for p in row.pieces[1:])
    if figures * 2 >= len(row.pieces) - 1:
        return True
    counts = [len(p.words) for p in row.pieces]
    is_short = sum(counts) <= _MEAN_WORDS * len(counts) or sorted(counts)[-2] <= _CELL_WORDS
    return len(counts) >= 3 and is_short


def _runs(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Stretches of tabular rows, with the lines in which their texts go on.

    Single rows of one short piece may be between them, as section heads are.
    """
    runs: list[tuple[int, int]] = []
    first: int | None = None
    last = end = 0
    for at, row in enumerate(rows):
        is_tabular = _tabular(row)
        goes_on = first is not None and not is_tabular and at == end and _carries_on(rows[first:at], row)
        if first is not None and (
            _is_far(rows, at) or not (is_tabular or goes_on or (at - last <= 2 and is_short(row)))
        ):
            runs.append((first, end))
            first = None
        elif goes_on:
            end = at + 1
        if is_tabular:
            first, last, end = at if first is None else first, at, at + 1
    if first is not None:
        runs.append((first, end))
    return [run for run in runs if sum(map(_tabular, rows[slice(*run)])) >= _MIN_ROWS]


def _is_far(rows: Sequence[Row], at: int) -> bool:
    """Whether the row is too far below the one above to belong to its table; evenly spaced rows may be far apart."""
    row, above = rows[at], rows[at - 1]
    gap, height = row.top - above.bottom, max(row.height, above.height)
    if gap <= _FAR_ROW * height:
        return False
    others = [rows[i].top - rows[i - 1].bottom for i in (at - 1, at + 1) if 0 < i < len(rows)]
    return gap > _FARTHEST_ROW * height or not any(abs(gap - one) < _EVEN * gap for one in others)


def _carries_on(above: Sequence[Row], row: Row) -> bool:
    """Whether each piece is close below and in a cell of one of the rows above that has text; figures don't wrap."""
    if row.top - above[-1].bottom > _WRAPPED_GAP * row.height or any(is_number(p.text) for p in row.pieces):
        return False
    if (
        len(row.pieces) == 1
        and row.pieces[0].x0 < above[0].pieces[1].x0
        and not row.pieces[0].text[0].islower()
    ):
        return False  # below a label may be a section, or a note below the table
    right = max(r.pieces[-1].x1 for r in above) + _HANG_PT
    return any(_fits(row, other, right) for other in above[-_MOST_WRAPPED:] if len(other.pieces) > 2)


def _fits(row: Row, other: Row, right: float) -> bool:
    ends = [*(cell.x0 for cell in other.pieces[1:]), right]
    cells = [
        (c.x0 - _EDGE_PT, end) for c, end in zip(other.pieces, ends, strict=True) if not is_number(c.text)
    ]
    return all(any(start <= p.x0 and p.x1 < end for start, end in cells) for p in row.pieces)


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
        len(row.pieces) == 1 and is_short(row) for row in between[1:-1]
    ):
        return False
    if any(below.top - row.bottom > _FAR_APART * row.height for row, below in pairwise(between)):
        return False
    cores = [[row.pieces for row in rows[slice(*one)] if _tabular(row)] for one in (run, other)]
    fewest, most = sorted(len(gutters_between(core)) for core in cores)
    return max(3, fewest) <= len(gutters_between([*cores[0], *cores[1]])) <= most


def _table(run: Sequence[Row], above: Sequence[Row], rules: Rules) -> Table | None:
    core = [row for row in run if _tabular(row)]
    columns = gutters_between([row.pieces for row in core])
    named = _rows_of_names(run, above, len(columns), rules)
    if named:
        return _table(run[named:], [*above, *run[:named]], rules)
    if not 2 <= len(columns) <= _MAX_COLUMNS:
        return None
    grid = [cells_of(row, columns) for row in run]
    if not are_aligned(core, columns):
        return None
    level = _level_rules(rules, columns)
    if not is_convincing(joined_rows(grid, run, columns, level), grid, run, columns, rules):
        return None
    ruled = find_head(rules, columns, [(row.top + row.bottom) / 2 for row in run])
    if ruled is not None and _is_head(ruled, [*above, *run], columns):
        return _with_ruled_head(ruled, run, above, columns, level)
    head = head_above(above, run[0], columns, rules)
    whole, rows = [*head, *run], [*(cells_of(row, columns) for row in head), *grid]
    size = head_size(rows, whole, columns)
    heads, spans = joined_head(rows[:size], whole[:size], whole[size:], columns)
    merged = heads + joined_rows(rows[size:], whole[size:], columns, level)
    right = max(columns[-1][1], *(row.pieces[-1].x1 for row in head)) if head else columns[-1][1]
    box = (columns[0][0] - 1, whole[0].top - 1, right + 1, run[-1].bottom + 1)
    body_top = whole[size].top if size < len(whole) else whole[0].top
    return Table(
        box,
        tuple(tuple(row) for row in merged),
        spans=tuple(spans),
        columns=tuple(columns),
        body_top=body_top,
    )


def _rows_of_names(run: Sequence[Row], above: Sequence[Row], count: int, rules: Rules) -> int:
    """How many rows, from the first, are a head that hides gutters: the rows below have more than `count` columns.

    Each of these columns has a name. Where the head is one row of single names, the run is a table with them as well.
    """
    after = next((at for at, row in enumerate(run) if any(is_number(p.text) for p in row.pieces[1:])), 0)
    body = [row for row in run[after:] if _tabular(row)]
    if not 0 < after <= _HEAD_ROWS or len(body) < _MIN_ROWS:
        return 0
    columns = gutters_between([row.pieces for row in body])
    are_named = all(map(any, zip(*(cells_of(row, columns) for row in run[:after]), strict=True)))
    if len(columns) <= count or not are_named or not are_aligned(body, columns):
        return 0
    ruled = find_head(rules, columns, [(row.top + row.bottom) / 2 for row in run[after:]])
    if ruled is not None and _is_head(ruled, [*above, *run], columns):
        return after
    head = head_above(run[:after], run[after], columns, rules)
    if len(head) < after:
        return 0
    core = [row for row in run if _tabular(row)]
    is_table = are_aligned(core, gutters_between([row.pieces for row in core]))
    return (
        after
        if is_table or joined_head([cells_of(row, columns) for row in head], head, body, columns)[1]
        else 0
    )


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
        and all(map(is_short, below[:first]))
    )


def _level_rules(rules: Rules, columns: Sequence[tuple[float, float]]) -> list[float]:
    """The heights of the rules that are as wide as the table."""
    left, right = columns[0][0] + _HANG_PT, columns[-1][1] - _HANG_PT
    return [h.at for h in rules.horizontal if h.start <= left and h.end >= right]


def _with_ruled_head(
    head: RuledHead,
    run: Sequence[Row],
    above: Sequence[Row],
    columns: Sequence[tuple[float, float]],
    level: Sequence[float],
) -> Table:
    """The table with all that is between the rules of its head, and all that is below them."""
    rows = [row for row in (*above, *run) if (row.top + row.bottom) / 2 > head.top]
    words = [word for row in rows for piece in row.pieces for word in piece.words if head.holds(word.y)]
    body = [row for row in rows if (row.top + row.bottom) / 2 > head.bottom]
    heads, spans = head_rows(head, columns, words)
    grid = joined_rows([cells_of(row, columns) for row in body], body, columns, level)
    left, right = (min(w.box[0] for w in words), max(w.box[2] for w in words)) if words else columns[0]
    box = (
        min(columns[0][0], left) - 1,
        head.top - 1,
        max(columns[-1][1], right) + 1,
        run[-1].bottom + 1,
    )
    rows_of_texts = tuple(tuple(row) for row in (*heads, *grid))
    return Table(box, rows_of_texts, spans=tuple(spans), columns=tuple(columns), body_top=head.bottom)
