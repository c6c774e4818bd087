"""Measures the ink of lines that a reader has found by their boxes alone: where it begins and ends, how tall its type
is, and whether it goes over a gutter.

The careful reader's boxes are loose, on grainy pages all the more: they are higher or lower than the type, and one box
may hold lines of two columns. Means over the rows and columns of a box tell ink from grain where single pixels don't.

Weakness: a line of full width whose word space is exactly at the gutter of the columns next to it is cut there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quire.reading.ocr.ocr_words import Box

if TYPE_CHECKING:
    Pixels = Any  # numpy's arrays, without numpy being imported for their name

_X_HEIGHT, _CAP_HEIGHT = 0.5, 0.7
_MOSTLY = 0.75
_CORE, _BROKEN = 0.5, 0.12
_BLANK, _EMPTY = 0.3, 0.2
_LEAST_ROWS = 4
_SMALLEST, _LARGEST = 0.45, 1.15
"""The size of the type, of the height of a box. What is outside is no type, but a rule or two lines."""
_COLUMN_LINES = 5
_SAME_EDGE, _WIDE = 0.3, 2.0
_SPACE, _SLACK = 0.3, 0.06
_NEAR = 2.0
_LEFTMOST = 0.15


@dataclass(frozen=True, slots=True)
class LineInk:
    """The ends of a line's ink, the size of its type and the height of its baseline, in pixels."""

    left: int
    right: int
    size: float
    baseline: float


@dataclass(frozen=True, slots=True)
class Gutter:
    """The space before a column that begins at `right` and has lines from `top` to `bottom`."""

    right: float
    top: float
    bottom: float


def line_inks(darkness: Pixels, boxes: Sequence[Box], texts: Sequence[str]) -> list[LineInk | None]:
    """The ink of the line in each box; None where it does not stand out from its ground."""
    cores = [_measured(darkness, box) for box in boxes]
    shares = [_small_share(text) for text in texts]
    sure = sorted(
        core.size / (_X_HEIGHT if share >= _MOSTLY else _CAP_HEIGHT)
        for core, share in zip(cores, shares, strict=True)
        if core is not None and not 1 - _MOSTLY < share < _MOSTLY
    )
    usual = sure[len(sure) // 2] if sure else None
    found: list[LineInk | None] = []
    for core, share, box in zip(cores, shares, boxes, strict=True):
        ink = core and replace(core, size=_type_size(core.size, share, usual))
        is_type = ink and _SMALLEST <= ink.size / max(1, box[3] - box[1]) <= _LARGEST
        found.append(ink if is_type else None)
    return found


def _small_share(text: str) -> float:
    return sum(map(str.islower, text)) / max(1, sum(map(str.isalnum, text)))


def _type_size(core: float, share: float, usual: float | None) -> float:
    """The size of type whose small letters, or whose capitals, are so high; in mixed lines that of the page decides."""
    small, large = core / _X_HEIGHT, core / _CAP_HEIGHT
    if share >= _MOSTLY or share <= 1 - _MOSTLY or usual is None:
        return small if share >= 0.5 else large
    return min(small, large, key=lambda size: abs(size - usual))


def _measured(darkness: Pixels, box: Box) -> LineInk | None:
    """The ink in a box; `size` is the height of its core."""
    left, top, right, bottom = _inside(box, darkness)
    part = darkness[top:bottom, left:right]
    if part.shape[0] < _LEAST_ROWS or not part.shape[1]:
        return None
    first, after = _core(part)
    if after - first < _LEAST_ROWS - 1:
        return None
    columns = _columns(part, first, after)
    inked = (columns > _BLANK * _level(columns)).nonzero()[0]
    if not len(inked):
        return None
    return LineInk(left + int(inked[0]), left + int(inked[-1]) + 1, after - first, top + after)


def gutters(lines: Sequence[Box], width: int) -> list[Gutter]:
    """Where at least five lines begin below each other, and at least five others end before that.

    `lines` are boxes as wide as the ink.
    """
    if len(lines) < 2 * _COLUMN_LINES:
        return []
    heights = sorted(bottom - top for _, top, _, bottom in lines)
    usual = heights[len(heights) // 2]
    found: list[Gutter] = []
    starts = sorted(box for box in lines if box[0] > _LEFTMOST * width)
    while len(starts) >= _COLUMN_LINES:
        column = [box for box in starts if box[0] <= starts[0][0] + _SAME_EDGE * usual]
        starts = starts[len(column) :]
        if len(column) < _COLUMN_LINES:
            continue
        begins = column[len(column) // 2][0]
        top, bottom = min(box[1] for box in column), max(box[3] for box in column)
        before = sum(
            left < begins - _WIDE * usual and right <= begins and low > top and high < bottom
            for left, high, right, low in lines
        )
        if before >= _COLUMN_LINES:
            found.append(Gutter(begins, top, bottom))
    return found


def crossing(darkness: Pixels, box: Box, known: Sequence[Gutter]) -> int | None:
    """Where to cut a line that goes over a gutter and has no ink there; None for other lines."""
    height = box[3] - box[1]
    for gutter in known:
        goes_over = box[0] < gutter.right - _WIDE * height and box[2] > gutter.right + height
        is_beside = gutter.top - _NEAR * height < box[1] and box[3] < gutter.bottom + _NEAR * height
        if not goes_over or not is_beside:
            continue
        left, top, right, bottom = _inside(box, darkness)
        part = darkness[top:bottom, left:right]
        columns = _columns(part, *_core(part))
        begins = round(gutter.right - _SLACK * height) - left
        space = columns[max(0, begins - round(_SPACE * height)) : begins]
        if len(space) and float(space.mean()) <= _EMPTY * _level(columns):
            return left + begins - round(_SPACE * height / 2)
    return None


def _inside(box: Box, pixels: Pixels) -> Box:
    height, width = pixels.shape
    left, top, right, bottom = box
    return max(0, left), max(0, top), min(width, right), min(height, bottom)


def _above_ground(profile: Pixels) -> Pixels:
    import numpy as np

    return profile - float(np.percentile(profile, 10)) if len(profile) else profile


def _core(part: Pixels) -> tuple[float, float]:
    """From which to which row a line has at least half of the ink of its fullest rows: the height of small letters.

    A drawn rule above or below it is apart from it.
    """
    import numpy as np

    if not part.size:
        return 0.0, 0.0
    rows = _above_ground(part.mean(axis=1))
    least = _CORE * float(np.percentile(rows, 80))
    full = (rows >= least).nonzero()[0]
    if least <= 0 or not len(full):
        return 0.0, 0.0
    runs = np.split(full, (np.diff(full) > 1 + _BROKEN * len(rows)).nonzero()[0] + 1)
    run = max(runs, key=len)
    first, last = int(run[0]), int(run[-1])
    start, end = float(first), float(last + 1)
    if first and rows[first] > rows[first - 1]:
        start += 0.5 - float((rows[first] - least) / (rows[first] - rows[first - 1]))
    if last + 1 < len(rows) and rows[last] > rows[last + 1]:
        end += float((rows[last] - least) / (rows[last] - rows[last + 1])) - 0.5
    return max(0.0, start), min(float(len(rows)), end)


def _columns(part: Pixels, first: float, after: float) -> Pixels:
    """The ink of each column and its neighbours between two rows, above the ground."""
    import numpy as np

    top = round(first)
    between = part[top : max(round(after), top + 1)]
    if not between.size:
        return np.zeros(0)
    return _above_ground(np.convolve(between.mean(axis=0), (1 / 3, 1 / 3, 1 / 3), mode="same"))


def _level(columns: Pixels) -> float:
    import numpy as np

    return float(np.percentile(columns, 75)) if len(columns) else 0.0
