"""What OCR sees on a page: words with their places and how sure the reader is, in lines, in paragraphs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels."""

NOISE = 0.3
"""Words that their reader is less sure of than this are specks, not words."""

_CELL_GAP = 1.8


@dataclass(frozen=True, slots=True)
class Word:
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
class Line:
    words: list[Word]

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def height(self) -> float:
        return statistics.median(word.height for word in self.words)

    def box(self) -> Box:
        return around([word.box for word in self.words])

    def cells(self) -> list[list[Word]]:
        """The words, cut where the gap between two is much wider than a space."""
        found = [[self.words[0]]]
        for before, word in zip(self.words, self.words[1:], strict=False):
            if word.left - before.right > _CELL_GAP * self.height:
                found.append([])
            found[-1].append(word)
        return found


@dataclass(slots=True)
class Seen:
    """What was recognised: paragraphs of lines, and boxes without words."""

    width: int
    height: int
    paragraphs: list[list[Line]] = field(default_factory=list)
    blank: list[Box] = field(default_factory=list)

    def lines(self) -> Iterator[Line]:
        for paragraph in self.paragraphs:
            yield from paragraph

    def words(self) -> Iterator[Word]:
        for line in self.lines():
            yield from line.words

    def confidence(self) -> float | None:
        """How sure the reader is of a character, on average; None where there are no words."""
        weights = [(word.confidence, len(word.text)) for word in self.words()]
        total = sum(length for _, length in weights)
        return sum(sure * length for sure, length in weights) / total if total else None

    def without_noise(self) -> Seen:
        """The same without the words that are none, and without what then is empty."""
        kept = Seen(self.width, self.height, blank=self.blank)
        for paragraph in self.paragraphs:
            lines = [
                Line(words)
                for line in paragraph
                if (words := [word for word in line.words if word.confidence >= NOISE])
            ]
            if lines:
                kept.paragraphs.append(lines)
        return kept


def around(boxes: list[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def joined(lines: Iterable[str]) -> str:
    """Lines as one text; a word that was hyphenated at a line's end is whole again."""
    text = ""
    for line in lines:
        hyphenated = text.endswith("-") and line[:1].islower()
        text = text[:-1] + line if hyphenated else f"{text} {line}".strip()
    return text
