"""Compares the elements of a model's answer with the words that the page itself has.

An element that enough of the page's words support gets their box; its confidence is the share of its words that the
page has there. One that is not supported, or has a number that the
page has not, is marked, so that an invented sentence or number can be seen and counted.

Where the page's text layer supports too little of an answer, as on a scan, the answer is compared with the words that
OCR sees as well.

Weakness: words that neither the text layer nor OCR has are marked also where the answer is right; descriptions of
figures are marked too, but are not counted; numbers in them are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from quire.domain.element import Box, Element, ElementKind, PageElements, hull
from quire.domain.element_codec import encode
from quire.reading.files.document_source import PdfSource, open_documents
from quire.reading.office.office_elements import office_elements
from quire.reading.pdf.block_matching import compact
from quire.reading.pdf.line_pieces import PageWord
from quire.reading.pdf.mupdf import text_flags
from quire.reading.pdf.reading_direction import View, view_of

if TYPE_CHECKING:
    from quire.reading.ocr.page_ocr import OcrOptions

READER_AI = "ai"
_LEAST_WORDS = 5
_ENOUGH = 0.6
_SLACK = 6
_MOST_PLACES = 24
_STEP = 3
_LONG = 6
_TOGETHER = 0.4
"""Of the words of a longer text at least this share is followed by the word that follows it on the page."""
_DIGITS = re.compile(r"\d")
_DESCRIPTION = re.compile(r"\s*\[.*\]\s*", re.DOTALL)
"""The system prompt asks for figures and their descriptions in square brackets."""


@dataclass(frozen=True, slots=True)
class GroundedAnswer:
    """The stored form of an answer's elements, how many have no ground, and how many numbers have none.

    `support` is the share of its characters that are in elements with ground; None where nothing was compared.
    """

    elements: bytes
    ungrounded: int = 0
    ungrounded_numbers: int = 0
    support: float | None = None


def ground_answer(path: str, password: str | None, number: int, answer: str, trusted: bool) -> GroundedAnswer:
    """The elements of a model's answer about page `number`, compared with the words of the page's text layer.

    `trusted` says whether the page's own text can be read. Raises what opening the document raises.
    """
    source = open_documents().get(path, password)
    words: list[PageWord] = []
    size = (0.0, 0.0)
    if isinstance(source, PdfSource):
        view, words = _words_of(source, number)
        size = view.size
    return _packed(number, answer, words if trusted else [], size)


def ground_by_ocr(
    path: str, password: str | None, number: int, answer: str, options: OcrOptions
) -> GroundedAnswer:
    """The same, compared with the words that OCR sees. Raises PageError if the page can't be drawn or read by OCR."""
    from quire.reading.ocr.page_ocr import recognised_words

    words, size, turns = recognised_words(path, password, number, options)
    return _packed(number, answer, words, size, turns)


def _packed(
    number: int, answer: str, words: Sequence[PageWord], size: tuple[float, float], turns: int = 0
) -> GroundedAnswer:
    from quire.reading.files.markdown_elements import markdown_elements

    found = ground(markdown_elements(answer, number), words)
    page = PageElements(number, found.elements, READER_AI, *size, turns)
    return GroundedAnswer(encode(page), found.ungrounded, found.ungrounded_numbers, found.support)


def answer_without_ground(number: int, answer: str) -> GroundedAnswer:
    """The elements of a model's answer about a page that can't be compared with it."""
    return _packed(number, answer, (), (0.0, 0.0))


def pack_own_markdown(markdown: str, number: int, reader: str) -> GroundedAnswer:
    """The elements of a page whose Markdown our office readers wrote."""
    return GroundedAnswer(encode(PageElements(number, office_elements(markdown, number), reader)))


def _words_of(source: PdfSource, number: int) -> tuple[View, list[PageWord]]:
    page = source.page(number)
    textpage = page.get_textpage(flags=text_flags())
    view = view_of(page, textpage.extractDICT())
    return view, [PageWord(word[4], view.turn(word[:4])) for word in textpage.extractWORDS()]


@dataclass(frozen=True, slots=True)
class Grounded:
    """`support` is the share of characters in elements with ground, descriptions of figures left out."""

    elements: tuple[Element, ...]
    ungrounded: int
    ungrounded_numbers: int
    support: float | None = None


def ground(elements: Sequence[Element], words: Sequence[PageWord]) -> Grounded:
    """The elements with boxes and marks. With hardly any words on the page nothing is known of any of them."""
    if len(words) < _LEAST_WORDS:
        return Grounded(tuple(replace(element, grounded=None) for element in elements), 0, 0)
    page = _PageIndex(words)
    grounded = [page.ground(element) for element in elements]
    marked = tuple(element for element, _ in grounded)
    return Grounded(
        marked,
        sum(element.grounded is False and not _is_description(element) for element in marked),
        sum(count for _, count in grounded),
        _support(marked),
    )


def _support(elements: Sequence[Element]) -> float | None:
    sizes = [
        (len(compact(element.plain_text)), element.grounded)
        for element in elements
        if element.grounded is not None and not _is_description(element)
    ]
    total = sum(size for size, _ in sizes)
    return sum(size for size, is_grounded in sizes if is_grounded) / total if total else None


def _is_description(element: Element) -> bool:
    return _DESCRIPTION.fullmatch(element.plain_text) is not None


class _PageIndex:
    """Where each word of the page is, and which numbers the page has."""

    def __init__(self, words: Sequence[PageWord]) -> None:
        self._boxes = [word.box for word in words]
        self._places: dict[str, list[int]] = {}
        keys = [compact(word.text) for word in words]
        for place, key in enumerate(keys):
            if key:
                self._places.setdefault(key, []).append(place)
            if words[place].text.endswith(("-", "\u00ad")) and place + 1 < len(keys):
                self._places.setdefault(key + keys[place + 1], []).append(place)
        runs = "".join(key if key.isdigit() else " " for key in keys)  # 1 204 is one number
        self._numbers = {key for key in keys if _DIGITS.search(key)} | set(runs.split())
        self._digits = {"".join(filter(str.isdigit, key)) for key in self._numbers}

    def ground(self, element: Element) -> tuple[Element, int]:
        """The element with its box and its mark, and how many of its numbers the page has not."""
        keys = [key for word in element.plain_text.split() if (key := compact(word))]
        if not keys:
            return replace(element, grounded=None), 0
        unknown = sum(
            "".join(filter(str.isdigit, key)) not in self._digits for key in keys if _DIGITS.search(key)
        )
        is_table = element.kind is ElementKind.TABLE
        places = self._anywhere(keys) if is_table else self._nearest(keys)
        supported = len(places) >= _ENOUGH * len(keys)
        box = self._box(places) if supported else None
        share = round(len(places) / len(keys), 3)
        return replace(element, box=box, confidence=share, grounded=supported and not unknown), unknown

    def _anywhere(self, keys: Sequence[str]) -> list[int]:
        """A place for each of the keys: the cells of a table may be in any order."""
        return [self._places[key][0] for key in keys if key in self._places]

    def _nearest(self, keys: Sequence[str]) -> list[int]:
        """One place for each of the keys, all of them close together in the order of the page, as many as possible."""
        marks = sorted(
            (place, i) for i, key in enumerate(keys) for place in self._places.get(key, ())[:_MOST_PLACES]
        )
        reach = len(keys) + len(keys) // 2 + _SLACK
        best: tuple[int, int, int] = (0, 0, 0)
        counts: dict[int, int] = {}
        start = 0
        for end, (place, i) in enumerate(marks):
            counts[i] = counts.get(i, 0) + 1
            while place - marks[start][0] > reach:
                gone = marks[start][1]
                counts[gone] -= 1
                if not counts[gone]:
                    del counts[gone]
                start += 1
            if len(counts) > best[0]:
                best = (len(counts), start, end)
        window = marks[best[1] : best[2] + 1] if best[0] else []
        return self._in_order(window)

    def _in_order(self, window: Sequence[tuple[int, int]]) -> list[int]:
        """For each word of the element the place that fits the order best; none where the order is all different."""
        if not window:
            return []
        offsets = sorted(place - i for place, i in window)
        middle = offsets[len(offsets) // 2]
        taken: dict[int, int] = {}
        for place, i in window:
            if i not in taken or abs(place - i - middle) < abs(taken[i] - i - middle):
                taken[i] = place
        together = sum(0 < taken[i + 1] - taken[i] <= _STEP for i in taken if i + 1 in taken)
        if len(taken) >= _LONG and together < _TOGETHER * len(taken):
            return []
        return sorted(taken.values())

    def _box(self, places: Sequence[int]) -> Box:
        return hull([self._boxes[place] for place in places])
