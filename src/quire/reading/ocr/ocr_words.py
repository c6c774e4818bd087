"""Owns what OCR sees on a page: words with their places and how sure the reader is, in lines, in paragraphs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels."""

NOISE = 0.3
"""Words that their reader is less sure of than this are specks, not words."""
_LEAST_DOWN, _TALL = 3, 1.5


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
    """Words side by side. `is_loose`: they share the box of the line, which is taller than the type.

    `type_size` and `baseline` are those of its ink in pixels, where they were measured.
    """

    words: list[OcrWord]
    is_loose: bool = False
    type_size: float = 0.0
    baseline: float = 0.0

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
    is_over_budget: bool = False  # the careful reader was to read more lines than it did

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

    def weight(self) -> float:
        """How much was read, by characters and how sure they are; random marks weigh little."""
        return sum(len(word.text) * max(0.0, word.confidence - NOISE) for word in self.words())

    def is_on_its_side(self) -> bool:
        """Whether most lines of several words are taller than wide: in every script with spaces they are wider."""
        boxes = [line.box() for line in self.lines() if len(line.words) > 1]
        down = sum(bottom - top > _TALL * (right - left) for left, top, right, bottom in boxes)
        return down >= _LEAST_DOWN and 2 * down > len(boxes)

    def has_words_in(self, box: Box) -> bool:
        """Whether the middle of a word is in the box."""
        left, top, right, bottom = box
        return any(
            left <= (word.left + word.right) / 2 <= right and top <= (word.top + word.bottom) / 2 <= bottom
            for word in self.words()
        )

    def without_noise(self) -> RecognisedPage:
        """The same without the words that are none, and without what then is empty."""
        kept = replace(self, paragraphs=[])
        for paragraph in self.paragraphs:
            lines = [
                replace(line, words=words)
                for line in paragraph
                if (words := [word for word in line.words if word.confidence >= NOISE])
            ]
            if lines:
                kept.paragraphs.append(lines)
        return kept


def around(boxes: list[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)
