"""Counts the lines of a page that no reader is sure of, though the rest is sure: words by hand in a printed form.

On print the careful reader is less sure than .95 of a line only where the picture is poor, and then of many lines; the
quick reader, which was trained on print, can't read words by hand at all (.5 at most).
"""

from __future__ import annotations

from quire.reading.ocr.ocr_words import Box, OcrWord, RecognisedPage

_LEAST_LETTERS = 4
_UNSURE, _UNKNOWN = 0.95, 0.5


def unknown_lines(seen: RecognisedPage, quick: RecognisedPage | None) -> int:
    """How many lines of four letters and more, in what is kept, neither reader is sure of.

    Where the quick reader has not read the page, nothing speaks for a line that the careful one is not sure of.
    """
    words = list(quick.words()) if quick else []
    found = 0
    for line in seen.lines():
        letters = sum(letter.isalnum() for word in line.words for letter in word.text)
        if letters >= _LEAST_LETTERS and _sureness(line.words) < _UNSURE:
            box = line.box()
            found += _sureness([word for word in words if _is_inside(word, box)]) < _UNKNOWN
    return found


def _is_inside(word: OcrWord, box: Box) -> bool:
    x, y = (word.left + word.right) / 2, (word.top + word.bottom) / 2
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _sureness(words: list[OcrWord]) -> float:
    """How sure a reader is of a letter of these words; 0 where it has none."""
    letters = sum(len(word.text) for word in words)
    return sum(word.confidence * len(word.text) for word in words) / letters if letters else 0.0
