"""Which way up a page is read: as viewers show it, or, if nearly all its text runs another way, along the text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Box = tuple[float, float, float, float]

_NEARLY_ALL = 0.9
_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class View:
    """A page turned clockwise by `rotation` degrees (0, 90, 180, 270), and its size then.

    `turn` brings a box of the page as it is stored, in which MuPDF answers, to the page as read.
    """

    rotation: int
    width: float
    height: float
    turn: Callable[[Box], Box]

    @property
    def size(self) -> tuple[float, float]:
        return self.width, self.height


def view_of(page: Any, content: dict[str, Any]) -> View:
    """The view of MuPDF's `page` whose text is `content`, MuPDF's dictionary of it."""
    shown = int(page.rotation)
    box = page.rect
    width, height = float(box.width), float(box.height)
    rotation = _rotation_of(content, shown)
    if (rotation - shown) % 180:
        width, height = height, width
    return View(rotation, width, height, _turner(rotation, width, height))


def _rotation_of(content: dict[str, Any], shown: int) -> int:
    """The rotation under which nearly all characters run from left to right; `shown` if there is none."""
    directions = {line["dir"] for block in content["blocks"] for line in block.get("lines", ())}
    if len(directions) == 1:  # most pages; then the weights don't matter
        only = _rotation_for(directions.pop())
        return shown if only is None else only
    weights: dict[int | None, int] = {}
    for block in content["blocks"]:
        for line in block.get("lines", ()):
            along = _rotation_for(line["dir"])
            weights[along] = weights.get(along, 0) + sum(len(span["text"]) for span in line["spans"])
    if not weights:
        return shown
    most = max(weights, key=lambda along: weights[along])
    return most if most is not None and weights[most] >= _NEARLY_ALL * sum(weights.values()) else shown


def _rotation_for(direction: tuple[float, float]) -> int | None:
    x, y = direction
    if abs(y) < _LEVEL:
        return 0 if x > 0 else 180
    if abs(x) < _LEVEL:
        return 90 if y < 0 else 270
    return None


def _turner(rotation: int, width: float, height: float) -> Callable[[Box], Box]:
    """`width` and `height` are those of the page as read."""
    if rotation == 90:
        return lambda box: (width - box[3], box[0], width - box[1], box[2])
    if rotation == 180:
        return lambda box: (width - box[2], height - box[3], width - box[0], height - box[1])
    if rotation == 270:
        return lambda box: (box[1], height - box[2], box[3], height - box[0])
    return lambda box: box
