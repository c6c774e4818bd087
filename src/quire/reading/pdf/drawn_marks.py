"""Marks of items that are drawn and not written, as browsers draw those of lists: small shapes before lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from quire.domain.element import hull
from quire.reading.pdf.mirrored_lines import are_leftward, mirrored
from quire.reading.pdf.text_lines import Box, TextLine

_LEAST_PT, _MOST_PT = 1.0, 9.0
_LEAST_EM, _MOST_EM = 0.15, 0.7
"""Larger ones are boxes to tick, which say more than that an item begins."""
_LEAST_GAP_EM, _MOST_GAP_EM = 0.2, 2.5
_NARROW = 0.7
_OFF_MIDDLE = 0.3
_SAME_PT = 1.0
_FEWEST = 2
_MOST_SHAPES = 300
"""Of a page: more are the points of a plot or a map."""
BULLET = "•"


class _Shape(NamedTuple):
    """A shape as it is drawn: those of a list look alike, those of a chart's legend do not."""

    box: Box
    look: tuple[Any, ...]


def with_drawn_marks(
    lines: list[TextLine], drawings: Iterable[Mapping[str, Any]], turn: Callable[[Box], Box]
) -> tuple[list[TextLine], frozenset[Box]]:
    """The lines, those with a drawn mark before them beginning with a bullet, and the boxes of these marks.

    A single mark is an ornament. Marks are in one column, of one size and look, and their texts begin at one place.
    """
    small = _small(drawings)
    if not 0 < len(small) <= _MOST_SHAPES:
        return lines, frozenset()
    shapes = [_Shape(turn(one["rect"]), _look(one)) for one in small]
    if not are_leftward(lines):
        kept = _marks(lines, shapes)
    else:
        mirror = mirrored(lines)
        found = _marks(mirror.lines, [shape._replace(box=mirror.box(shape.box)) for shape in shapes])
        kept = {at: mirror.box(box) for at, box in found.items()}
    marked = [_marked(line, kept[at]) if at in kept else line for at, line in enumerate(lines)]
    return marked, frozenset(kept.values())


def _marks(lines: Sequence[TextLine], shapes: Iterable[_Shape]) -> dict[int, Box]:
    """The boxes of the marks, by the places of the lines that they are before."""
    marks: dict[int, _Shape] = {}
    for shape in shapes:
        at = _line_behind(shape.box, lines) if _is_compact(shape.box) else None
        if at is not None:
            marks[at] = shape
    return {at: mark.box for at, mark in marks.items() if _fellows(at, mark, marks, lines) >= _FEWEST}


def _small(drawings: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [
        drawing
        for drawing in drawings
        if _LEAST_PT <= (rect := drawing["rect"])[2] - rect[0] <= _MOST_PT
        and _LEAST_PT <= rect[3] - rect[1] <= _MOST_PT
    ]


def _look(drawing: Mapping[str, Any]) -> tuple[Any, ...]:
    return drawing["type"], drawing.get("fill"), drawing.get("color"), len(drawing.get("items", ()))


def _is_compact(box: Box) -> bool:
    width, height = box[2] - box[0], box[3] - box[1]
    return min(width, height) >= _NARROW * max(width, height)


def _line_behind(shape: Box, lines: Sequence[TextLine]) -> int | None:
    """The place of the line that the shape may be the mark of."""
    left, right, y = shape[0], shape[2], (shape[1] + shape[3]) / 2
    best: int | None = None
    for at, line in enumerate(lines):
        x0, y0, x1, y1 = line.box
        if not y0 < y < y1 or not line.upright:
            continue
        if x0 < right and x1 > left:
            return None  # inside of the line, as the bar of a fraction or an accent
        size = line.size
        is_near = _LEAST_GAP_EM * size <= x0 - right <= _MOST_GAP_EM * size
        is_size = _LEAST_EM * size <= right - left <= _MOST_EM * size
        if is_near and is_size and abs(y - line.middle[1]) <= _OFF_MIDDLE * (y1 - y0):
            best = at
    return best


def _fellows(at: int, mark: _Shape, marks: Mapping[int, _Shape], lines: Sequence[TextLine]) -> int:
    """How many marks are as this one, itself included."""
    left, _, right, _ = mark.box
    text = lines[at].box[0]
    return sum(
        other.look == mark.look
        and abs(other.box[0] - left) <= _SAME_PT
        and abs(other.box[2] - right) <= _SAME_PT
        and abs(lines[place].box[0] - text) <= _SAME_PT
        for place, other in marks.items()
    )


def _marked(line: TextLine, mark: Box) -> TextLine:
    return replace(line, text=f"{BULLET} {line.text}", box=hull([mark, line.box]))
