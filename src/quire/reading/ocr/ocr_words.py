"""Lines that were found one by one, put in the order in which people read them, and into paragraphs.

Weakness: columns are found by a strip that hardly a line crosses and by lines that fill them, as prose does. Side
notes and text around pictures come where their height puts them.

What OCR sees on a page: words with their places and how sure the reader is, in lines, in paragraphs.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels."""

NOISE = 0.3
"""Words that their reader is less sure of than this are specks, not words."""


@dataclass(frozen=True, slots=True)
class OcrWord:
    left: int
    top: int
    right: int
    bottom: int
    text: str
    confidence: float = 1.0

    @property
    def height(self) -> int:
        return self.bottom - self.top

    @property
    def box(self) -> Box:
        return self.left, self.top, self.right, self.bottom


@dataclass(slots=True)
class OcrLine:
    words: list[OcrWord]

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def height(self) -> float:
        return statistics.median(word.height for word in self.words)

    def box(self) -> Box:
        return around([word.box for word in self.words])


@dataclass(slots=True)
class RecognisedPage:
    """What was recognised: paragraphs of lines, and boxes without words."""

    width: int
    height: int
    paragraphs: list[list[OcrLine]] = field(default_factory=list)
    blank: list[Box] = field(default_factory=list)

    def lines(self) -> Iterator[OcrLine]:
        for paragraph in self.paragraphs:
            yield from paragraph

    def words(self) -> Iterator[OcrWord]:
        for line in self.lines():
            yield from line.words

    def confidence(self) -> float | None:
        """How sure the reader is of a character, on average; None where there are no words."""
        weights = [(word.confidence, len(word.text)) for word in self.words()]
        total = sum(length for _, length in weights)
        return sum(sure * length for sure, length in weights) / total if total else None

    def without_noise(self) -> RecognisedPage:
        """The same without the words that are none, and without what then is empty."""
        kept = RecognisedPage(self.width, self.height, blank=self.blank)
        for paragraph in self.paragraphs:
            lines = [
                OcrLine(words)
                for line in paragraph
                if (words := [word for word in line.words if word.confidence >= NOISE])
            ]
            if lines:
                kept.paragraphs.append(lines)
        return kept


def around(boxes: list[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


_LEAST_LINES = 3
_LEAST_WIDTH = 8.0
_FILLED = 0.6
_NARROW = 0.62
_GUTTER = 0.6
_SAME_ROW = 0.5
_NEW_PARAGRAPH = 1.35
_OTHER_TYPE = 1.3
_DEEPEST = 6


def in_reading_order(lines: Sequence[OcrLine]) -> list[list[OcrLine]]:
    """Paragraphs of lines: the left column before the right one, between the lines that cross both."""
    return [
        paragraph
        for stretch in _stretches(list(lines), _DEEPEST)
        for paragraph in _paragraphs(_rows(stretch))
    ]


def _stretches(lines: list[OcrLine], depth: int) -> list[list[OcrLine]]:
    gutter = _gutter(lines) if depth else None
    if gutter is None:
        return [lines] if lines else []
    left = [line for line in lines if line.box()[2] <= gutter]
    right = [line for line in lines if line.box()[0] >= gutter]
    across = sorted((line for line in lines if line.box()[0] < gutter < line.box()[2]), key=_middle)
    found: list[list[OcrLine]] = []
    above = float("-inf")
    for line in [*across, None]:
        below = _middle(line) if line is not None else float("inf")
        for side in (left, right):
            found += _stretches([one for one in side if above <= _middle(one) < below], depth - 1)
        if line is not None:
            found.append([line])
        above = below
    return _rejoined(found, {id(line) for line in across})


def _rejoined(stretches: list[list[OcrLine]], across: set[int]) -> list[list[OcrLine]]:
    """Lines across that follow one another are one stretch."""
    found: list[list[OcrLine]] = []
    for stretch in stretches:
        both = found and id(stretch[0]) in across and id(found[-1][-1]) in across
        if both:
            found[-1] += stretch
        else:
            found.append(stretch)
    return found


def _gutter(lines: list[OcrLine]) -> float | None:
    """The middle of the widest strip between two columns of prose."""
    if len(lines) < 2 * _LEAST_LINES:
        return None
    boxes = [line.box() for line in lines]
    low, high = min(box[0] for box in boxes), max(box[2] for box in boxes)
    height = statistics.median(line.height for line in lines)
    narrow = sorted((box[0], box[2]) for box in boxes if box[2] - box[0] < _NARROW * (high - low))
    strips: list[tuple[float, float]] = []
    reached = narrow[0][1] if narrow else high
    for left, right in narrow[1:]:
        if left - reached >= _GUTTER * height:
            strips.append((left - reached, (left + reached) / 2))
        reached = max(reached, right)
    for _, middle in sorted(strips, reverse=True):
        left_side = [line for line in lines if line.box()[2] <= middle]
        right_side = [line for line in lines if line.box()[0] >= middle]
        if _is_prose(left_side) and _is_prose(right_side):
            return middle
    return None


def _is_prose(lines: list[OcrLine]) -> bool:
    """Half of a column's lines fill it, or there are columns in it that are so; labels and cells don't."""
    if len(lines) < _LEAST_LINES:
        return False
    boxes = [line.box() for line in lines]
    left, _, right, _ = around(boxes)
    if right - left < _LEAST_WIDTH * statistics.median(line.height for line in lines):
        return False
    filled = statistics.median(box[2] - box[0] for box in boxes) >= _FILLED * (right - left)
    return filled or _gutter(lines) is not None


def _rows(lines: list[OcrLine]) -> list[OcrLine]:
    """Pieces at the same height as one line."""
    rows: list[list[OcrLine]] = []
    for line in sorted(lines, key=_middle):
        if rows and _same_row(rows[-1][-1], line):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [
        OcrLine([word for piece in sorted(row, key=lambda one: one.box()[0]) for word in piece.words])
        for row in rows
    ]


def _same_row(one: OcrLine, other: OcrLine) -> bool:
    _, top, _, bottom = one.box()
    _, other_top, _, other_bottom = other.box()
    overlap = min(bottom, other_bottom) - max(top, other_top)
    return overlap > _SAME_ROW * min(bottom - top, other_bottom - other_top)


def _paragraphs(rows: list[OcrLine]) -> list[list[OcrLine]]:
    if not rows:
        return []
    steps = [_middle(below) - _middle(above) for above, below in pairwise(rows)]
    usual = statistics.median(steps) if steps else 0.0
    found = [[rows[0]]]
    for (above, below), step in zip(pairwise(rows), steps, strict=True):
        heights = sorted((max(1.0, above.height), max(1.0, below.height)))
        near = min(usual, 2.2 * heights[1]) if len(steps) > 1 else 1.5 * heights[1]
        if step > _NEW_PARAGRAPH * near or heights[1] > _OTHER_TYPE * heights[0]:
            found.append([])
        found[-1].append(below)
    return found


def _middle(line: OcrLine) -> float:
    _, top, _, bottom = line.box()
    return (top + bottom) / 2
