"""Finds the marks of list items that OCR has left out, by the ink of the page.

The careful reader drops a bullet without a word: its box of a line holds the mark, and the words that it gives are
spread over the whole box. So a small, filled shape is looked for that is the first one of its line, with a gap behind
it that no two letters of a word have between them. Specks look like that too, so a mark counts only beside another one
of its size, at the same place before its line. The words of such a line begin where the ink behind the mark begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from quire.reading.ocr.list_marks import BULLET, begins_with_mark
from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage
from quire.reading.ocr.unread_ink import PageShapes

if TYPE_CHECKING:
    from quire.reading.ocr.unread_ink import Pixels

_FEWEST_LETTERS = 3
_BEFORE, _INSIDE = 4.0, 2.5
"""How far before and behind the beginning of a line a mark may be, in heights of small letters."""
_SMALLEST, _LARGEST, _LETTER_SIZED = 0.17, 1.5, 0.8
_ROUND = 0.6
_FILLED, _SOLID = 0.55, 0.8
_GAP = 0.45
_OFF_MIDDLE = 0.45
_SAME_PLACE, _SAME_SIZE, _PIXELS_OFF = 0.25, 0.35, 2.5


@dataclass(frozen=True, slots=True)
class _Mark:
    """A shape that may be the mark of a line, in pixels; `text_left` is where the ink behind it begins."""

    line: OcrLine
    left: float
    top: float
    right: float
    bottom: float
    text_left: float
    small_letter: float

    @property
    def size(self) -> float:
        return self.bottom - self.top

    def is_like(self, other: _Mark) -> bool:
        near = _SAME_PLACE * self.small_letter
        return (
            abs(self.left - other.left) <= near
            and abs(self.text_left - other.text_left) <= 2 * near
            and abs(self.size - other.size) <= max(_SAME_SIZE * max(self.size, other.size), _PIXELS_OFF)
        )


def with_lost_marks(seen: RecognisedPage, page: PageShapes) -> RecognisedPage:
    """The page with a bullet before each line whose mark the reader has left out."""
    lines = [line for line in seen.lines() if line.words]
    places = _Places(page)
    found = [mark for line in lines if (mark := places.mark_of(line, lines)) is not None]
    kept = {
        id(mark.line): mark
        for mark in found
        if any(other is not mark and mark.is_like(other) for other in found)
    }
    lost = {at: mark for at, mark in kept.items() if not begins_with_mark(mark.line)}
    if not lost:
        return seen
    paragraphs = [
        [_with_mark(lost[id(line)]) if id(line) in lost else line for line in paragraph]
        for paragraph in seen.paragraphs
    ]
    return replace(seen, paragraphs=paragraphs)


class _Places:
    """The shapes of ink of a page by their height on it."""

    def __init__(self, page: PageShapes) -> None:
        import numpy as np

        shapes = page.shapes[:, :5] * np.array([page.ratio] * 4 + [page.ratio**2], dtype=np.float32)
        middles = (shapes[:, 1] + shapes[:, 3]) / 2
        order = np.argsort(middles)
        self._shapes, self._middles = shapes[order], middles[order]

    def mark_of(self, line: OcrLine, lines: Sequence[OcrLine]) -> _Mark | None:
        """The first shape of a line, if it looks like a mark."""
        import numpy as np

        if sum(len(word.text) for word in line.words) < _FEWEST_LETTERS:
            return None
        left, top, right, bottom = line.box()
        first, after = np.searchsorted(self._middles, (top, bottom))
        level = self._shapes[first:after]
        inside = level[(level[:, 2] > left) & (level[:, 0] < right)]
        if len(inside) < _FEWEST_LETTERS:
            return None
        small = float(np.median(inside[:, 3] - inside[:, 1]))
        begin = max(left - _BEFORE * small, _end_before(line, lines))
        level = level[level[:, 0] >= begin]
        level = level[np.argsort(level[:, 0])]
        if len(level) < 2 or level[0, 0] > left + _INSIDE * small:
            return None
        middle = float(np.median((inside[:, 1] + inside[:, 3]) / 2))
        return _as_mark(line, level[0], level[1:], small, middle)


def _end_before(line: OcrLine, lines: Sequence[OcrLine]) -> float:
    """Where the words to the left of a line end."""
    left, top, _, bottom = line.box()
    ends = [
        other.right
        for one in lines
        if one is not line
        for other in (one.words[-1],)
        if other.right <= left + (bottom - top) / 2 and other.top < bottom and top < other.bottom
    ]
    return float(max(ends, default=0))


def _as_mark(line: OcrLine, shape: Pixels, behind: Pixels, small: float, middle: float) -> _Mark | None:
    left, top, right, bottom, area = (float(value) for value in shape)
    width, height = right - left, bottom - top
    is_sized = _SMALLEST * small <= height <= _LARGEST * small
    if not is_sized or min(width, height) < _ROUND * max(width, height):
        return None
    if area < (_SOLID if height > _LETTER_SIZED * small else _FILLED) * width * height:
        return None
    text_left = float(behind[:, 0].min())
    if text_left - right < _GAP * small or abs((top + bottom) / 2 - middle) > _OFF_MIDDLE * small:
        return None
    return _Mark(line, left, top, right, bottom, text_left, small)


def _with_mark(mark: _Mark) -> OcrLine:
    line = mark.line
    left, top, right, bottom = line.box()
    words = line.words
    if mark.text_left > left + 1 and right > mark.text_left:
        # The reader's box has the mark in it: its words are moved to the ink that they are of.
        scale = (right - mark.text_left) / max(1, right - left)
        words = [
            replace(
                word,
                left=round(mark.text_left + (word.left - left) * scale),
                right=round(mark.text_left + (word.right - left) * scale),
            )
            for word in words
        ]
    bullet = OcrWord(round(mark.left), top, round(mark.right), bottom, BULLET, words[0].confidence)
    return replace(line, words=[bullet, *words])
