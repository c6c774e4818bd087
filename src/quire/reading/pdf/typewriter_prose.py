"""Tells prose in typewriter type from code: all type of the page is of one width, and sentences run on over lines.

Weakness: code between such prose is told by its signs alone, so that a line of words in it becomes text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from quire.reading.pdf.text_lines import TextLine

_MOSTLY = 0.9
_LEAST_LINES = 4
_RUNS_ON = 0.4
_WORDY = 0.8
_LEAST_WORDS = 4
_LETTER_OR_SPACE = re.compile(r"[^\W\d_]|\s")
_CODE = re.compile(r"[{};]$|^[{}#]|\(\)|[=!]=|[-=]>|[+|][-=]{2}")
_FEW = 2
_CUT = re.compile(r"[^\W\d_][-,]?$")


def is_typewritten_prose(lines: Sequence[TextLine]) -> bool:
    """Whether nearly all letters of a page are of one width, and sentences run on from line to line."""
    upright = [line for line in lines if line.upright]
    letters = sum(len(line.text) for line in upright)
    if sum(len(line.text) for line in upright if line.mono) < _MOSTLY * letters:
        return False
    rows = sorted(upright, key=lambda line: (round(line.middle[1]), line.box[0]))
    long = [line.text for line in rows if line.text.count(" ") >= _LEAST_WORDS - 1]
    if len(long) < _LEAST_LINES:
        return False
    running = sum(_runs_on(*pair) for pair in pairwise(long))
    return running >= _RUNS_ON * (len(long) - 1) and are_words(long)


def may_have_code(lines: Sequence[TextLine]) -> bool:
    """Whether several lines end or begin as code does. Items of a list that end with a semicolon do too."""
    return sum(_CODE.search(line.text) is not None for line in lines) >= _FEW


def _runs_on(text: str, following: str) -> bool:
    """Whether a line ends in the middle of a sentence, which the next one goes on with."""
    return _CUT.search(text) is not None and following[0].islower()


def are_words(texts: Sequence[str]) -> bool:
    """Whether texts are of words: code and drawings made of signs have more signs than sentences do."""
    signs = sum(len(text) for text in texts)
    return signs > 0 and sum(len(_LETTER_OR_SPACE.findall(text)) for text in texts) >= _WORDY * signs
