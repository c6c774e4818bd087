"""Lines that are read from right to left, with left and right changed: then the rules for other lines hold for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from quire.reading.pdf.leftward_order import LEFTWARD, is_mainly_leftward
from quire.reading.pdf.text_lines import Box, TextLine

_EDGE_PT = 3.0


class MirroredLines(NamedTuple):
    """The lines with left and right changed, in the same order, and the sum of a place and its mirrored place."""

    lines: list[TextLine]
    axis: float

    def box(self, box: Box) -> Box:
        """A box in the mirror, or one of the mirror on the page."""
        return self.axis - box[2], box[1], self.axis - box[0], box[3]


def are_leftward(lines: Sequence[TextLine]) -> bool:
    """Whether most letters of the lines are read from right to left."""
    if not any(not line.text.isascii() and LEFTWARD.search(line.text) for line in lines):
        return False
    return is_mainly_leftward("".join(line.text for line in lines))


def mirrored(lines: Sequence[TextLine]) -> MirroredLines:
    """The lines with left and right changed; they take up the same room."""
    axis = min(line.box[0] for line in lines) + max(line.box[2] for line in lines)
    mirror = MirroredLines([], axis)
    return MirroredLines([replace(line, box=mirror.box(line.box)) for line in lines], axis)


def set_from_left(lines: Sequence[TextLine]) -> MirroredLines:
    """The lines as if each began at one place on the left: what is free beside them is then on their right.

    Lines that begin at one edge on the right are only mirrored, so that an indent is none of their free room.
    """
    mirror = mirrored(lines)
    left = min(line.box[0] for line in mirror.lines)
    if 2 * sum(line.box[0] < left + _EDGE_PT for line in mirror.lines) >= len(lines):
        return mirror
    boxes = [(left, y0, left + x1 - x0, y1) for x0, y0, x1, y1 in (line.box for line in mirror.lines)]
    moved = [replace(line, box=box) for line, box in zip(mirror.lines, boxes, strict=True)]
    return MirroredLines(moved, mirror.axis)
