"""Measures whether the parts of a page follow one another as people read them, from the places of their lines.

Each measure has a reason: prose that jumps from side to side was read across columns; a line as wide as two columns
between lines of both is two lines read as one; cells with words that are cut by hyphens are columns taken for a table;
letters alone in a paragraph are what is left of formulas or drawings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from quire.domain.element import Box, Element, ElementKind

READ_ACROSS = "columns_read_across"
COLUMNS_IN_TABLE = "columns_in_table"
LOOSE_SIGNS = "loose_signs"

_TEXT_KINDS = frozenset(
    {
        ElementKind.PARAGRAPH,
        ElementKind.LIST_ITEM,
        ElementKind.QUOTE,
        ElementKind.FOOTNOTE,
        ElementKind.CAPTION,
        ElementKind.HEADING,
    }
)
_LEAST_CHARS = 14
_SAME_COLUMN = 0.1
_LEAST_JUMPS, _JUMPS_SHARE = 5, 0.22
_FEW_JUMPS = 3
_LEAST_INTRUDERS = 2
_LEAST_LOOSE = 3
_LEAST_JOINED = 3
_COLUMN_LINES = 5
_LEAST_COLUMN_PT = 40.0
_ADJACENT = 0.35
_SAME_HEIGHT = 0.15
_FILLED = 0.6
_MOST_LINES = 400
_LONG_CELL_WORDS = 25
_CUT_WORD = re.compile(r"[a-z]- [a-z]")
_LEAST_CUT_WORDS = 2

Line = tuple[int, Box]
"""The number of characters of a line, and its box."""


def order_doubts(elements: Sequence[Element]) -> tuple[str, ...]:
    """The reasons to doubt the order of a page's text; none for a page whose elements have no places."""
    doubts = (
        (READ_ACROSS, is_read_across(elements)),
        (LOOSE_SIGNS, _has_loose_signs(elements)),
        (COLUMNS_IN_TABLE, _has_columns_in_table(elements)),
    )
    return tuple(reason for reason, found in doubts if found)


def is_read_across(elements: Sequence[Element]) -> bool:
    """Whether lines of prose go on from one column into the next."""
    lines = [line for line in _lines(elements) if line[0] >= _LEAST_CHARS][:_MOST_LINES]
    jumps = sum(_is_jump(one[1], other[1]) for one, other in pairwise(lines))
    if jumps >= _LEAST_JUMPS and jumps >= _JUMPS_SHARE * len(lines):
        return True
    if _intruders([box for _, box in lines]) >= _LEAST_INTRUDERS:
        return True
    return jumps >= _FEW_JUMPS and _joined_lines([box for _, box in lines]) >= _LEAST_JOINED


def _lines(elements: Sequence[Element]) -> Iterator[Line]:
    """The lines of prose in reading order."""
    for element in elements:
        if element.kind not in _TEXT_KINDS or element.repeated or not element.lines:
            continue
        ends = [*(line.start for line in element.lines[1:]), len(element.text)]
        for line, end in zip(element.lines, ends, strict=True):
            yield end - line.start, line.box


def _is_jump(one: Box, other: Box) -> bool:
    """Whether the second line is beside the first one's column."""
    shared = min(one[2], other[2]) - max(one[0], other[0])
    return shared <= _SAME_COLUMN * min(one[2] - one[0], other[2] - other[0])


def _intruders(lines: Sequence[Box]) -> int:
    """How many lines of another column are between two lines of one paragraph."""
    return sum(
        _is_jump(one, between) and _is_jump(between, other) and _is_adjacent(one, other)
        for one, between, other in zip(lines, lines[1:], lines[2:], strict=False)
    )


def _joined_lines(lines: Sequence[Box]) -> int:
    """How many lines cross a gutter right above or below lines that keep to it."""
    starts: dict[int, list[Box]] = {}
    for box in lines:
        starts.setdefault(round(box[0] / 4), []).append(box)
    most = 0
    for start in starts:
        right = [box for near in (-1, 0, 1) for box in starts.get(start + near, ())]
        if len(right) < _COLUMN_LINES:
            continue
        edge = min(box[0] for box in right)
        left = [box for box in lines if box[2] <= edge + 4 and box[0] < edge - _LEAST_COLUMN_PT]
        if len(left) < _COLUMN_LINES or not _fills(left, edge):
            continue
        across = [box for box in lines if box[0] < edge - 25 and box[2] > edge + 25]
        beside = [*left, *right]
        most = max(most, sum(any(_is_adjacent(box, other) for other in beside) for box in across))
    return most


def _fills(lines: Sequence[Box], edge: float) -> bool:
    """Whether most of the lines are as wide as the column that ends at `edge`."""
    widths = sorted(box[2] - box[0] for box in lines)
    return widths[len(widths) // 2] >= _FILLED * (edge - min(box[0] for box in lines))


def _is_adjacent(box: Box, other: Box) -> bool:
    """Whether both are lines of one paragraph by their distance and their height."""
    height = box[3] - box[1]
    gap = max(other[1] - box[3], box[1] - other[3])
    return gap < _ADJACENT * height and abs(other[3] - other[1] - height) < _SAME_HEIGHT * height


def _has_columns_in_table(elements: Sequence[Element]) -> bool:
    """Whether long cells have words that are cut by hyphens and not put together: lines of columns, not of a cell."""
    cells = [cell for element in elements if element.table for row in element.table.rows for cell in row]
    cut = sum(len(_CUT_WORD.findall(cell)) for cell in cells if len(cell.split()) >= _LONG_CELL_WORDS)
    return cut >= _LEAST_CUT_WORDS


def _has_loose_signs(elements: Sequence[Element]) -> bool:
    """Whether letters are alone in their paragraphs: what is left of formulas, or labels of a drawing."""
    loose = sum(
        element.kind is ElementKind.PARAGRAPH
        and not element.repeated
        and len(element.text) <= 3
        and any(map(str.isalpha, element.text))
        for element in elements
    )
    return loose >= _LEAST_LOOSE
