"""Measures whether the lines of a page follow one another as people read them, from the elements' line boxes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from quire.domain.element import Box, Element, ElementKind

_TEXT_KINDS = frozenset(
    {ElementKind.PARAGRAPH, ElementKind.LIST_ITEM, ElementKind.QUOTE, ElementKind.FOOTNOTE}
)
_LEAST_CHARS = 14
_SAME_ROW = 0.6
_GAP = 0.8
_LEAST_LINES = 5
_LEAST_SHARE = 0.12


def is_read_across(elements: Sequence[Element]) -> bool:
    """Whether lines of prose go on from one column into the next: many are followed by a long line beside them."""
    lines = 0
    crossings = 0
    for one, other in pairwise(_lines(elements)):
        lines += 1
        crossings += _goes_across(one, other)
    return crossings >= _LEAST_LINES and crossings >= _LEAST_SHARE * lines


def _lines(elements: Sequence[Element]) -> Iterator[tuple[int, Box]]:
    """The length in characters and the box of each line of prose, in reading order."""
    for element in elements:
        if element.kind not in _TEXT_KINDS or element.repeated or not element.lines:
            continue
        ends = [*(line.start for line in element.lines[1:]), len(element.text)]
        for line, end in zip(element.lines, ends, strict=True):
            yield end - line.start, line.box


def _goes_across(one: tuple[int, Box], other: tuple[int, Box]) -> bool:
    if min(one[0], other[0]) < _LEAST_CHARS:
        return False
    left, right = one[1], other[1]
    height = min(left[3] - left[1], right[3] - right[1])
    shared = min(left[3], right[3]) - max(left[1], right[1])
    return shared > _SAME_ROW * height and right[0] - left[2] > _GAP * height
