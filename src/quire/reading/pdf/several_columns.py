"""Prose set in three columns or more, as in newsletters: where the columns begin, and the stretches that are read one
after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from quire.reading.pdf.text_lines import TextLine

_LEAST_COLUMNS, _LEAST_LINES = 3, 4
_LEAST_WIDTH_PT, _LEAST_STEP_PT = 50.0, 60.0
_SAME_EDGE_PT, _RAGGED_PT, _TOUCH_PT = 1.5, 4.0, 1.0
_MOST_CROSSING = 0.34
"""Lines over an edge, for each that begins at it: heads of the page, and a few lines above or below the columns."""
_SAME_WIDTH = 0.15
_FILLED = 0.6
_GOING_ON = 0.4
"""Of the lines of prose at least so many begin in lower case; cells and entries begin anew."""
_MOST_LINES = 1000
_HEAD_LINES = 3
_SAME_TOP_PT = 3.0
_ROW_GAP_EM = 0.5
_LARGER = 1.1


def column_stretches(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """The lines as stretches in reading order: column after column, between what spans several of them.

    Empty if the page is not plainly set in three columns of prose or more, all of one width.
    """
    if not _LEAST_COLUMNS * _LEAST_LINES <= len(lines) <= _MOST_LINES:
        return []
    edges = _edges(lines)
    if len(edges) < _LEAST_COLUMNS:
        return []
    columns, across = _in_columns(lines, edges)
    if not all(map(_is_prose, columns)) or not _goes_on_in_lines(columns):
        return []
    across += _heads(columns)
    if any(_is_level(line, other) for line in across for column in columns for other in column):
        return []
    found: list[list[TextLine]] = []
    for kind, parts in _bands(columns, across):
        rows = [parts] if kind == "across" else _rows_of_cards(parts)
        if not rows:
            return []
        found += [part for row in rows for part in row if part]
    return found


def _edges(lines: Sequence[TextLine]) -> list[float]:
    """Where columns begin: many lines do, and hardly any goes over that place. None if they are not of one width."""
    wide = [line.box for line in lines if line.box[2] - line.box[0] >= _LEAST_WIDTH_PT]
    found: list[float] = []
    begun: list[float] = []
    for start in [*sorted(box[0] for box in wide), float("inf")]:
        if begun and start - begun[0] > _SAME_EDGE_PT:
            if len(begun) >= _LEAST_LINES and (not found or begun[0] - found[-1] >= _LEAST_STEP_PT):
                edge = begun[0]
                crossing = sum(box[0] < edge - _RAGGED_PT and box[2] > edge + _RAGGED_PT for box in wide)
                if crossing <= _MOST_CROSSING * len(begun):
                    found.append(edge)
            begun = []
        begun.append(start)
    steps = [right - left for left, right in pairwise(found)]
    return found if steps and max(steps) - min(steps) <= _SAME_WIDTH * max(steps) else []


def _in_columns(
    lines: Sequence[TextLine], edges: Sequence[float]
) -> tuple[list[list[TextLine]], list[TextLine]]:
    """The lines of each column from top to bottom, and those that span several."""
    columns: list[list[TextLine]] = [[] for _ in edges]
    across: list[TextLine] = []
    for line in sorted(lines, key=lambda line: line.middle[1]):
        at = bisect_right(edges, line.box[0] + _RAGGED_PT) - 1
        is_over = at + 1 < len(edges) and line.box[2] > edges[at + 1] - _TOUCH_PT
        (across if at < 0 or is_over else columns[at]).append(line)
    return columns, across


def _is_prose(column: Sequence[TextLine]) -> bool:
    """Whether most of its lines fill it."""
    if len(column) < _LEAST_LINES:
        return False
    width = max(line.box[2] for line in column) - min(line.box[0] for line in column)
    return median(line.box[2] - line.box[0] for line in column) >= _FILLED * width


def _goes_on_in_lines(columns: Sequence[Sequence[TextLine]]) -> bool:
    """Whether sentences go on from line to line in every column."""
    return all(sum(line.text[0].islower() for line in one) >= _GOING_ON * len(one) for one in columns)


def _heads(columns: Sequence[list[TextLine]]) -> list[TextLine]:
    """Takes out of one column the few lines that are above all others: they are heads of the page."""
    tops = [column[0].box[1] for column in columns]
    first = min(range(len(tops)), key=tops.__getitem__)
    others = min(top for at, top in enumerate(tops) if at != first)
    column = columns[first]
    count = sum(line.box[3] <= others for line in column)
    if not 0 < count <= _HEAD_LINES or count == len(column):
        return []
    last, below = column[count - 1], column[count]
    if below.box[1] - last.box[3] < _ROW_GAP_EM * last.size:
        return []
    heads, column[:count] = column[:count], []
    return heads


def _is_level(line: TextLine, other: TextLine) -> bool:
    """Whether they are beside each other: then text flows around something, and more than columns is needed."""
    (_, top, _, bottom), (_, y0, _, y1) = line.box, other.box
    return 2 * (min(bottom, y1) - max(top, y0)) > min(bottom - top, y1 - y0)


def _bands(
    columns: Sequence[Sequence[TextLine]], across: Sequence[TextLine]
) -> list[tuple[str, list[list[TextLine]]]]:
    """What is between lines that span columns, as its columns, and these lines, from top to bottom."""
    bands: list[tuple[str, list[list[TextLine]]]] = []
    above = float("-inf")
    for line in [*sorted(across, key=lambda line: line.middle[1]), None]:
        below = line.middle[1] if line is not None else float("inf")
        parts = [[one for one in column if above <= one.middle[1] < below] for column in columns]
        if any(parts):
            bands.append(("columns", parts))
        if line is not None:
            if bands and bands[-1][0] == "across":
                bands[-1][1][0].append(line)
            else:
                bands.append(("across", [[line]]))
        above = below
    return bands


def _rows_of_cards(parts: list[list[TextLine]]) -> list[list[list[TextLine]]]:
    """The columns of a band, cut where each begins anew at one height with a heading: these are cards side by side.

    Empty where they begin anew so without headings: that may be the row of a table.
    """
    tops = [line.box[1] for part in parts for line in part]
    lows = sorted(line.box[3] for part in parts for line in part)
    cuts: list[float] = []
    for top in sorted(set(tops)):
        above = lows[: bisect_right(lows, top + _SAME_TOP_PT)]
        is_gap = bool(above) and len(above) == sum(y < top for y in tops)
        if not is_gap or any(cut > top - _SAME_TOP_PT for cut in cuts):
            continue
        firsts = [next((line for line in part if line.box[1] >= top), None) for part in parts]
        begun = [line for line in firsts if line is not None and line.box[1] - top <= _SAME_TOP_PT]
        if len(begun) < len(parts) or top - above[-1] < _ROW_GAP_EM * begun[0].size:
            continue
        size = median(line.size for part in parts for line in part)
        if not all(line.bold or line.size > _LARGER * size for line in begun):
            return []
        cuts.append(top)
    bounds = [float("-inf"), *cuts, float("inf")]
    return [
        [[line for line in part if low <= line.box[1] < high] for part in parts]
        for low, high in pairwise(bounds)
    ]
