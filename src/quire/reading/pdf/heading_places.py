"""Which blocks of a page are where a heading is: right above text of the page's own type, and apart from what is above.

The place is what tells a heading in regular type from a label: a line in capitals, or in type that is only a little
larger than the text, heads the text below it or it heads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from quire.domain.element import Box, hull
from quire.reading.pdf.text_lines import TextLine

_SAME_SIZE = 0.3
_NEAR_EM = 2.0
_SHARED = 0.5
_LEAST_WORDS = 8
_MORE_EM = 0.3
_LEVEL_EM = 0.5
_LEAST_IN_MARGIN, _LEAST_LINES_BESIDE = 2, 3
_SAME_LEFT_PT = 3.0
_MOST_LINES = 3


def heads_of_text(blocks: Sequence[Sequence[TextLine]], body_size: float) -> frozenset[int]:
    """The places of blocks, given in reading order, that are right above text or above another head of text.

    A block of the text's own type and size is text, unless it is in capitals. In the margin two blocks at least are to
    the left of text that begins in the same row.
    """
    pairs = enumerate(pairwise(blocks))
    beside = [place for place, (lines, text) in pairs if _is_in_margin(lines, text, body_size)]
    lefts = [blocks[place][0].box[0] for place in beside]
    found = {place for place, x in zip(beside, lefts, strict=True) if _times(x, lefts) >= _LEAST_IN_MARGIN}
    for place in range(len(blocks) - 2, -1, -1):
        lines, below = blocks[place], blocks[place + 1]
        if place in found or not lines or not below or not _may_head(lines, body_size):
            continue
        is_over = place + 1 in found and lines[0].size >= below[0].size
        if not (is_over or _is_text(below, body_size)):
            continue
        box, other = hull([line.box for line in lines]), hull([line.box for line in below])
        gap = other[1] - box[3]
        if not -0.5 * lines[0].size <= gap <= _NEAR_EM * lines[0].size or not _share_column(box, other):
            continue
        is_beside = place > 0 and _is_level(blocks[place - 1], box)
        above = _space_above(blocks[:place], box)
        needs_more = _is_bold(lines) and not is_over
        if needs_more and not (_is_prose(below) and above >= gap + _MORE_EM * lines[0].size):
            continue
        if not is_beside and above >= gap - 1:
            found.add(place)
    return frozenset(found)


def _is_in_margin(lines: Sequence[TextLine], text: Sequence[TextLine], body_size: float) -> bool:
    """Whether the lines may head the text to the right of them: terms of a list have a line or two beside them."""
    if not lines or len(text) < _LEAST_LINES_BESIDE or not _may_head(lines, body_size):
        return False
    box, other = hull([line.box for line in lines]), hull([line.box for line in text])
    is_level = abs(lines[0].middle[1] - text[0].middle[1]) < _LEVEL_EM * lines[0].size
    return is_level and box[2] < other[0] and _is_text(text, body_size) and _is_prose(text)


def _times(x: float, lefts: Sequence[float]) -> int:
    return sum(abs(x - left) <= _SAME_LEFT_PT for left in lefts)


def _may_head(lines: Sequence[TextLine], body_size: float) -> bool:
    if len(lines) > _MOST_LINES or not all(line.upright and not line.mono for line in lines):
        return False
    if any(line.size > body_size + _SAME_SIZE for line in lines):
        return True
    return all(line.text.isupper() for line in lines) or _is_bold(lines)


def _is_text(lines: Sequence[TextLine], body_size: float) -> bool:
    """Whether the lines are in the type of the page's text, and begin a paragraph or an item of a list."""
    first = lines[0]
    if abs(first.size - body_size) > _SAME_SIZE or first.text.isupper():
        return False
    return len(lines) > 1 or first.text.count(" ") >= _LEAST_WORDS - 1


def _is_bold(lines: Sequence[TextLine]) -> bool:
    return all(line.bold and not line.mixed for line in lines)


def _is_prose(lines: Sequence[TextLine]) -> bool:
    """Whether a sentence goes on from line to line: words in bold above rows of a table or a form head nothing."""
    return any(line.text[0].islower() for line in lines[1:])


def _is_level(lines: Sequence[TextLine], box: Box) -> bool:
    """Whether the block before is one line in the same row, as a page number is in that of a running head."""
    return len(lines) == 1 and box[1] < lines[0].middle[1] < box[3]


def is_beside(box: Box, other: Box) -> bool:
    """Whether the boxes are in one row, the one before the other."""
    middle = (box[1] + box[3]) / 2
    return other[1] < middle < other[3] and (box[2] <= other[0] or other[2] <= box[0])


def _share_column(box: Box, other: Box) -> bool:
    width = min(box[2] - box[0], other[2] - other[0])
    return min(box[2], other[2]) - max(box[0], other[0]) >= _SHARED * width


def _space_above(blocks: Sequence[Sequence[TextLine]], box: Box) -> float:
    """How far the nearest line above the box in its column is."""
    above = (
        box[1] - line.box[3]
        for lines in blocks[-2:]
        for line in lines
        if line.box[3] <= box[1] + 2 and line.box[0] < box[2] and box[0] < line.box[2]
    )
    return min(above, default=float("inf"))
