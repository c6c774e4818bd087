"""Joins a drop cap with its word: a letter as high as several lines, which begin beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from quire.reading.pdf.text_lines import TextLine

_CAPITAL = re.compile(r"[\"'“‘„«]?[^\W\d_]")
_LARGER, _LARGEST = 1.8, 12.0
_LEAST_BESIDE, _LEAST_WORDS = 2, 3
_GAP_EM = 1.2
_OVERLAP_EM = 0.4
_MOST_CAPS = 20
_WORDS = frozenset("AIOaio")
"""Letters that are words by themselves."""


def with_drop_caps(lines: Sequence[TextLine]) -> list[TextLine]:
    """The lines, each drop cap as the first letter of the first line beside it.

    The other lines beside it begin where it does: they are of its paragraph, and not indented.
    """
    caps = [line for line in lines if len(line.text) <= 2 and line.upright and _is_capital(line.text)]
    if not 0 < len(caps) <= _MOST_CAPS:
        return list(lines)
    changed: dict[int, TextLine | None] = {}
    for cap in caps:
        beside = _beside(cap, lines)
        if beside:
            first = beside[0]
            changed[id(cap)] = None
            changed[id(first)] = _from(cap, replace(first, text=_joined(cap.text, first.text, lines)))
            changed |= {id(line): _from(cap, line) for line in beside[1:]}
    return [line for one in lines if (line := changed.get(id(one), one)) is not None]


def _is_capital(text: str) -> bool:
    return text[-1].isupper() and _CAPITAL.fullmatch(text) is not None


def _beside(cap: TextLine, lines: Sequence[TextLine]) -> list[TextLine]:
    """The lines that begin right beside the letter, from top to bottom; none if it is no drop cap.

    They have several words, and are not all entries below their letter.
    """
    _, top, right, bottom = cap.box
    found = [
        line
        for line in lines
        if line.upright
        and _LARGER * line.size <= cap.size <= _LARGEST * line.size
        and -_OVERLAP_EM * line.size <= line.box[0] - right <= _GAP_EM * line.size
        and top - line.size / 2 < line.middle[1] < bottom
    ]
    found.sort(key=lambda line: line.middle[1])
    if len(found) < _LEAST_BESIDE or found[0].middle[1] > (top + bottom) / 2:
        return []
    first, second = found[0], found[1]
    if first.text.count(" ") < _LEAST_WORDS - 1 or not first.text[0].isalpha():
        return []
    letter = cap.text[-1].lower()
    return [] if first.text[0].lower() == letter == second.text[0].lower() else found


def _from(cap: TextLine, line: TextLine) -> TextLine:
    """The line, beginning where the letter does."""
    return replace(line, box=(cap.box[0], *line.box[1:]))


def _joined(letter: str, text: str, lines: Sequence[TextLine]) -> str:
    """The letter before the text. "A" is a word by itself before what is a word elsewhere on the page."""
    word = text.split(" ", 1)[0]
    if letter[-1] in _WORDS and len(word) > 1:
        whole = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.I)
        if sum(len(whole.findall(line.text)) for line in lines) > 1:
            return f"{letter} {text}"
    return letter + text
