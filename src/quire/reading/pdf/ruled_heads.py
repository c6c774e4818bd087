"""Owns the heads of tables without a grid in which a rule is drawn below each text that is over several columns.

Such a head is between two rules as wide as the table. A shorter rule between them divides the text above it from the
heads of the columns below it, so it tells what the position of the text alone does not: which columns it is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from quire.domain.element import CellSpan
from quire.reading.pdf.centred_heads import columns_over
from quire.reading.pdf.drawn_rules import DrawnRule, Rules
from quire.reading.pdf.line_pieces import PageWord, lines_text, pieces_of, text_lines

Column = tuple[float, float]

_WHOLE = 0.85
_PART = 0.8
_HIGHEST = 150.0
_SAME_LEVEL = 4.0
_OVERHANG = 12.0
_MOST_LEVELS = 4


@dataclass(frozen=True, slots=True)
class RuledHead:
    """The place of a head: its first and last rule, and the shorter rules between them."""

    top: float
    bottom: float
    parts: tuple[DrawnRule, ...]

    def holds(self, y: float) -> bool:
        """Whether this height of the page is in the head."""
        return self.top < y < self.bottom


def find_head(rules: Rules, columns: Sequence[Column], heights: Sequence[float]) -> RuledHead | None:
    """The ruled head of a table whose rows are at these heights, from the first; None if it has none.

    The first row may be one of the head, and most of them are below it.
    """
    left, right = columns[0][0] - _OVERHANG, columns[-1][1] + _OVERHANG
    level = [h for h in rules.horizontal if left <= (h.start + h.end) / 2 <= right]
    width = columns[-1][1] - columns[0][0]
    whole = sorted(h.at for h in level if h.length >= _WHOLE * width and h.at < heights[len(heights) // 2])
    top = max((at for at in whole if at < heights[0]), default=None)
    bottom = min((at for at in whole if top is not None and at > top + _SAME_LEVEL), default=None)
    if top is None or bottom is None:
        # Both rules may be above the first row.
        top, bottom = whole[-2:] if len(whole) > 1 else (0.0, 0.0)
    if not 0 < bottom - top < _HIGHEST or heights[0] - bottom > _HIGHEST:
        return None
    parts = [
        h
        for h in level
        if top + _SAME_LEVEL < h.at < bottom - _SAME_LEVEL
        and h.length <= _PART * width
        and len(_covered(h, columns)) > 1
    ]
    return RuledHead(top, bottom, tuple(sorted(parts, key=lambda h: h.at))) if parts else None


def head_rows(
    head: RuledHead, columns: Sequence[Column], words: Sequence[PageWord]
) -> tuple[list[list[str]], list[CellSpan]]:
    """The rows of the head, of these words; a cell over several rows or columns has its text at its first place."""
    levels = _levels(head.parts)[:_MOST_LEVELS]
    edges = _edges(columns)
    texts: dict[tuple[int, int], list[PageWord]] = {}
    spans: dict[tuple[int, int], CellSpan] = {}
    for word in words:
        column = next((i for i, edge in enumerate(edges) if word.x < edge), len(edges) - 1)
        above = [h for h in head.parts if h.at < word.y and column in _covered(h, columns)]
        below = [h for h in head.parts if h.at > word.y and column in _covered(h, columns)]
        row = 1 + _level(levels, max(above, key=lambda h: h.at)) if above else 0
        if below:
            nearest = min(below, key=lambda h: h.at)
            covered, last = _covered(nearest, columns), _level(levels, nearest)
        else:
            covered, last = [column], len(levels)
        place = row, covered[0]
        texts.setdefault(place, []).append(word)
        spans[place] = CellSpan(*place, last - row + 1, covered[-1] - covered[0] + 1)
    for span in [one for one in spans.values() if one.column_span > 1]:
        _part(span, texts, spans, columns)
    rows = [[""] * len(columns) for _ in range(len(levels) + 1)]
    for (row, column), found in texts.items():
        rows[row][column] = lines_text(found)
    return rows, [one for one in spans.values() if one.row_span > 1 or one.column_span > 1]


def _part(
    span: CellSpan,
    texts: dict[tuple[int, int], list[PageWord]],
    spans: dict[tuple[int, int], CellSpan],
    columns: Sequence[Column],
) -> None:
    """Takes a cell apart that has texts side by side: the rules below them touch each other and are one."""
    place = span.row, span.column
    lines = text_lines(texts[place])
    pieces = pieces_of(lines[0]) if len(lines) == 1 else []
    over = columns[span.column : span.column + span.column_span]
    groups = columns_over(pieces, over) if 1 < len(pieces) <= len(over) else []
    if len(groups) > 1 and groups[0][0] == 0 and groups[-1][1] == len(over):
        del texts[place], spans[place]
        for piece, (first, after) in zip(pieces, groups, strict=True):
            part = CellSpan(span.row, span.column + first, span.row_span, after - first)
            texts[part.row, part.column], spans[part.row, part.column] = piece.words, part


def _covered(rule: DrawnRule, columns: Sequence[Column]) -> list[int]:
    """The columns below the rule."""
    return [i for i, (x0, x1) in enumerate(columns) if rule.start - 3 <= (x0 + x1) / 2 <= rule.end + 3]


def _edges(columns: Sequence[Column]) -> list[float]:
    """The right edge of each column: the middle of the gutter behind it."""
    inner = [(one[1] + other[0]) / 2 for one, other in pairwise(columns)]
    return [*inner, float("inf")]


def _levels(parts: Sequence[DrawnRule]) -> list[float]:
    levels: list[float] = []
    for rule in parts:
        if not levels or rule.at - levels[-1] > _SAME_LEVEL:
            levels.append(rule.at)
    return levels


def _level(levels: Sequence[float], rule: DrawnRule) -> int:
    return min(range(len(levels)), key=lambda i: abs(levels[i] - rule.at))
