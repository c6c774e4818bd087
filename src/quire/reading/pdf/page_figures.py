"""Finds the figures of a page: pictures, and drawings that are more than rules, frames and shading."""

from __future__ import annotations

from collections.abc import Sequence

from quire.domain.element import Box, hull

_SHARE = 0.005
_SIDE_PT = 24.0
_BACKGROUND = 0.85
_TOUCH_PT = 3.0
_REACH_PT = 12.0
_MIN_SHAPES = 12
_CHART_SHARE = 0.02
_MOST_BOXES = 400


def figure_boxes(images: Sequence[Box], shapes: Sequence[Box], size: tuple[float, float]) -> list[Box]:
    """The boxes of figures from top to bottom. `shapes` are drawn paths that hold no text.

    Strips of one picture are one figure. A picture behind the whole page is its background, a small one an ornament.
    """
    width, height = size
    area = max(1.0, width * height)
    page = (0.0, 0.0, width, height)
    found: list[Box] = []
    for group in _clusters([_clipped(box, page) for box in images[:_MOST_BOXES]], _TOUCH_PT):
        box = hull(group)
        if _is_visible(box) and _SHARE * area <= _area(box) <= _BACKGROUND * area:
            found.append(box)
    if len(shapes) >= _MIN_SHAPES:
        for group in _clusters([_clipped(box, page) for box in shapes[:_MOST_BOXES]], _REACH_PT):
            box = hull(group)
            large = _is_visible(box) and _CHART_SHARE * area <= _area(box) <= _BACKGROUND * area
            if len(group) >= _MIN_SHAPES and large and not any(_meet(box, other, 0.0) for other in found):
                found.append(box)
    return sorted(found, key=lambda box: (box[1], box[0]))


def _clusters(boxes: Sequence[Box], reach: float) -> list[list[Box]]:
    """Boxes that are closer than `reach` to one another, directly or through others."""
    groups: list[tuple[Box, list[Box]]] = []
    for box in boxes:
        if not (box[0] <= box[2] and box[1] <= box[3]):
            continue  # outside the page, or not a number
        joined, rest = [box], []
        around = box
        for outer, members in groups:
            if _meet(outer, box, reach):
                joined += members
                around = hull([around, outer])
            else:
                rest.append((outer, members))
        groups = [*rest, (around, joined)]
    return [members for _, members in groups]


def _meet(box: Box, other: Box, reach: float) -> bool:
    return (
        box[0] <= other[2] + reach
        and other[0] <= box[2] + reach
        and box[1] <= other[3] + reach
        and other[1] <= box[3] + reach
    )


def _clipped(box: Box, page: Box) -> Box:
    return max(box[0], page[0]), max(box[1], page[1]), min(box[2], page[2]), min(box[3], page[3])


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _is_visible(box: Box) -> bool:
    return min(box[2] - box[0], box[3] - box[1]) >= _SIDE_PT
