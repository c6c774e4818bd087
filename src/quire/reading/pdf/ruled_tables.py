"""Tables that are drawn: a grid of rules, cells that span several rows or columns included."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from quire.domain.element import CellSpan
from quire.reading.pdf.contents_list import ContentsEntry
from quire.reading.pdf.drawn_rules import Box, DrawnRule, Rules
from quire.reading.pdf.grid_rules import grids_of, index_between, places_of
from quire.reading.pdf.line_pieces import (
    PageWord,
    gutters_between,
    is_number,
    joined_words,
    lines_text,
    pieces_of,
    text_lines,
)
from quire.reading.pdf.prose_columns import runs_on
from quire.reading.pdf.row_groups import merged_rows, row_groups, table_line

_TOUCH = 3.5
_SAME = 4.0
_BESIDE = 40.0
_OPEN = 15.0
_MOST = 0.6
_MAX_SIDE = 120
_FEW_ROWS = 3
_FEW_LINES = 3


@dataclass(frozen=True, slots=True)
class Table:
    """A table found on the page: where, its rows with the head first, and prose that shares its frame.

    A contents list has `entries` instead of rows, a text with numbered lines `lines`, each with its box. Where it was
    found without a grid, it has its columns and the height at which the rows below its head begin.
    """

    box: Box
    rows: tuple[tuple[str, ...], ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    spans: tuple[CellSpan, ...] = ()
    entries: tuple[ContentsEntry, ...] = ()
    lines: tuple[tuple[str, Box], ...] = ()
    columns: tuple[tuple[float, float], ...] = ()
    body_top: float = 0.0


def could_be_grid(rules: Rules) -> bool:
    """Whether there are enough rules for a drawn table; most pages of prose have not."""
    return len(rules.horizontal) >= 2 and len(rules.vertical) >= 2


def find_grids(rules: Rules, words: Sequence[PageWord]) -> list[Table]:
    """Every drawn table with at least two rows and two columns of text."""
    tables: list[Table] = []
    for flat, tall in grids_of(rules, words):
        table = _grid(flat, tall, words)
        if table is not None and not any(_overlap(table.box, other.box) for other in tables):
            tables.append(table)
    return tables


def in_reading_order(tables: Sequence[Table]) -> list[Table]:
    """The tables from top to bottom; of those side by side the left one is first."""
    rows: list[list[Table]] = []
    for table in sorted(tables, key=lambda table: table.box[1]):
        if rows and table.box[1] < (rows[-1][0].box[1] + rows[-1][0].box[3]) / 2:
            rows[-1].append(table)
        else:
            rows.append([table])
    return [table for row in rows for table in sorted(row, key=lambda table: table.box[0])]


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _grid(flat: Sequence[DrawnRule], tall: Sequence[DrawnRule], words: Sequence[PageWord]) -> Table | None:
    xs, ys = places_of([v.at for v in tall]), places_of([h.at for h in flat])
    if not (2 <= len(xs) <= _MAX_SIDE and 3 <= len(ys) <= _MAX_SIDE):
        return None
    within = [w for w in words if ys[0] <= w.y < ys[-1]]
    drawn = (xs[0], xs[-1])
    xs = _subdivided(_widened(_with_open_sides(xs, ys, flat, within), ys, within), within)
    if len(xs) < 3:
        return None
    flat = [
        DrawnRule(
            h.at,
            xs[0] if h.start <= drawn[0] + _TOUCH else h.start,
            xs[-1] if h.end >= drawn[1] - _TOUCH else h.end,
        )
        for h in flat
    ]
    columns, rows = len(xs) - 1, len(ys) - 1
    owner = _merge_cells(flat, tall, xs, ys)
    inside: dict[int, list[PageWord]] = {}
    for word in within:
        column, row = index_between(xs, word.x), index_between(ys, word.y)
        if column is not None and row is not None:
            inside.setdefault(owner[row * columns + column], []).append(word)
    owner = _unmerged(owner, inside, xs)
    cells = [[""] * columns for _ in range(rows)]
    for cell, found in inside.items():
        cells[cell // columns][cell % columns] = lines_text(found)
    split: list[list[str]] = []
    starts: list[int] = []
    for row in range(rows):
        starts.append(len(split))
        split.extend(_split_row(row, columns, owner, inside) or [cells[row]])
    spans = _spans(owner, columns, [*starts, len(split)])
    return _checked((xs[0], ys[0], xs[-1], ys[-1]), split, inside, spans)


def _spans(owner: Sequence[int], columns: int, starts: Sequence[int]) -> list[CellSpan]:
    """The cells that cover several places; `starts` has the first row shown of each drawn row, and the end."""
    members: dict[int, list[int]] = {}
    for i, first in enumerate(owner):
        if i != first:
            members.setdefault(first, []).append(i)
    spans: list[CellSpan] = []
    for first, others in members.items():
        row, column = divmod(first, columns)
        last_row, last_column = max(others) // columns, max(i % columns for i in others)
        spans.append(
            CellSpan(starts[row], column, starts[last_row + 1] - starts[row], last_column + 1 - column)
        )
    return spans


def _kept_spans(
    spans: Sequence[CellSpan], rows: Sequence[int], columns: Sequence[int]
) -> tuple[CellSpan, ...]:
    """The spans among the rows and columns that are left, which are given by their former places."""
    kept: list[CellSpan] = []
    for span in spans:
        if span.row not in rows or span.column not in columns:
            continue
        height = sum(span.row <= row < span.row + span.row_span for row in rows)
        width = sum(span.column <= column < span.column + span.column_span for column in columns)
        if height > 1 or width > 1:
            kept.append(CellSpan(rows.index(span.row), columns.index(span.column), height, width))
    return tuple(kept)


def _with_open_sides(
    xs: list[float], ys: Sequence[float], flat: Sequence[DrawnRule], words: Sequence[PageWord]
) -> list[float]:
    """The grid with the columns beyond its outer upright rules, where most level rules go on to one end with words."""
    for outer, ends in ((xs[0], [h.start for h in flat]), (xs[-1], [h.end for h in flat])):
        end = sorted(ends)[len(ends) // 2]
        side = 1 if outer == xs[-1] else -1
        if side * (end - outer) < _OPEN or sum(abs(one - end) <= _SAME for one in ends) < _MOST * len(ends):
            continue
        low, high = sorted((outer, end))
        held = {index_between(ys, w.y) for w in words if low <= w.x <= high}
        if 2 * len(held) >= len(ys) - 1:
            xs = [end, *xs] if side < 0 else [*xs, end]
    return xs


def _widened(xs: list[float], ys: Sequence[float], words: Sequence[PageWord]) -> list[float]:
    """The grid with the open column beside it, if its rows go on there: many tables have no outer rules."""
    for side in (-1, 1):
        beside = [w for w in words if (w.box[2] < xs[0] + 2 if side < 0 else w.box[0] > xs[-1] - 2)]
        if not beside:
            continue
        edge = max(w.box[2] for w in beside) if side < 0 else min(w.box[0] for w in beside)
        held = {index_between(ys, w.y) for w in beside}
        lines = text_lines(beside)
        near = abs(edge - (xs[0] if side < 0 else xs[-1])) < _BESIDE
        # To the left are labels; to the right only figures are believed, the rest is a neighbour.
        if side > 0 and not _figures(lines):
            continue
        if runs_on([joined_words(line) for line in lines]):
            continue
        if near and len(held) >= 0.7 * (len(ys) - 1) and len(lines) <= 1.5 * (len(ys) - 1):
            low, high = min(w.box[0] for w in beside) - 2, max(w.box[2] for w in beside) + 2
            xs = [low, *xs] if side < 0 else [*xs, high]
    return xs


def _subdivided(xs: list[float], words: Sequence[PageWord]) -> list[float]:
    """The grid with edges added where a drawn column plainly holds several columns of figures."""
    result = [xs[0]]
    for left, right in pairwise(xs):
        held = [w for w in words if left <= w.x < right]
        rows = [pieces_of(line) for line in text_lines(held)]
        several = [row for row in rows if len(row) >= 2]
        if len(several) >= 3 and len(several) >= 0.6 * len(rows):
            figures = [is_number(p.text) for row in several for p in row[1:]]
            columns = gutters_between(several)
            if 2 <= len(columns) <= 12 and sum(figures) >= 0.6 * len(figures):
                result += [(a[1] + b[0]) / 2 for a, b in pairwise(columns)]
        result.append(right)
    return result


def _unmerged(owner: Sequence[int], inside: dict[int, list[PageWord]], xs: Sequence[float]) -> list[int]:
    """Cells taken apart again whose text is in the columns all the same: shaded rows have no inner rules."""
    columns = len(xs) - 1
    result = list(owner)
    parts: dict[int, list[int]] = {}
    for i, o in enumerate(owner):
        parts.setdefault(o, []).append(i)
    for cell in list(inside):
        members = parts[cell]
        if len(members) < 2 or any(i // columns != cell // columns for i in members):
            continue
        pieces = [p for line in text_lines(inside[cell]) for p in pieces_of(line)]
        places = [index_between(xs, (p.x0 + p.x1) / 2) for p in pieces]
        fits = all(
            at is not None and xs[at] - 3 <= p.x0 and p.x1 <= xs[at + 1] + 3
            for p, at in zip(pieces, places, strict=True)
        )
        if not fits or len(set(places)) < 2:
            continue
        del inside[cell]
        for i in members:
            result[i] = i
        for piece, at in zip(pieces, places, strict=True):
            inside.setdefault(cell // columns * columns + (at or 0), []).extend(piece.words)
    return result


def _checked(
    box: Box, rows: list[list[str]], inside: dict[int, list[PageWord]], spans: Sequence[CellSpan]
) -> Table | None:
    """The table without empty rows and columns, if it still is one; a frame around prose is none."""
    places = [i for i, row in enumerate(rows) if any(row)]
    rows = [rows[i] for i in places]
    used = [i for i in range(len(rows[0]) if rows else 0) if any(row[i] for row in rows)]
    rows = [[row[i] for i in used] for row in rows]
    before: list[str] = []
    after: list[str] = []
    while len(rows) > 2 and _is_note(rows[0]):
        before.append("".join(rows.pop(0)))
        del places[0]
    while len(rows) > 2 and _is_note(rows[-1]):
        after.insert(0, "".join(rows.pop()))
        del places[-1]
    filled = sum(bool(cell) for row in rows for cell in row)
    full = sum(sum(map(bool, row)) >= 2 for row in rows)
    if len(rows) < 2 or len(used) < 2 or filled < 4 or full < 2:
        return None
    longest = max(sum(len(w.text) for w in found) for found in inside.values())
    total = sum(len(w.text) for found in inside.values() for w in found)
    if longest > 0.7 * total and longest > 200:
        return None
    if len(used) == 2 and longest > 0.5 * total and longest > 600:
        return None
    if filled < 0.25 * len(rows) * len(used):
        return None
    kept = _kept_spans(spans, places, used)
    return Table(box, tuple(tuple(row) for row in rows), tuple(before), tuple(after), kept)


def _is_note(row: Sequence[str]) -> bool:
    """A caption or a remark set in a row of its own."""
    return sum(map(bool, row)) == 1 and max(map(len, row)) > 60


def _merge_cells(
    flat: Sequence[DrawnRule], tall: Sequence[DrawnRule], xs: Sequence[float], ys: Sequence[float]
) -> list[int]:
    """For every elementary cell the first cell of those it forms one with: no rule is drawn between them."""
    columns, rows = len(xs) - 1, len(ys) - 1
    owner = list(range(columns * rows))

    def root(i: int) -> int:
        while owner[i] != i:
            i = owner[i]
        return i

    beside = [_drawn_along([v for v in tall if abs(v.at - x) <= _SAME], ys) for x in xs]
    below = [_drawn_along([h for h in flat if abs(h.at - y) <= _SAME], xs) for y in ys]
    for row in range(rows):
        for column in range(columns):
            here = row * columns + column
            if column + 1 < columns and not beside[column + 1][row]:
                a, b = sorted((root(here), root(here + 1)))
                owner[b] = a
            if row + 1 < rows and not below[row + 1][column]:
                a, b = sorted((root(here), root(here + columns)))
                owner[b] = a
    return [root(i) for i in range(columns * rows)]


def _drawn_along(rules: Sequence[DrawnRule], edges: Sequence[float]) -> list[bool]:
    """For each stretch between two edges, whether one of the rules is drawn at its middle."""
    middles = [(start + end) / 2 for start, end in pairwise(edges)]
    drawn = [False] * len(middles)
    for rule in rules:
        first, after = bisect_left(middles, rule.start - _TOUCH), bisect_right(middles, rule.end + _TOUCH)
        drawn[first:after] = [True] * (after - first)
    return drawn


def _split_row(
    row: int, columns: int, owner: Sequence[int], inside: dict[int, list[PageWord]]
) -> list[list[str]] | None:
    """The rows that are in one drawn row, when only the head and the frame are ruled: by space, or by figures."""
    own = [owner[row * columns + c] for c in range(columns)]
    if len(set(own)) < 2 or any(o // columns != row for o in own):
        return None
    lines = {c: text_lines(inside.get(o, ())) for c, o in enumerate(own) if o % columns == c}
    levels: list[float] = []
    for y in sorted(line[0].y for found in lines.values() for line in found):
        if not levels or y - levels[-1] > 4:
            levels.append(y)
    if len(levels) < _FEW_LINES and all(len(found) < _FEW_LINES for found in lines.values()):
        return None
    result = [[""] * columns for _ in levels]
    heights = [0.0] * len(levels)
    for column, found in lines.items():
        for line in found:
            at = min(range(len(levels)), key=lambda i: abs(levels[i] - line[0].y))
            result[at][column] = (result[at][column] + " " + joined_words(line)).strip()
            heights[at] = max(heights[at], line[0].box[3] - line[0].box[1])
    groups = row_groups(
        [
            table_line(y - h / 2, y + h / 2, cells)
            for y, h, cells in zip(levels, heights, result, strict=True)
        ],
        (),
    )
    if groups is not None and len(owner) <= _FEW_ROWS * columns:  # rules between rows would divide these too
        return merged_rows(result, groups)
    if not any(len(found) >= _FEW_LINES and _figures(found) for found in lines.values()):
        return None
    return _with_whole_labels(result)


def _with_whole_labels(rows: list[list[str]]) -> list[list[str]]:
    """The rows; one that only has a label which goes on in small letters belongs to the row above."""
    whole: list[list[str]] = []
    for row in rows:
        label, *values = row
        if whole and whole[-1][0] and label[:1].islower() and not any(values):
            whole[-1][0] += f" {label}"
        else:
            whole.append(row)
    return whole


def _figures(lines: Sequence[Sequence[PageWord]]) -> bool:
    return sum(is_number(" ".join(w.text for w in line)) for line in lines) >= 0.7 * len(lines)
