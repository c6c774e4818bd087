"""The words of a page with their places: finds a quotation in them, and the box of a stretch of text."""

from __future__ import annotations

import bisect
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

from quire.domain.element import Box, Element, ElementKind, PageElements, hull

_WORD = re.compile(r"[^\W_]+")
_FUZZY_SHARE = 0.75
_FUZZY_RATIO = 0.86
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A stretch of a page's text."""

    page: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class QuotedPlace:
    """The part of a span that is in one element, with its own text and box."""

    page: int
    element: Element
    box: Box | None
    text: str


def collapsed(text: str) -> str:
    """The text in one line, with single spaces."""
    return _SPACES.sub(" ", text).strip()


def words_of(text: str) -> list[str]:
    """The words of a text in normal form: compatible letters, one case, no punctuation."""
    return [_normal(found[0]) for found in _WORD.finditer(text)]


def _normal(word: str) -> str:
    return unicodedata.normalize("NFKC", word).casefold()


def element_words(element: Element) -> str:
    """All words of an element, with the name of a form field."""
    if element.kind is ElementKind.FORM_FIELD and element.marker:
        return f"{element.marker}: {element.text}"
    return element.plain_text or element.latex


class PageWords:
    """The text of a page: those of its elements, one below the other."""

    def __init__(self, page: PageElements) -> None:
        self.number = page.number
        self.elements = [one for one in page.elements if element_words(one)]
        self._starts: list[int] = []
        parts: list[str] = []
        at = 0
        for element in self.elements:
            text = element_words(element)
            self._starts.append(at)
            parts.append(text)
            at += len(text) + 1
        self.text = "\n".join(parts)

    @cached_property
    def _found(self) -> list[re.Match[str]]:
        return list(_WORD.finditer(self.text))

    @cached_property
    def words(self) -> list[str]:
        return [_normal(found[0]) for found in self._found]

    @cached_property
    def _positions(self) -> dict[str, list[int]]:
        positions: dict[str, list[int]] = {}
        for place, word in enumerate(self.words):
            positions.setdefault(word, []).append(place)
        return positions

    def occurrences(self, words: Sequence[str]) -> list[TextSpan]:
        """Every place where the page has these words in this order, with nothing but punctuation between them."""
        if not words:
            return []
        count = len(words)
        wanted = list(words)
        return [
            self._span(place, place + count)
            for place in self._positions.get(words[0], ())
            if self.words[place : place + count] == wanted
        ]

    def similar(self, words: Sequence[str]) -> TextSpan | None:
        """The place that is most like these words; None where no place is like them."""
        best, at = 0.0, -1
        count, wanted = len(words), set(words)
        joined = " ".join(words)
        if count < 2:
            return None
        matcher = SequenceMatcher(autojunk=False)
        matcher.set_seq2(joined)
        for place in range(max(1, len(self.words) - count + 1)):
            window = self.words[place : place + count]
            score = sum(word in wanted for word in window) / count
            if score < _FUZZY_SHARE:
                matcher.set_seq1(" ".join(window))
                likely = matcher.real_quick_ratio() >= _FUZZY_RATIO and matcher.quick_ratio() >= _FUZZY_RATIO
                ratio = matcher.ratio() if likely else 0.0
                score = ratio if ratio >= _FUZZY_RATIO else 0.0
            if score > best:
                best, at = score, place
        return None if at < 0 or best < _FUZZY_SHARE else self._span(at, min(at + count, len(self.words)))

    def _span(self, first: int, end: int) -> TextSpan:
        return TextSpan(self.number, self._found[first].start(), self._found[end - 1].end())

    def said(self, span: TextSpan) -> str:
        """The page's own text of a span."""
        return self.text[span.start : span.end]

    def places(self, span: TextSpan) -> list[QuotedPlace]:
        """The elements of a span, each with the box of its lines in it, or its own box where lines are not known."""
        found: list[QuotedPlace] = []
        first = bisect.bisect_right(self._starts, span.start) - 1
        for at in range(max(0, first), len(self.elements)):
            begin = self._starts[at]
            if begin >= span.end:
                break
            element = self.elements[at]
            text = element_words(element)
            start, end = max(0, span.start - begin), min(len(text), span.end - begin)
            if text[start:end].strip():
                found.append(QuotedPlace(self.number, element, _box(element, start, end), text[start:end]))
        return found


def _box(element: Element, start: int, end: int) -> Box | None:
    boxes = list(_line_boxes(element, start, end))
    return hull(boxes) if boxes else element.box


def _line_boxes(element: Element, start: int, end: int) -> Iterator[Box]:
    if element.kind is ElementKind.FORM_FIELD or element.table is not None:
        return
    for place, line in enumerate(element.lines):
        following = element.lines[place + 1].start if place + 1 < len(element.lines) else len(element.text)
        if line.start < end and start < following:
            yield line.box
