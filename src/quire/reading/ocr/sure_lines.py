"""Lines of prose that the quick reader has surely read, so that the careful reader need not read them again.

On a page that the quick reader can't read as a whole it reads many lines without a fault. A line counts if it fills the
box that the careful reader has found, if each of its words is sure, and if it is prose: in figures, brackets and short
labels the quick reader errs without a doubt, and in a language whose model it doesn't have it drops accents.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from quire.reading.ocr.ocr_words import Box, OcrLine, OcrWord

if TYPE_CHECKING:
    from quire.reading.ocr.ocr_words import RecognisedPage

SURELY_READ = 0.99
"""How sure the careful reader is of such lines, on average, where it reads them."""

_SURE = 0.94
_LEAST_WORDS = 3
_PROSE = re.compile(r"[\"'“”‘’(]?[^\W\d_]+(?:[-'’][^\W\d_]+)*[.,;:!?)\"'“”‘’-]{0,2}")
_EDGE, _GAP, _OUTSIDE = 1.2, 1.5, 0.5
"""In heights of the box: how much of its width may be without words, at its ends and between two words, and how far a
word may reach out of it.
"""


@dataclass(frozen=True, slots=True)
class SureLines:
    """The lines of a page that the quick reader has read in the page's language."""

    lines: tuple[tuple[Box, OcrLine], ...] = ()

    @classmethod
    def of(cls, seen: RecognisedPage) -> SureLines:
        return cls(tuple((line.box(), line) for line in seen.lines()))

    def text_in(self, box: Box) -> str | None:
        """The text of the one line that fills the box; None where there is none, or it is not sure."""
        words = self._words_in(box)
        is_sure = len(words) >= _LEAST_WORDS and all(map(_is_sure, words)) and not _may_hold_full_stop(words)
        return " ".join(word.text for word in words) if is_sure and _fills(words, box) else None

    def guess_in(self, box: Box) -> tuple[str, float] | None:
        """The text of the one line that fills the box, sure or not, and how sure its reader is of a character."""
        words = self._words_in(box)
        if not words or not _fills(words, box):
            return None
        sure = sum(word.confidence * len(word.text) for word in words) / sum(len(word.text) for word in words)
        return " ".join(word.text for word in words), sure

    def _words_in(self, box: Box) -> list[OcrWord]:
        """The words in the box from left to right, where they are of one line; else none."""
        inside = [
            words
            for around, line in self.lines
            if _overlap(around, box) and (words := [word for word in line.words if _is_in(word, box)])
        ]
        return sorted(inside[0], key=lambda word: word.left) if len(inside) == 1 else []


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _is_in(word: OcrWord, box: Box) -> bool:
    left, top, right, bottom = box
    return left <= (word.left + word.right) / 2 <= right and top <= (word.top + word.bottom) / 2 <= bottom


def _is_sure(word: OcrWord) -> bool:
    return word.confidence >= _SURE and _PROSE.fullmatch(word.text) is not None


def _may_hold_full_stop(words: list[OcrWord]) -> bool:
    """Whether a comma is before a capital: the quick reader often takes a full stop with a speck for a comma."""
    return any(one.text.endswith(",") and after.text[0].isupper() for one, after in pairwise(words))


def _fills(words: list[OcrWord], box: Box) -> bool:
    left, top, right, bottom = box
    height = bottom - top
    first, last = words[0].left, max(word.right for word in words)
    gaps = [after.left - before.right for before, after in pairwise(words)]
    return (
        (right - left) - (last - first) <= _EDGE * height
        and first >= left - _OUTSIDE * height
        and last <= right + _OUTSIDE * height
        and max(gaps, default=0) <= _GAP * height
    )
