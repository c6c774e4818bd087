"""Finds text that is in another order than its page has, by the places of elements.

Prose that goes back up in its own column was put behind what it comes before. A text from beside a list may be between
two of its items, a text that stands beside a heading behind the next heading, and notes at the foot of a column inside
of a sentence that goes on in the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from quire.domain.element import Box, Element, ElementKind

TEXT_KINDS = frozenset(
    {
        ElementKind.PARAGRAPH,
        ElementKind.LIST_ITEM,
        ElementKind.QUOTE,
        ElementKind.FOOTNOTE,
        ElementKind.CAPTION,
        ElementKind.HEADING,
    }
)
_BODY_KINDS = frozenset({ElementKind.PARAGRAPH, ElementKind.LIST_ITEM})
_HEADING_KINDS = frozenset({ElementKind.TITLE, ElementKind.HEADING})
LEAST_CHARS = 14
_SAME_PLACE, _MOST_BLOCKS = 0.5, 200
_SAME_COLUMN = 0.1
_EDGE_PT, _LEVEL_PT = 3.0, 8.0
_NEXT_ITEM = 1.5
_LEAST_OPEN_LINES, _SMALLER, _SAME_TYPE = 3, 0.94, 0.05
_OPEN_SIGNS = (",", "-")
_MOST_LINES = 20
_NOTES_SHARE = 0.15
"""A note of a line or two inside of a sentence is no great harm."""


def is_out_of_order(elements: Sequence[Element]) -> bool:
    """Whether one of these signs is there. Repeated elements are not to be among them."""
    return (
        _goes_back(elements)
        or _is_in_list(elements)
        or _is_behind_headings(elements)
        or _is_broken_by_notes(elements)
    )


def is_jump(one: Box, other: Box) -> bool:
    """Whether the second line is beside the first one's column."""
    shared = min(one[2], other[2]) - max(one[0], other[0])
    return shared <= _SAME_COLUMN * min(one[2] - one[0], other[2] - other[0])


def _goes_back(elements: Sequence[Element]) -> bool:
    """Whether prose goes back up in its own column: text that follows is beside or below what it follows."""
    before: list[Box] = []
    for element in elements:
        box = element.box
        if element.kind not in _BODY_KINDS or box is None or len(element.text) < LEAST_CHARS:
            continue
        left, _, right, bottom = box
        for other in before:
            if bottom <= other[1] + 1.0:
                shared = min(right, other[2]) - max(left, other[0])
                if shared >= _SAME_PLACE * min(right - left, other[2] - other[0]):
                    return True
        if len(before) < _MOST_BLOCKS:
            before.append(box)
    return False


def _is_in_list(elements: Sequence[Element]) -> bool:
    """Whether a text from beside a list is between two items that are one below the other."""
    for one, between, other in zip(elements, elements[1:], elements[2:], strict=False):
        if not (one.kind is other.kind is ElementKind.LIST_ITEM) or between.kind not in TEXT_KINDS:
            continue
        if one.box is None or between.box is None or other.box is None:
            continue
        height = min(one.box[3] - one.box[1], other.box[3] - other.box[1])
        is_next = 0 <= other.box[1] - one.box[3] + height <= (1 + _NEXT_ITEM) * height
        is_aligned = abs(one.box[0] - other.box[0]) < _EDGE_PT
        if is_next and is_aligned and is_jump(one.box, between.box) and is_jump(between.box, other.box):
            return True
    return False


def _is_behind_headings(elements: Sequence[Element]) -> bool:
    """Whether a text that stands beside a heading comes after the next heading below that one."""
    for at, (one, other) in enumerate(pairwise(elements)):
        if one.kind not in _HEADING_KINDS or other.kind not in _HEADING_KINDS:
            continue
        if one.box is None or other.box is None or other.box[1] < one.box[3] or is_jump(one.box, other.box):
            continue
        for later in elements[at + 2 : at + 2 + _MOST_BLOCKS]:
            if later.kind not in _BODY_KINDS or later.box is None or not is_jump(one.box, later.box):
                continue
            is_level = abs(later.box[1] - one.box[1]) < _LEVEL_PT
            if is_level and later.box[3] < other.box[1] + _EDGE_PT:
                return True
    return False


def _is_broken_by_notes(elements: Sequence[Element]) -> bool:
    """Whether smaller type, and much of it, is between a sentence and the next text in its type, in another column."""
    total = 0
    for at, (one, other) in enumerate(pairwise(elements)):
        if one.kind is not ElementKind.PARAGRAPH or len(one.lines) < _LEAST_OPEN_LINES:
            continue
        if not _is_open(one.text) or other.kind not in TEXT_KINDS:
            continue
        if one.box is None or other.box is None or is_jump(one.box, other.box):
            continue
        size = _line_height(one)
        if other.box[1] < one.box[3] - _EDGE_PT or _line_height(other) > _SMALLER * size:
            continue
        between = len(other.text)
        for later in elements[at + 2 : at + 2 + _MOST_BLOCKS]:
            if _goes_on_beside(one, later, size):
                total = total or sum(len(each.text) for each in elements)
                if between >= _NOTES_SHARE * total:
                    return True
                break
            between += len(later.text)
    return False


def _goes_on_beside(one: Element, later: Element, size: float) -> bool:
    """Whether a text of two lines or more in type of this size begins beside the first one, not below it."""
    if later.kind is not ElementKind.PARAGRAPH or len(later.lines) < 2:
        return False
    if one.box is None or later.box is None or later.box[1] >= one.box[3] or not is_jump(one.box, later.box):
        return False
    return abs(_line_height(later) - size) < _SAME_TYPE * size


def _is_open(text: str) -> bool:
    """Whether a text ends inside of a sentence."""
    return text[-1:].islower() or text.endswith(_OPEN_SIGNS)


def _line_height(element: Element) -> float:
    """The height of the line in the middle, by height, of the first ones."""
    heights = sorted(line.box[3] - line.box[1] for line in element.lines[:_MOST_LINES])
    return heights[len(heights) // 2] if heights else 0.0
