"""Drawn lines of a page: horizontal and vertical rules, and the edges of boxes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Box = tuple[float, float, float, float]

_THIN = 2.5
_LEVEL = 1.0
_SNAP = 2.0
_GAP = 3.0
_MIN_LENGTH = 6.0
_SLANTED = 5.0
"""Small rounded corners and ticks are smaller."""
_MARK_SIZE = 16.0
"""A check mark or a cross is not larger than this."""
_ITEMS_LOOKED_AT = 8_000
_AREAS_COMPARED = 48
"""How many of the areas drawn before are compared: the shading of a paragraph is drawn right after its cell's."""
_SLACK = 0.7
_CHART_BARS = 3
_BARS_LOOKED_AT = 200


@dataclass(frozen=True, slots=True)
class DrawnRule:
    """A rule at `at` (y of a horizontal, x of a vertical one) from `start` to `end`."""

    at: float
    start: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of a page, pieces of one line joined, and the bars of its charts."""

    horizontal: tuple[DrawnRule, ...] = ()
    vertical: tuple[DrawnRule, ...] = ()
    bars: tuple[Box, ...] = ()


NO_RULES = Rules()


def crosses_bars(box: Box, rules: Rules) -> bool:
    """Whether bars of a chart reach into the box: what is in there labels the chart."""
    x0, y0, x1, y1 = box
    return sum(b[0] < x1 and x0 < b[2] and b[1] < y1 and y0 < b[3] for b in rules.bars) >= _CHART_BARS


def _bars(areas: Sequence[Box]) -> tuple[Box, ...]:
    """Areas of one width and of several heights on one base line; cells of a row are as high as each other."""
    rows: dict[tuple[int, int], list[Box]] = {}
    for box in areas:
        if min(box[2] - box[0], box[3] - box[1]) > _THIN:
            rows.setdefault((round(box[3]), round(box[2] - box[0])), []).append(box)
    found = [
        row for row in rows.values() if len({round((y1 - y0) / 2) for _, y0, _, y1 in row}) >= _CHART_BARS
    ]
    return tuple(box for row in found for box in row)


def slanted_strokes(drawings: Iterable[dict[str, Any]], turn: Callable[[Box], Box]) -> list[Box]:
    """The boxes of drawn lines and curves that are neither level nor upright: charts have them, tables don't.

    Rounded corners of a frame, check marks and crosses are none.
    """
    found: list[tuple[Box, bool]] = []
    looked_at = 0
    for drawing in drawings:
        items = drawing.get("items", ())
        if "s" not in drawing.get("type", "") or _is_mark(drawing, len(items)):
            continue
        for place, item in enumerate(items):
            looked_at += 1
            if looked_at > _ITEMS_LOOKED_AT:
                return _without_crosses(found, turn)
            if item[0] in ("l", "c") and not _is_corner(items, place):
                (ax, ay), (bx, by) = item[1], item[-1]
                xs, ys = [point[0] for point in item[1:]], [point[1] for point in item[1:]]
                if max(xs) - min(xs) > _SLANTED and max(ys) - min(ys) > _SLANTED:
                    found.append(((min(xs), min(ys), max(xs), max(ys)), (bx > ax) == (by > ay)))
    return _without_crosses(found, turn)


def _is_mark(drawing: dict[str, Any], count: int) -> bool:
    """Whether it is a check mark, a cross or a sign of that size: several strokes, no larger than a letter."""
    x0, y0, x1, y1 = drawing.get("rect", (0.0, 0.0, 0.0, 0.0))
    return count > 1 and x1 - x0 <= _MARK_SIZE and y1 - y0 <= _MARK_SIZE


def _is_corner(items: Sequence[Any], place: int) -> bool:
    """Whether it is a curve that begins or ends on a level or upright line of its own path."""
    if items[place][0] != "c":
        return False
    start, end = items[place][1], items[place][-1]
    before, after = items[place - 1], items[(place + 1) % len(items)]
    return _leads(before, start) or _leads(after, end)


def _leads(item: Any, point: Sequence[float]) -> bool:
    if item[0] != "l":
        return False
    (ax, ay), (bx, by) = item[1], item[2]
    touches = any(abs(x - point[0]) < _LEVEL and abs(y - point[1]) < _LEVEL for x, y in (item[1], item[2]))
    return touches and min(abs(ax - bx), abs(ay - by)) < _LEVEL


def _without_crosses(strokes: Sequence[tuple[Box, bool]], turn: Callable[[Box], Box]) -> list[Box]:
    """The strokes but for the two diagonals of one box, which cross out a cell or are a mark in it."""
    known = {(_rounded(box), is_falling) for box, is_falling in strokes}
    return [turn(box) for box, is_falling in strokes if (_rounded(box), not is_falling) not in known]


def _rounded(box: Box) -> tuple[int, int, int, int]:
    x0, y0, x1, y1 = (round(side) for side in box)
    return x0, y0, x1, y1


def rules_of(drawings: Iterable[dict[str, Any]], turn: Callable[[Box], Box]) -> Rules:
    """The rules among MuPDF's drawings; `turn` brings a box of the page as stored to the page as read."""
    flat: list[DrawnRule] = []
    tall: list[DrawnRule] = []
    areas: deque[tuple[Any, Box]] = deque(maxlen=_AREAS_COMPARED)
    filled: list[Box] = []
    looked_at = 0
    for drawing in drawings:
        stroked = "s" in drawing.get("type", "")
        if not stroked and (_is_unseen(drawing, areas) or _is_white(drawing.get("fill"))):
            continue
        filled += (turn(box) for box in _filled_boxes(drawing))
        for item in drawing.get("items", ()):
            looked_at += 1
            if looked_at > _ITEMS_LOOKED_AT:
                return Rules(_joined(flat), _joined(tall), _bars(filled))
            kind = item[0]
            if kind == "l":
                (ax, ay), (bx, by) = item[1], item[2]
                _add(turn((min(ax, bx), min(ay, by), max(ax, bx), max(ay, by))), False, flat, tall)
            elif kind == "re":
                _add(turn(tuple(item[1])), True, flat, tall)
            elif kind == "qu":
                quad = item[1]
                xs, ys = [p[0] for p in quad], [p[1] for p in quad]
                _add(turn((min(xs), min(ys), max(xs), max(ys))), True, flat, tall)
    return Rules(_joined(flat), _joined(tall), _bars(filled))


def _filled_boxes(drawing: dict[str, Any]) -> list[Box]:
    """The upright rectangles that a drawing fills, however it draws them."""
    items = drawing.get("items", ())
    if _is_white(drawing.get("fill")) or len(items) > _BARS_LOOKED_AT:
        return []
    if all(item[0] == "l" for item in items):
        is_upright = all(min(abs(a[0] - b[0]), abs(a[1] - b[1])) < _LEVEL for _, a, b in items)
        return [tuple(drawing["rect"])] if is_upright and 3 <= len(items) <= 5 else []
    return [tuple(item[1]) for item in items if item[0] == "re"]


def _is_unseen(drawing: dict[str, Any], areas: deque[tuple[Any, Box]]) -> bool:
    """Whether it is an area on one of its own colour, as the shading of a paragraph in a shaded cell is."""
    fill, box = drawing.get("fill"), drawing["rect"]
    if fill is None or min(box[2] - box[0], box[3] - box[1]) <= _THIN or drawing.get("fill_opacity", 1.0) < 1:
        return False
    ground = _ground(box, areas)
    if len(drawing.get("items", ())) == 1:
        areas.append((fill, box))
    return bool(ground == fill)


def _ground(box: Box, areas: deque[tuple[Any, Box]]) -> Any:
    """The colour of the last area that holds the box; None if there is none."""
    left, top, right, bottom = box
    for colour, (x0, y0, x1, y1) in reversed(areas):
        if x0 - _SLACK <= left and y0 - _SLACK <= top and right <= x1 + _SLACK and bottom <= y1 + _SLACK:
            return colour
    return None


def _is_white(fill: Sequence[float] | None) -> bool:
    return fill is None or min(fill, default=1.0) > 0.97


def _add(box: Box, is_area: bool, flat: list[DrawnRule], tall: list[DrawnRule]) -> None:
    x0, y0, x1, y1 = box
    width, height = x1 - x0, y1 - y0
    if not (0 <= width < 1e5 and 0 <= height < 1e5):
        return
    if is_area and width > _THIN and height > _THIN:
        flat += [DrawnRule(y0, x0, x1), DrawnRule(y1, x0, x1)]
        tall += [DrawnRule(x0, y0, y1), DrawnRule(x1, y0, y1)]
    elif height <= (_THIN if is_area else _LEVEL) and width > _MIN_LENGTH / 2:
        flat.append(DrawnRule((y0 + y1) / 2, x0, x1))
    elif width <= (_THIN if is_area else _LEVEL) and height > _MIN_LENGTH / 2:
        tall.append(DrawnRule((x0 + x1) / 2, y0, y1))


def _joined(rules: list[DrawnRule]) -> tuple[DrawnRule, ...]:
    """Pieces on one line joined, doubles dropped, stubs forgotten."""
    rows: list[list[DrawnRule]] = []
    for rule in sorted(rules, key=lambda r: r.at):
        if rows and rule.at - rows[-1][0].at <= _SNAP:
            rows[-1].append(rule)
        else:
            rows.append([rule])
    result: list[DrawnRule] = []
    for row in rows:
        at = sum(r.at for r in row) / len(row)
        start = end = None
        for rule in sorted(row, key=lambda r: r.start):
            if start is None or end is None:
                start, end = rule.start, rule.end
            elif rule.start <= end + _GAP:
                end = max(end, rule.end)
            else:
                result.append(DrawnRule(at, start, end))
                start, end = rule.start, rule.end
        if start is not None and end is not None:
            result.append(DrawnRule(at, start, end))
    return tuple(r for r in result if r.length >= _MIN_LENGTH)
