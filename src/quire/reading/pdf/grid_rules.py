"""Finds the rules of a page that make up one grid: those that touch one another, and shaded rows below each other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from quire.reading.pdf.drawn_rules import DrawnRule, Rules
from quire.reading.pdf.line_pieces import PageWord, pieces_of, text_lines

_TOUCH = 3.5
_SAME = 4.0
_LEAST_BORDERS, _LEAST_LEVELS = 3, 3
_LOW_BAND, _HIGH_BAND = 0.6, 1.8
_MOST_BANDS = 120
"""Each is compared with those above it."""

_Component = tuple[list[DrawnRule], list[DrawnRule]]
"""Level and upright rules that touch one another."""


def grids_of(rules: Rules, words: Sequence[PageWord]) -> list[_Component]:
    """The rules of each grid, the largest first."""
    return _with_bands(_components(rules), words)


def _components(rules: Rules) -> list[_Component]:
    """Rules that touch one another, directly or through others; the largest component first."""
    flat, tall = list(rules.horizontal), list(rules.vertical)
    parent = list(range(len(flat) + len(tall)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, h in enumerate(flat):
        for j, v in enumerate(tall):
            touches = (
                h.start - _TOUCH <= v.at <= h.end + _TOUCH and v.start - _TOUCH <= h.at <= v.end + _TOUCH
            )
            if touches:
                parent[root(i)] = root(len(flat) + j)
    groups: dict[int, tuple[list[DrawnRule], list[DrawnRule]]] = {}
    for i, h in enumerate(flat):
        groups.setdefault(root(i), ([], []))[0].append(h)
    for j, v in enumerate(tall):
        groups.setdefault(root(len(flat) + j), ([], []))[1].append(v)
    found = [g for g in groups.values() if len(g[0]) >= 2 and len(g[1]) >= 2]
    return sorted(found, key=lambda g: -sum(r.length for r in g[0]))


def _with_bands(components: list[_Component], words: Sequence[PageWord]) -> list[_Component]:
    """The components, those that are the shaded rows of one table as one: rows without shade are between them.

    The first is a head and a row that touch each other; else the rows are no grid, and alignment tells more of them.
    """
    if not 1 < len(components) <= _MOST_BANDS:
        return components
    found: list[_Component] = []
    heights: dict[int, float] = {}
    for flat, tall in sorted(components, key=lambda one: min(rule.at for rule in one[0])):
        last = next((at for at, one in enumerate(found) if _is_next_band(one, (flat, tall), words)), None)
        if last is None:
            found.append((flat, tall))
            continue
        heights[last] = min(rule.at for rule in flat) - max(rule.at for rule in found[last][0])
        found[last][0].extend(flat)
        found[last][1].extend(tall)
    for at, height in heights.items():
        flat, tall = found[at]
        bottom = max(rule.at for rule in flat)
        if _columns_with(words, [v.at for v in tall], bottom, bottom + height) > 1:
            flat.append(replace(flat[0], at=bottom + height))
    return sorted(found, key=lambda g: -sum(r.length for r in g[0]))


def _is_next_band(above: _Component, below: _Component, words: Sequence[PageWord]) -> bool:
    """Whether both have the same upright rules, and between them is a row of texts without shade."""
    ys, own = places_of([h.at for h in above[0]]), places_of([h.at for h in below[0]])
    if len(ys) < _LEAST_LEVELS or len(own) < 2:
        return False
    xs, others = places_of([v.at for v in above[1]]), places_of([v.at for v in below[1]])
    if not _LEAST_BORDERS <= len(xs) == len(others) or any(
        abs(x - other) > _SAME for x, other in zip(xs, others, strict=True)
    ):
        return False
    height = min(b - a for a, b in pairwise(own))
    return (
        _LOW_BAND * height < own[0] - ys[-1] < _HIGH_BAND * height
        and _columns_with(words, xs, ys[-1], own[0]) > 1
    )


def _columns_with(words: Sequence[PageWord], xs: Sequence[float], top: float, bottom: float) -> int:
    """How many columns have words at this height; none if a text there is in several."""
    edges = places_of(xs)
    lines = text_lines([word for word in words if top < word.y < bottom and edges[0] < word.x < edges[-1]])
    pieces = [piece for line in lines for piece in pieces_of(line)]
    places = {index_between(edges, piece.x0 + _TOUCH) for piece in pieces}
    is_across = any(
        index_between(edges, p.x0 + _TOUCH) != index_between(edges, p.x1 - _TOUCH) for p in pieces
    )
    return 0 if is_across else len(places - {None})


def places_of(values: Sequence[float]) -> list[float]:
    """The middle of the values that are about equal."""
    places: list[list[float]] = []
    for value in sorted(values):
        if places and value - places[-1][-1] <= _SAME:
            places[-1].append(value)
        else:
            places.append([value])
    return [sum(p) / len(p) for p in places]


def index_between(edges: Sequence[float], value: float) -> int | None:
    """Which stretch between two edges has the value; None if it is beyond them."""
    at = bisect_right(edges, value) - 1
    return at if 0 <= at < len(edges) - 1 else None
