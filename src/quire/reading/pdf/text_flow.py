"""Blocks of a page that is plain to read: upright lines, one below the other. Found from MuPDF's lines alone.

Most pages of reports, books and letters are such pages, and the layout reader is the dearest part of a page.

Prose set in two columns: where the gutter is, and the stretches of lines that are read one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from quire.domain.element import hull
from quire.reading.pdf.block_matching import FilledBlock
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.narrow_gutters import column_edge
from quire.reading.pdf.structure_tags import item_key
from quire.reading.pdf.text_lines import Box, TextLine, body_size

_MIN_LINES = 6
_MIN_GUTTER_PT = 8.0
_RAGGED_PT = 4.0
_MIDDLE = (0.3, 0.7)
_FILLED = 0.6
"""Half of a column's lines are at least this wide, in widths of the column; labels and cells are not."""


def stretches(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """The lines as stretches in reading order: the left column before the right one, between what spans both.

    Empty if the page is not plainly set in two columns of prose.
    """
    gutter = _gutter(lines)
    if gutter is None:
        return _narrow_stretches(lines)
    left = [line for line in lines if line.box[2] <= gutter]
    right = [line for line in lines if line.box[0] >= gutter]
    across = [line for line in lines if line.box[0] < gutter < line.box[2]]
    return _in_order(left, right, across)


def _narrow_stretches(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """The same for columns that nearly touch: what begins at the edge of the right column is right of it."""
    edge = column_edge([line.box for line in lines])
    if edge is None:
        return []
    right = [line for line in lines if line.box[0] >= edge - _RAGGED_PT]
    rest = [line for line in lines if line.box[0] < edge - _RAGGED_PT]
    left = [line for line in rest if line.box[2] <= edge + _RAGGED_PT]
    return _in_order(left, right, [line for line in rest if line.box[2] > edge + _RAGGED_PT])


def _in_order(
    left: Sequence[TextLine], right: Sequence[TextLine], crossing: Sequence[TextLine]
) -> list[list[TextLine]]:
    if not (_is_prose(left) and _is_prose(right)):
        return []
    across = sorted(crossing, key=lambda line: line.middle[1])
    if any(_goes_on(line, other) for line in across for other in (*left, *right)):
        return []
    found: list[list[TextLine]] = []
    above = float("-inf")
    for line in [*across, None]:
        below = line.middle[1] if line is not None else float("inf")
        sides = [[o for o in side if above <= o.middle[1] < below] for side in (left, right)]
        found.extend(side for side in sides if side)
        if line is not None:
            if found and not any(sides) and found[-1][-1] in across:
                found[-1].append(line)
            else:
                found.append([line])
        above = below
    return found


def _gutter(lines: Sequence[TextLine]) -> float | None:
    """The middle of the widest strip in the page's middle that only lines across both columns cross."""
    low, high = min(line.box[0] for line in lines), max(line.box[2] for line in lines)
    width = high - low
    if width <= 0:
        return None
    # Short lines don't count: a page number or a formula may be in the middle.
    strip = sorted((o.box[0], o.box[2]) for o in lines if 0.2 * width < o.box[2] - o.box[0] < 0.55 * width)
    best: tuple[float, float] | None = None
    reached = low
    for x0, x1 in strip:
        wide, middle = x0 - reached, (reached + x0) / 2
        central = _MIDDLE[0] * width < middle - low < _MIDDLE[1] * width
        if central and wide >= _MIN_GUTTER_PT and (best is None or wide > best[0]):
            best = (wide, middle)
        reached = max(reached, x1)
    return best[1] if best else None


def _goes_on(line: TextLine, other: TextLine) -> bool:
    """Whether both are in one paragraph: text flows around something, or lines of two columns were taken for one."""
    gap = max(other.box[1] - line.box[3], line.box[1] - other.box[3])
    return abs(line.size - other.size) <= 1 and gap < 0.4 * line.size


def _is_prose(lines: Sequence[TextLine]) -> bool:
    if len(lines) < _MIN_LINES:
        return False
    width = max(line.box[2] for line in lines) - min(line.box[0] for line in lines)
    widths = sorted(line.box[2] - line.box[0] for line in lines)
    return widths[len(widths) // 2] >= _FILLED * width


_SAME_ROW = 0.5
_WORD_GAP_EM = 1.2
_SAME_SIZE = 0.6
_INDENT_EM = 0.8
_FULL_GAP = 1.22
"""A step from line to line larger than this, in usual steps, is a gap between blocks."""
_USUAL_STEP_EM = 1.3
_ENOUGH_STEPS = 3
_HEADING_ROWS = 3
_LARGE = 1.15
_EDGE = 0.13
_SAME_RIGHT = 12.0
_MOST_PARTED, _FEWEST_WHOLE, _SAME_LEFT = 2, 8, 3.0
"""One or two rows of a page may have gaps, as a letter's head has. Rows with equally many parts are a table."""

_BULLET = re.compile(r"([•●▪■◦‣➢➤►❖◆○□✓✔∙·\uf0b7\uf0a7\uf0d8\uf076\uf0fc]|o(?=\s))\s*(?=\S)")
_DASH = re.compile(r"([-–—−*])\s+(?=\S)")
_ORDERED = re.compile(r"(\(?(?:\d{1,3}|[a-z]|[ivx]{1,5})[.)])\s+(?=\S)")
_MARK_ALONE = re.compile(
    r"[•●▪■◦‣➢➤►❖◆○□✓✔∙·o\uf0b7\uf0a7\uf0d8\uf076\uf0fc–—−-]|\(?(?:\d{1,3}|[a-z]|[ivx]{1,5})[.)]"
)
_SENTENCE_END = re.compile(r"[.!?:;][\"'”’)\]]*$")


@dataclass(slots=True)
class _Row:
    """What is at one height: one line, or the pieces that MuPDF took it for."""

    lines: list[TextLine]
    box: Box

    @property
    def size(self) -> float:
        return self.lines[-1].size

    @property
    def bold(self) -> bool:
        return all(line.bold for line in self.lines)

    @property
    def text(self) -> str:
        return " ".join([line.text for line in self.lines])


@dataclass(slots=True)
class _Run:
    """A block as it grows, and where its text begins: an item's lines hang below its first word."""

    rows: list[_Row]
    marker: str = ""
    ordered: bool = False
    text_x: float = 0.0

    def block(self, level: int) -> FilledBlock:
        box = hull([row.box for row in self.rows])
        lines = [line for row in self.rows for line in row.lines]
        is_heading = len(self.rows) <= _HEADING_ROWS and all(row.bold for row in self.rows)
        kind = "list_item" if self.marker else "heading" if is_heading else "paragraph"
        return FilledBlock(
            LayoutBlock(kind, box, marker=self.marker, ordered=self.ordered, level=level), lines
        )


@dataclass(frozen=True, slots=True)
class _Column:
    """What rows are judged by: the right margin, the usual step from line to line in sizes, the body's size."""

    right: float
    step: float
    body: float
    steps: dict[int, float]
    """The usual step of each size of type that has one of its own: notes and lists of names are often set wider."""
    items: frozenset[str]

    def is_apart(self, row: _Row, other: _Row) -> bool:
        """Whether more than the usual space is between the rows."""
        size = max(row.size, other.size)
        return other.box[3] - row.box[3] > _FULL_GAP * self.steps.get(round(size), self.step) * size

    def ended_early(self, row: _Row, following: _Row) -> bool:
        """Whether the first word of the following row would have fitted behind the row."""
        text = following.text
        first = text.split(" ", 1)[0]
        width = (following.box[2] - following.box[0]) * (len(first) + 1) / max(1, len(text))
        return row.box[2] + 1.3 * width + row.size < self.right


def flow(
    lines: Sequence[TextLine],
    tables: Sequence[Box],
    height: float,
    *,
    has_grid: bool = False,
    items: frozenset[str] = frozenset(),
) -> list[FilledBlock] | None:
    """The page's blocks from top to bottom; None where it takes more than that to find the order.

    `lines` are those outside the tables, whose boxes are `tables`. `has_grid` says that a grid is drawn on the page:
    then a row with gaps may be the only one of a table. `items` are keys of texts that are tagged as items of lists.
    """
    if any(not line.upright or line.mono or _is_beside(line, tables) for line in lines):
        return None
    rows = _rows(lines, height, may_part=not has_grid and not tables)
    if rows is not None:
        return _blocks(rows, items)
    filled: list[FilledBlock] = []
    for stretch in [] if tables else stretches(lines):
        rows = _rows(stretch, height)
        if rows is None:
            return None
        filled += _blocks(rows, items)
    return filled or None


def _blocks(rows: Sequence[_Row], items: frozenset[str]) -> list[FilledBlock]:
    right = _right_margin(rows)
    body = body_size(line for row in rows for line in row.lines)
    step, steps = _usual_steps(rows, right)
    column = _Column(right, step, body, steps, items)
    runs: list[_Run] = []
    for i, row in enumerate(rows):
        _add(runs, row, rows[i + 1] if i + 1 < len(rows) else None, column)
    return _with_levels(runs)


def _right_margin(rows: Sequence[_Row]) -> float:
    """Where lines end at the farthest; a line that ends farther than all others is no measure, as a wide footer."""
    rights = sorted((row.box[2] for row in rows), reverse=True)
    shared = (x for x, other in pairwise(rights) if x - other <= _SAME_RIGHT)
    return next(shared, rights[0] if rights else 0.0)


def _is_beside(line: TextLine, tables: Sequence[Box]) -> bool:
    y = line.middle[1]
    return any(box[1] < y < box[3] for box in tables)


def _rows(lines: Sequence[TextLine], height: float, may_part: bool = False) -> list[_Row] | None:
    """The lines in rows from top to bottom, or None if lines are side by side that are not one line.

    With `may_part` single rows may have gaps.
    """
    rows: list[_Row] = []
    for line in sorted(lines, key=lambda line: (line.box[1] + line.box[3], line.box[0])):
        box = line.box
        if rows:
            other = rows[-1].box
            shared = min(box[3], other[3]) - max(box[1], other[1])
            if shared > _SAME_ROW * min(box[3] - box[1], other[3] - other[1]):
                rows[-1].lines.append(line)
                rows[-1].box = hull([other, box])
                continue
        rows.append(_Row([line], box))
    result: list[_Row] = []
    parted: list[list[_Row]] = []
    for row in rows:
        parts = _parts(row)
        if parts is None:
            return None
        at_edge = row.box[3] < _EDGE * height or row.box[1] > (1 - _EDGE) * height
        if len(parts) > 1 and not at_edge:
            parted.append(parts)
        result.extend(parts)
    return result if not parted or (may_part and _are_single(parted, result)) else None


def _are_single(parted: Sequence[Sequence[_Row]], rows: Sequence[_Row]) -> bool:
    """Whether these rows with gaps are alone, as those of a letter's head: no column goes on below or above them."""
    if len(parted) > min(_MOST_PARTED, len(rows) / _FEWEST_WHOLE) or len(set(map(len, parted))) < len(parted):
        return False
    lefts = [part.box[0] for parts in parted for part in parts[1:]]
    return all(sum(abs(row.box[0] - left) < _SAME_LEFT for row in rows) == 1 for left in lefts)


def _parts(row: _Row) -> list[_Row] | None:
    """The row cut at wide gaps, but not behind the mark of an item; None if pieces overlap."""
    if len(row.lines) == 1:
        return [row]
    row.lines.sort(key=lambda line: line.box[0])
    parts = [_Row([row.lines[0]], row.lines[0].box)]
    for line in row.lines[1:]:
        last = parts[-1]
        gap = line.box[0] - last.box[2]
        if gap < -_SAME_SIZE * line.size:
            return None
        hangs = len(last.lines) == 1 and _MARK_ALONE.fullmatch(last.lines[0].text) and gap < 5 * line.size
        if gap < _WORD_GAP_EM * line.size or hangs:
            last.lines.append(line)
            last.box = hull([last.box, line.box])
        else:
            parts.append(_Row([line], line.box))
    return parts


def _usual_steps(rows: Sequence[_Row], right: float) -> tuple[float, dict[int, float]]:
    """The usual distance from line to line, in sizes of the type, as the lines behind full ones show it.

    Of the page, and of each size of type.
    """
    every: list[float] = []
    by_size: dict[int, list[float]] = {}
    for row, following in pairwise(rows):
        step = (following.box[3] - row.box[3]) / max(row.size, 1.0)
        if _same_type(row, following) and 0.7 < step < 3 and row.box[2] > right - 4 * row.size:
            every.append(step)
            by_size.setdefault(round(row.size), []).append(step)
    usual = _median(every) if len(every) >= _ENOUGH_STEPS else _USUAL_STEP_EM
    return usual, {size: _median(steps) for size, steps in by_size.items() if len(steps) >= _ENOUGH_STEPS}


def _median(steps: list[float]) -> float:
    return sorted(steps)[len(steps) // 2]


def _same_type(row: _Row, other: _Row) -> bool:
    return abs(row.size - other.size) <= _SAME_SIZE


def _add(runs: list[_Run], row: _Row, following: _Row | None, column: _Column) -> None:
    """Append the row to the block it continues, or begin one."""
    run = runs[-1] if runs else None
    marker, ordered = _marker(row, run, column)
    if marker:
        runs.append(_Run([row], marker, ordered, _text_x(row, marker)))
    elif run is not None and _continues(run, row, following, column):
        run.rows.append(row)
    else:
        runs.append(_Run([row]))


def _marker(row: _Row, run: _Run | None, column: _Column) -> tuple[str, bool]:
    """The mark with which the row begins an item, and whether it counts; an empty one if it begins none."""
    text = row.text
    found = _BULLET.match(text)
    if found:
        return found[1], False
    found = _DASH.match(text) or _ORDERED.match(text)
    is_ordered = found is not None and found.re is _ORDERED
    if not found or (row.bold and is_ordered) or row.size > _LARGE * column.body or text.isupper():
        return "", False  # a numbered heading is no item
    if run is not None and not run.marker and not (column.items and item_key(text) in column.items):
        # Inside a paragraph a dash or a figure at the start of a line is just where the line broke.
        last = run.rows[-1]
        if _same_type(last, row) and not (column.is_apart(last, row) or column.ended_early(last, row)):
            return "", False
    return found[1], is_ordered


def _text_x(row: _Row, marker: str) -> float:
    """Where the item's text begins, behind the mark."""
    first = row.lines[0]
    if len(row.lines) > 1 and first.text == marker:
        return row.lines[1].box[0]
    share = (len(marker) + 1) / max(1, len(first.text))
    return first.box[0] + min(share * (first.box[2] - first.box[0]), 1.5 * first.size)


def _continues(run: _Run, row: _Row, following: _Row | None, column: _Column) -> bool:
    """Whether the row goes on with the block; `following` is the row after it."""
    last = run.rows[-1]
    if not _same_type(last, row) or column.is_apart(last, row):
        return False
    goes_on = row.text[:1].islower() and not _SENTENCE_END.search(last.text)
    if run.marker:
        hangs = row.box[0] > run.text_x - _INDENT_EM * row.size
        return hangs or goes_on or not column.ended_early(last, row)
    if last.bold != row.bold and column.ended_early(last, row):
        return False
    hangs_as_heading = goes_on and last.bold and row.bold
    if hangs_as_heading or _is_centred(last, row):
        return True
    indented = row.box[0] > run.rows[-1].box[0] + _INDENT_EM * row.size
    if indented and (
        following is None or following.box[0] < row.box[0] - 0.5 * row.size or len(run.rows) > 1
    ):
        return False
    return not (
        _SENTENCE_END.search(last.text) and last.box[2] < column.right - 0.25 * (column.right - last.box[0])
    )


def _is_centred(row: _Row, other: _Row) -> bool:
    left, right = other.box[0] - row.box[0], row.box[2] - other.box[2]
    return abs(left) > 2 and abs(left - right) < 3


def _with_levels(runs: Sequence[_Run]) -> list[FilledBlock]:
    """The blocks; an item that is indented farther than the one above belongs to it."""
    filled: list[FilledBlock] = []
    indents: list[float] = []
    for run in runs:
        if run.marker:
            x, size = run.rows[0].box[0], run.rows[0].size
            while indents and indents[-1] > x + 0.5 * size:
                indents.pop()
            if not indents or x > indents[-1] + _INDENT_EM * size:
                indents.append(x)
        else:
            indents.clear()
        filled.append(run.block(max(0, len(indents) - 1)))
    return filled
