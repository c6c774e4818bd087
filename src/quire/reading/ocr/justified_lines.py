"""Tells lines of justified prose, whose word spaces are wide, from rows of a table.

In a narrow column a line of three long words may have spaces wider than the gutter beside it, so that its words look
like cells. The spaces of such a line are all equally wide, it ends where other lines of its column end, and the words
above or below it reach over its spaces; those of a table go on from row to row.

Weakness: the careful reader gives no places of single words, so that its lines are not looked at.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from quire.reading.ocr.list_marks import begins_with_mark
from quire.reading.ocr.ocr_words import Box, OcrLine, OcrWord

_UNEVEN, _WIDEST, _WIDEST_ALONE = 0.4, 4.0, 2.5
"""In sizes of the type: how much the spaces of a line may differ, and how wide they may be; one alone less so."""
_SAME_EDGE = 0.5
_NEAR_LINES = 6
_PROSE = 0.7
"""How many of a line's signs are letters."""
_NEXT_LINE = 2.5


def justified_lines(lines: Sequence[OcrLine], sizes: Sequence[float], wide: float) -> list[bool]:
    """Whether each line is one of justified prose with a space that is wider than `wide` sizes of its type."""
    found = [False] * len(lines)
    asked = [
        place
        for place, (line, size) in enumerate(zip(lines, sizes, strict=True))
        if not line.is_loose and max(_spaces(line.words), default=0) > wide * size
    ]
    if not asked:
        return found
    boxes = [line.box() for line in lines]
    order = sorted(range(len(lines)), key=lambda place: boxes[place][1])
    tops = [boxes[place][1] for place in order]
    for place in asked:
        if _has_even_spaces(lines[place], sizes[place]):
            near = _near(place, boxes, order, tops, sizes[place])
            found[place] = _ends_with(boxes[place], near, boxes, sizes[place]) and _is_reached_over(
                lines[place], near, lines, sizes[place]
            )
    return found


def _spaces(words: Sequence[OcrWord]) -> list[int]:
    return [after.left - before.right for before, after in pairwise(words)]


def _text_words(line: OcrLine) -> list[OcrWord]:
    """The words behind the mark of an item."""
    return line.words[1:] if begins_with_mark(line) else line.words


def _has_even_spaces(line: OcrLine, size: float) -> bool:
    words = _text_words(line)
    spaces = _spaces(words)
    text = "".join(word.text for word in words)
    if not spaces or sum(map(str.isalpha, text)) < _PROSE * len(text):
        return False
    widest = _WIDEST if len(spaces) > 1 else _WIDEST_ALONE
    return max(spaces) - min(spaces) <= _UNEVEN * size and max(spaces) <= widest * size


def _near(
    place: int, boxes: Sequence[Box], order: Sequence[int], tops: Sequence[int], size: float
) -> list[int]:
    """The lines a few lines above and below, in the same column."""
    left, top, right, _ = boxes[place]
    reach = _NEAR_LINES * size * 1.5
    first, after = bisect_left(tops, top - reach), bisect_right(tops, top + reach)
    return [
        other
        for other in order[first:after]
        if other != place
        and 2 * (min(right, boxes[other][2]) - max(left, boxes[other][0]))
        > min(right - left, boxes[other][2] - boxes[other][0])
    ]


def _ends_with(box: Box, near: Sequence[int], boxes: Sequence[Box], size: float) -> bool:
    return any(abs(boxes[other][2] - box[2]) <= _SAME_EDGE * size for other in near)


def _is_reached_over(line: OcrLine, near: Sequence[int], lines: Sequence[OcrLine], size: float) -> bool:
    """Whether a word of the line above or below is at the middle of most spaces of a line."""
    top = line.box()[1]
    beside = [
        word
        for other in near
        if abs(lines[other].box()[1] - top) <= _NEXT_LINE * size
        for word in lines[other].words
    ]
    middles = [(before.right + after.left) / 2 for before, after in pairwise(_text_words(line))]
    over = sum(any(word.left <= middle <= word.right for word in beside) for middle in middles)
    return 2 * over > len(middles)
