"""Estimates the boxes of words from the boxes of their lines, by the widths that letters usually have.

Weakness: the place in the line is an estimate (docs/outputs.md has its error); top and bottom are those of the line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from quire.domain.element import Box, Element

_WORD = re.compile(r"\S+")
_WIDTHS = {
    **dict.fromkeys("iljI.,:;'|!`", 0.26),
    **dict.fromkeys(' ftr()[]{}/\\-"', 0.32),
    **dict.fromkeys("mMW@%\u2014", 0.84),
    "w": 0.72,
}
_UPPER, _OTHER, _WIDE = 0.69, 0.53, 1.0


class WordPlace(NamedTuple):
    """A word: where it begins and ends in the element's text, and its box."""

    start: int
    end: int
    box: Box


def line_words(element: Element) -> Iterator[WordPlace]:
    """The words of an element whose lines are known, line by line."""
    ends = [line.start for line in element.lines[1:]] + [len(element.text)]
    for line, end in zip(element.lines, ends, strict=True):
        text = element.text[line.start : end].rstrip()
        lead = f"{element.marker} " if line.start == 0 and element.marker else ""
        widths = [_width(letter) for letter in lead + text]
        whole = sum(widths)
        x0, y0, x1, y1 = line.box
        share = (x1 - x0) / whole if whole else 0.0
        before = [0.0]
        for width in widths:
            before.append(before[-1] + width)
        for word in _WORD.finditer(text):
            left = x0 + before[word.start() + len(lead)] * share
            right = x0 + before[word.end() + len(lead)] * share
            yield WordPlace(line.start + word.start(), line.start + word.end(), (left, y0, right, y1))


def _width(letter: str) -> float:
    """The width of a letter as a share of the height of its font."""
    known = _WIDTHS.get(letter)
    if known is not None:
        return known
    if letter > "\u2e80" and unicodedata.east_asian_width(letter) in "WF":
        return _WIDE
    return _UPPER if letter.isupper() else _OTHER
