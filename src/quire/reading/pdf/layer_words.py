"""MuPDF's words of a page, with what is corrected in its lines corrected in them too.

Tables are made of words and paragraphs of lines: a letter that is mended in one must be mended in the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from quire.domain.element import Box, hull
from quire.reading.pdf.hidden_text import HiddenText, without_words
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.line_pieces import PageWord

Point = tuple[float, float]
Word = tuple[Any, ...]
"""Left, top, right and bottom of a word, and the word."""

_SLACK_PT = 0.5
_WORD = re.compile(r"\S+")


class LayerWords:
    """The words of one page in stored coordinates; they are taken from MuPDF when they are first asked for."""

    def __init__(self, extract: Callable[[], Sequence[Word]]) -> None:
        self._extract = extract
        self._found: list[Word] | None = None
        self._changes: list[tuple[Point, str, str]] = []

    def found(self) -> list[Word]:
        """All words, corrected."""
        if self._found is None:
            self._found = list(self._extract())
            for change in self._changes:
                self._apply(*change)
        return self._found

    def placed(self, hidden: Sequence[HiddenText], turn: Callable[[Box], Box]) -> list[PageWord]:
        """The words that the page shows, on the page as read."""
        words = self.found()
        shown = without_words(words, hidden) if hidden else words
        return [PageWord(w[4], turn(w[:4])) for w in shown]

    def correct(self, point: Point, word: str, corrected: str) -> None:
        """The word at the point is another one."""
        self._changes.append((point, word, corrected))
        if self._found is not None:
            self._apply(point, word, corrected)

    def correct_line(self, text: str, corrected: str, places: Sequence[tuple[int, Point]]) -> None:
        """The words of a line that differ are others. `places` are offsets of changed letters, and where these are."""
        for found, other in zip(_WORD.finditer(text), corrected.split(), strict=False):
            if found[0] != other:
                inside = (point for at, point in places if found.start() <= at < found.end())
                point = next(inside, None)
                if point is not None:
                    self.correct(point, found[0], other)

    def merge(self, words: Sequence[Word], text: str) -> None:
        """The words are one, at the place of the first."""
        gone = {id(word) for word in words[1:]}
        whole = (*hull([word[:4] for word in words]), text, *words[0][5:])
        self._found = [whole if word is words[0] else word for word in self.found() if id(word) not in gone]

    def corrected_words(self) -> dict[str, str]:
        """The corrected words by what they were at first."""
        found: dict[str, str] = {}
        for _, word, corrected in reversed(self._changes):
            found[word] = found.get(corrected, corrected)
        return found

    def _apply(self, point: Point, word: str, corrected: str) -> None:
        (x, y), words = point, self._found or []
        for place, (x0, y0, x1, y1, text, *rest) in enumerate(words):
            if text == word and x0 - _SLACK_PT <= x <= x1 + _SLACK_PT and y0 <= y <= y1:
                words[place] = (x0, y0, x1, y1, corrected, *rest)
                return


def with_corrections(
    blocks: Sequence[LayoutBlock], corrected: Mapping[str, str], layer: str
) -> list[LayoutBlock]:
    """The layout reader's blocks with the same corrections, but for words that the layer has also as they are."""
    known = set(layer.split())
    changes = {word: other for word, other in corrected.items() if word not in known}
    if not changes:
        return list(blocks)

    def mended(text: str) -> str:
        return " ".join(changes.get(word, word) for word in text.split(" "))

    return [
        replace(
            block,
            text=mended(block.text),
            lines=tuple(map(mended, block.lines)),
            rows=tuple(tuple(map(mended, row)) for row in block.rows),
        )
        for block in blocks
    ]
