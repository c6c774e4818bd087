"""Measures the type of lines that OCR has read: its size and the height of its baseline.

The careful reader's lines come with the ink that was measured in them. Those of the quick reader are measured by the
boxes of their words, which are those of the letters on most lines, but as tall as the row on lines of few long words
with wide spaces. So where the size of a line is not that of most lines, its ink is measured too: a heading has the size
that was found, a row of a justified paragraph has not.
"""

from __future__ import annotations

import re
import statistics
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from quire.reading.ocr.line_ink import line_inks
from quire.reading.ocr.ocr_words import Box, OcrLine, RecognisedPage

if TYPE_CHECKING:
    from PIL import Image

_ASCENT, _X_HEIGHT, _DESCENT = 0.72, 0.5, 0.21
_LOOSE = 1.22
"""Boxes of whole lines, as the careful reader draws them, are taller than the type by this factor."""
_SAME_SIZE = 0.13
"""Sizes that differ by less than this share are one size, measured twice."""
_TALL = re.compile(r"[A-Z0-9bdfhklt!?()\[\]{}/|&%$#@\"'“”‘’ßþðłøбфђћіїβδζθλξφψ]")
_DEEP = re.compile(r"[gjpqyQ,;()\[\]{}/|@ß$„þруфцщдβγζημξρςφχψ]")
_ABOVE, _BELOW = (230, 232), (202, 220)
"""The classes of combining signs above and below a letter."""
_AROUND = 0.25
"""How much is added above and below a box of letters, in its heights, so that it holds the whole line."""


@dataclass(frozen=True, slots=True)
class LineType:
    """The size of a line's type and the height of its baseline, in pixels."""

    size: float
    baseline: float


def body_size(lines: Sequence[OcrLine]) -> float | None:
    """The size of the type of most characters, in pixels; None where there are none."""
    weights = [(_type_of(line).size, len(line.text)) for line in lines]
    return _weighted_median(weights) if weights else None


def with_measured_types(seen: RecognisedPage, picture: Image.Image) -> RecognisedPage:
    """The page with the ink of those of its lines measured whose size is not that of most of them."""
    import numpy as np

    lines = [line for line in seen.lines() if not line.is_loose]
    usual = body_size(lines)
    if usual is None:
        return seen
    odd = [line for line in lines if abs(_type_of(line).size - usual) > _SAME_SIZE * usual]
    if not odd:
        return seen
    boxes = [_padded(line.box()) for line in odd]
    inks = line_inks(255 - np.asarray(picture.convert("L")), boxes, [line.text for line in odd])
    measured = {
        id(line): replace(line, type_size=ink.size, baseline=ink.baseline)
        for line, ink in zip(odd, inks, strict=True)
        if ink is not None
    }
    paragraphs = [[measured.get(id(line), line) for line in paragraph] for paragraph in seen.paragraphs]
    return replace(seen, paragraphs=paragraphs)


def _padded(box: Box) -> Box:
    left, top, right, bottom = box
    around = round(_AROUND * (bottom - top))
    return left, top - around, right, bottom + around


def types_of(lines: Sequence[OcrLine]) -> list[LineType]:
    """The type of each line, sizes that are nearly equal made equal: OCR measures them in whole pixels."""
    found = [_type_of(line) for line in lines]
    weights = [(one.size, len(line.text)) for one, line in zip(found, lines, strict=True)]
    usual = _usual_sizes(weights)
    return [LineType(_nearest(one.size, usual), one.baseline) for one in found]


def _nearest(size: float, usual: Sequence[float]) -> float:
    return min(usual, key=lambda one: abs(one - size))


def _usual_sizes(weights: Sequence[tuple[float, int]]) -> list[float]:
    """The sizes of the page, those of most characters first; each is used for all that are near it."""
    rest = list(weights)
    usual: list[float] = []
    while rest:
        size = _weighted_median(rest)
        usual.append(size)
        rest = [one for one in rest if abs(one[0] - size) > _SAME_SIZE * size]
    return usual


def _type_of(line: OcrLine) -> LineType:
    words = line.words
    if line.type_size:
        return LineType(line.type_size, line.baseline)
    if line.is_loose:
        above, below = _extent(line.text)
        tall = words[0].height / _LOOSE
        size = tall / (above + below)
        middle = (words[0].top + words[0].bottom) / 2
        return LineType(size, middle + tall / 2 - below * size)
    sizes = [(word.height / sum(_extent(word.text)), len(word.text)) for word in words]
    size = _weighted_median(sizes)
    bases = [word.bottom - _extent(word.text)[1] * size for word in words]
    return LineType(size, statistics.median(bases))


def _extent(text: str) -> tuple[float, float]:
    """How far the text reaches above and below its baseline, in sizes."""
    if text.isascii():
        return _ASCENT if _TALL.search(text) else _X_HEIGHT, _DESCENT if _DEEP.search(text) else 0.0
    if any(unicodedata.east_asian_width(sign) in "WF" for sign in text):
        return 0.84, 0.1
    signs = unicodedata.normalize("NFD", text)
    marks = set(map(unicodedata.combining, signs))
    has_small = any(map(str.islower, signs))
    is_tall = (
        not has_small or any(map(str.isupper, signs)) or _TALL.search(signs) or marks.intersection(_ABOVE)
    )
    is_deep = _DEEP.search(signs) or marks.intersection(_BELOW)
    return _ASCENT if is_tall else _X_HEIGHT, _DESCENT if is_deep else 0.0


def _weighted_median(values: Iterable[tuple[float, int]]) -> float:
    ordered = sorted(values)
    half = sum(weight for _, weight in ordered) / 2
    for value, weight in ordered:
        half -= weight
        if half <= 0:
            return value
    return ordered[-1][0]
