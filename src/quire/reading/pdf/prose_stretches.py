"""Prose set in two columns: where the gutter is, and the stretches of lines that are read one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from quire.reading.pdf.narrow_gutters import column_edge
from quire.reading.pdf.text_lines import TextLine, body_size
from quire.reading.pdf.text_rows import labels_of, parted_rows

_MIN_LINES = 6
_MIN_GUTTER_PT = 8.0
_RAGGED_PT = 4.0
_MIDDLE = (0.3, 0.7)
_LARGER = 1.1
_LABEL = 0.5
_HEADING_LINES = 2
_HEAD_GAP = 1.5
_MOST_PAIRS = 100_000
"""Lines across both columns are compared with all others."""
_FILLED = 0.6
"""Half of a column's lines are at least this wide, in widths of the column; labels and cells are not."""


def stretches(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """The lines as stretches in reading order: the left column before the right one, between what spans both.

    Empty if the page is not plainly set in two columns of prose.
    """
    gutter = _gutter(lines)
    if gutter is None:
        return _narrow_stretches(lines)
    apart = _apart(lines)
    kept = [line for line in lines if line not in apart] if apart else lines
    left = [line for line in kept if line.box[2] <= gutter]
    right = [line for line in kept if line.box[0] >= gutter]
    across = [line for line in kept if line.box[0] < gutter < line.box[2]]
    return _in_order(left, right, [*across, *apart])


def _apart(lines: Sequence[TextLine]) -> list[TextLine]:
    """A line above or below all others, with the space of a line between: a head or a foot is of neither column."""
    if len(lines) < _MIN_LINES:
        return []
    by_top = sorted(lines, key=lambda line: line.box[1])
    by_bottom = sorted(lines, key=lambda line: line.box[3])
    first, last = by_top[0], by_bottom[-1]
    second = by_top[1]
    found = [first] if second.box[1] - first.box[3] >= _HEAD_GAP * max(first.size, second.size) else []
    return [*found, last] if last.box[1] - by_bottom[-2].box[3] >= last.size else found


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
    if min(len(left), len(right)) < _MIN_LINES:
        return []
    across = sorted(crossing, key=lambda line: line.middle[1])
    if any(_goes_on(line, other) for line in across for other in (*left, *right)):
        return []
    left, right, across = _with_labels(left, right, across)
    if not (_is_prose(left) and _is_prose(right)):
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


def _with_labels(
    left: Sequence[TextLine], right: Sequence[TextLine], across: list[TextLine]
) -> tuple[Sequence[TextLine], Sequence[TextLine], list[TextLine]]:
    """The same, with what belongs to lines across both columns among these: labels beside them, and a heading.

    The heading of what is below the columns begins where the left one does, but is below all of the right one.
    """
    if not 0 < len(across) * (len(left) + len(right)) <= _MOST_PAIRS:
        return left, right, across
    widest = max((line.box[2] - line.box[0] for line in left), default=0.0)
    short = [o for o in left if o.box[2] - o.box[0] < _LABEL * widest and not o.text[0].islower()]
    beside = [line for line in short if any(_is_level(line, other) for other in across)]
    usual = body_size(left)
    for line in across:
        ended = [o for o in (*left, *right) if o.box[3] <= line.box[1] + _RAGGED_PT]
        for other in sorted(ended, key=lambda o: -o.box[3])[:_HEADING_LINES]:
            if not (other.bold or other.size > _LARGER * usual):
                break
            if other in left:
                beside.append(other)
    if not beside:
        return left, right, across
    gone = set(map(id, beside))
    left, right = ([line for line in side if id(line) not in gone] for side in (left, right))
    whole = sorted([*across, *{id(line): line for line in beside}.values()], key=lambda line: line.middle[1])
    return left, right, whole


def _is_level(line: TextLine, other: TextLine) -> bool:
    (_, top, _, bottom), (_, y0, _, y1) = line.box, other.box
    return 2 * (min(bottom, y1) - max(top, y0)) > min(bottom - top, y1 - y0)


def _gutter(lines: Sequence[TextLine]) -> float | None:
    """The middle of the widest strip in the page's middle that only lines across both columns cross."""
    low, high = min(line.box[0] for line in lines), max(line.box[2] for line in lines)
    width = high - low
    if width <= 0:
        return None
    # Short lines don't count: a page number or a formula may be in the middle.
    strip = sorted((o.box[0], o.box[2]) for o in lines if 0.2 * width < o.box[2] - o.box[0] < 0.55 * width)
    best: tuple[float, float, float] | None = None
    reached = low
    for x0, x1 in strip:
        wide, middle = x0 - reached, (reached + x0) / 2
        central = _MIDDLE[0] * width < middle - low < _MIDDLE[1] * width
        if central and wide >= _MIN_GUTTER_PT and (best is None or wide > best[0]):
            best = (wide, reached, x0)
        reached = max(reached, x1)
    if best is None:
        return None
    _, left, right = best
    return (left + _first_label(lines, left, right)) / 2


def _first_label(lines: Sequence[TextLine], left: float, right: float) -> float:
    """Where the labels of the right column begin, if there are some in the strip, else the strip's right edge."""
    inside = [line for line in lines if left < line.box[0] and line.box[2] < right]
    return min((line.box[0] for line in labels_of(inside)), default=right)


def _goes_on(line: TextLine, other: TextLine) -> bool:
    """Whether both are in one paragraph: text flows around something, or lines of two columns were taken for one."""
    gap = max(other.box[1] - line.box[3], line.box[1] - other.box[3])
    return abs(line.size - other.size) <= 1 and gap < 0.4 * line.size


def _is_prose(lines: Sequence[TextLine]) -> bool:
    if len(lines) < _MIN_LINES:
        return False
    boxes = [line.box for line in lines]
    if labels_of(
        lines
    ):  # a label is a part of its line, and so are words that are apart because that is stretched
        boxes = [part.box for parts in parted_rows(lines, gap_em=inf) or () for part in parts] or boxes
    width = max(box[2] for box in boxes) - min(box[0] for box in boxes)
    widths = sorted(box[2] - box[0] for box in boxes)
    return widths[len(widths) // 2] >= _FILLED * width
