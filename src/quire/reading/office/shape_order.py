"""The order in which the shapes of a page are read, of which a file only tells in what order they were drawn.

The order of the file is kept but for two things that a page shows: what is above in the same column comes first, and
so does what is to the left in the same row. So cards that are drawn one after the other stay together, and so do shapes
that overlap. Shapes without a place keep theirs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

_MOST_SHAPES = 200
"""Every two shapes are compared."""
_LEAST_SHARED = 0.3
"""How much of the narrower of two shapes must be above the other, or beside it."""
_MOST_OVERLAP = 0.2
"""How far two shapes that follow each other may reach into each other, as a share of the smaller one."""
_LEFTWARD = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


class ShapeBox(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float


def reading_order(boxes: Sequence[ShapeBox | None], *, leftward: bool = False) -> list[int]:
    """The places of the shapes in the order in which they are read. `leftward` says that rows begin at the right."""
    count = len(boxes)
    if count < 2 or count > _MOST_SHAPES:
        return list(range(count))
    placed = [(at, box) for at, box in enumerate(boxes) if box is not None and _has_room(box)]
    followers: list[list[int]] = [[] for _ in boxes]
    awaited = [0] * count
    for at, box in placed:
        for other, its in placed:
            if other != at and _precedes(its, box, leftward=leftward):
                followers[other].append(at)
                awaited[at] += 1
    return _sorted(followers, awaited)


def reads_leftward(text: str) -> bool:
    """Whether most letters are those of Hebrew, Arabic and their kin."""
    count = len(_LEFTWARD.findall(text))
    return count > 0 and 2 * count > sum(map(str.isalpha, text))


def _sorted(followers: Sequence[Sequence[int]], awaited: list[int]) -> list[int]:
    """Places behind those that they follow, else in their order; last those that follow each other in a circle."""
    found: list[int] = []
    ready = [at for at, count in enumerate(awaited) if not count]
    while ready:
        place = heappop(ready)
        found.append(place)
        for one in followers[place]:
            awaited[one] -= 1
            if not awaited[one]:
                heappush(ready, one)
    return [*found, *(at for at, count in enumerate(awaited) if count)]


def _has_room(box: ShapeBox) -> bool:
    return box.right > box.left and box.bottom > box.top


def _precedes(first: ShapeBox, second: ShapeBox, *, leftward: bool) -> bool:
    across = (first.left, first.right), (second.left, second.right)
    down = (first.top, first.bottom), (second.top, second.bottom)
    if _ends_before(*down) and _shared(*across) >= _LEAST_SHARED:
        return True
    begins, ends = reversed(across) if leftward else across
    return _ends_before(begins, ends) and _shared(*down) >= _LEAST_SHARED


def _ends_before(one: tuple[float, float], other: tuple[float, float]) -> bool:
    smaller = min(one[1] - one[0], other[1] - other[0])
    return one[0] < other[0] and one[1] <= other[0] + _MOST_OVERLAP * smaller


def _shared(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The part that two stretches share, as a share of the smaller one."""
    smaller = min(one[1] - one[0], other[1] - other[0])
    return (min(one[1], other[1]) - max(one[0], other[0])) / smaller
