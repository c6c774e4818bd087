"""Compares the elements of a model's answer with the words that the page itself has.

An element that enough of the page's words support gets their box; its confidence is the share of its words that the
page has there. One that is not supported, that has a sentence or a number which the page has not, or that says again
what an earlier one has said, is marked, so that an invented sentence or number can be seen and counted. Single words
that the page has not at that place (`answer_words.py`) are counted: with any of them an answer is not good.

Where the page's text layer supports too little of an answer, as on a scan, the answer is compared with the words that
OCR sees as well.

Weakness: words that neither the text layer nor OCR has are marked also where the answer is right; descriptions of
figures are marked too, but are not counted; numbers in them are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from quire.domain.element import Box, Element, ElementKind, PageElements, hull
from quire.domain.element_codec import encode
from quire.domain.element_tree import renumbered
from quire.errors import PageError
from quire.reading.files.attachment_notes import AttachmentNote, with_attachments
from quire.reading.files.document_source import PdfSource, open_documents
from quire.reading.grading.page_grade import AnswerEvidence
from quire.reading.office.office_elements import page_elements
from quire.reading.office.office_source import OfficeSource
from quire.reading.office.zip_container import OfficeLimits
from quire.reading.pdf.answer_words import AnswerWord, PageNumbers, differing, in_any_order, words_of
from quire.reading.pdf.attached_files import attached_files, shown_files
from quire.reading.pdf.block_matching import compact
from quire.reading.pdf.leftward_text import has_leftward, leftward_text
from quire.reading.pdf.line_pieces import PageWord
from quire.reading.pdf.mupdf import text_flags
from quire.reading.pdf.reading_direction import View, view_of

if TYPE_CHECKING:
    from quire.reading.ocr.page_ocr import OcrOptions

READER_AI = "ai"
READER_FILES = "mupdf"
"""Attached files are in the file, not in the answer."""
_LEAST_WORDS = 5
_ENOUGH = 0.6
_SLACK = 6
_MOST_PLACES = 24
_STEP = 3
_LONG = 6
_TOGETHER = 0.4
"""Of the words of a longer text at least this share is followed by the word that follows it on the page."""
_VERBATIM = 0.7
"""A table of which less than this share is on the page in its order has another order there."""
_LEAST_MOVED = 3
_LEAST_AGAIN = 8
_AGAIN = 0.8
_LEAST_SENTENCE = 5
_SENTENCE_END = (".", "!", "?", "。")
_DESCRIPTION = re.compile(r"\s*\[.*\]\s*", re.DOTALL)
"""The system prompt asks for figures and their descriptions in square brackets."""


@dataclass(frozen=True, slots=True)
class GroundedAnswer:
    """The stored form of an answer's elements, how many have no ground, and how many numbers have none.

    `support` is the share of its characters that are in elements with ground; None where nothing was compared.
    `altered` words of the answer are not on the page at their place; `words_missing` of the page are not in the answer.
    `attached` is what the text of the answer does not say of the page's attached files, as Markdown.
    """

    elements: bytes
    ungrounded: int = 0
    ungrounded_numbers: int = 0
    support: float | None = None
    altered: int = 0
    words_missing: int = 0
    attached: str = ""

    @property
    def evidence(self) -> AnswerEvidence:
        return AnswerEvidence(self.support, self.ungrounded, self.ungrounded_numbers, self.altered)

    def text(self, answer: str) -> str:
        """The text of the page whose model gave this answer."""
        return f"{answer}\n\n{self.attached}" if self.attached else answer


def ground_answer(path: str, password: str | None, number: int, answer: str, trusted: bool) -> GroundedAnswer:
    """The elements of a model's answer about page `number`, compared with the words of the page's text layer.

    `trusted` says whether the page's own text can be read. Raises what opening the document raises.
    """
    source = open_documents().get(path, password)
    words: list[PageWord] = []
    size = (0.0, 0.0)
    files: list[AttachmentNote] = []
    if isinstance(source, PdfSource):
        view, words = _words_of(source, number)
        size, files = view.size, attached_files(source.handle, source.page(number), view.turn)
    return _packed(number, answer, words if trusted else [], size, files=files)


def ground_by_ocr(
    path: str, password: str | None, number: int, answer: str, options: OcrOptions
) -> GroundedAnswer:
    """The same, compared with the words that OCR sees. Raises PageError if the page can't be drawn or read by OCR."""
    from quire.reading.ocr.page_ocr import recognised_words

    words, size, turns = recognised_words(path, password, number, options)
    source = open_documents().get(path, password)
    files = shown_files(source, number, turns) if isinstance(source, PdfSource) else []
    return _packed(number, answer, words, size, turns, files=files)


def _packed(
    number: int,
    answer: str,
    words: Sequence[PageWord],
    size: tuple[float, float],
    turns: int = 0,
    *,
    files: Sequence[AttachmentNote] = (),
) -> GroundedAnswer:
    from quire.reading.files.markdown_elements import markdown_elements

    said = markdown_elements(answer, number)
    with_files = with_attachments(said, files) if files else list(said)
    found = ground([one for one in with_files if one.kind is not ElementKind.ATTACHMENT], words)
    left = iter(found.elements)
    elements = tuple(
        replace(one, reader=READER_FILES) if one.kind is ElementKind.ATTACHMENT else next(left)
        for one in with_files
    )
    page = PageElements(number, renumbered(elements, number) if files else elements, READER_AI, *size, turns)
    return GroundedAnswer(
        encode(page),
        found.ungrounded,
        found.ungrounded_numbers,
        found.support,
        found.altered,
        found.words_missing,
        "\n\n".join(one.markdown for one in with_files[len(said) :]),
    )


def answer_without_ground(number: int, answer: str) -> GroundedAnswer:
    """The elements of a model's answer about a page that can't be compared with it."""
    return _packed(number, answer, (), (0.0, 0.0))


def pack_described_page(
    path: str, password: str | None, number: int, limits: OfficeLimits, markdown: str
) -> GroundedAnswer:
    """The elements of an office page with descriptions in its Markdown; all else is as its reader found it.

    Raises PageError where the document has no such page, or is no office file.
    """
    source = open_documents().get(path, password, limits)
    if not isinstance(source, OfficeSource):
        raise PageError("A document of this type has no pictures apart from its pages.")
    elements = page_elements(source.page(number), number, markdown, source.files)
    return GroundedAnswer(encode(PageElements(number, elements, source.reader)))


def _words_of(source: PdfSource, number: int) -> tuple[View, list[PageWord]]:
    page = source.page(number)
    textpage = page.get_textpage(flags=text_flags())
    content = textpage.extractDICT()
    view = view_of(page, content)
    if has_leftward(content):
        textpage = leftward_text(page)
    return view, [PageWord(word[4], view.turn(word[:4])) for word in textpage.extractWORDS()]


@dataclass(frozen=True, slots=True)
class Grounded:
    """`support` is the share of characters in elements with ground, descriptions of figures left out."""

    elements: tuple[Element, ...]
    ungrounded: int
    ungrounded_numbers: int
    support: float | None = None
    altered: int = 0
    words_missing: int = 0


def ground(elements: Sequence[Element], words: Sequence[PageWord]) -> Grounded:
    """The elements with boxes and marks. With hardly any words on the page nothing is known of any of them."""
    if len(words) < _LEAST_WORDS:
        return Grounded(tuple(replace(element, grounded=None) for element in elements), 0, 0)
    page = _PageIndex(words)
    grounded = [page.ground(element) for element in elements]
    marked = tuple(one.element for one in grounded)
    return Grounded(
        marked,
        sum(element.grounded is False and not _is_description(element) for element in marked),
        sum(one.unknown_numbers for one in grounded),
        _support(marked),
        sum(one.altered for one in grounded if not _is_description(one.element)),
        page.left_out(elements),
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


class _Finding(NamedTuple):
    """An element with its box and its mark, how many of its words have a number that the page has not there, and how
    many of the others are not on the page at that place."""

    element: Element
    unknown_numbers: int = 0
    altered: int = 0


class _PageIndex:
    """Where each word of the page is, and which numbers the page has."""

    def __init__(self, words: Sequence[PageWord]) -> None:
        self._boxes = [word.box for word in words]
        self._words = [AnswerWord(word.text) for word in words]
        self._numbers = PageNumbers([word.text for word in words])
        self._places: dict[str, list[int]] = {}
        self._taken: set[int] = set()
        for place, word in enumerate(self._words):
            if word.key:
                self._places.setdefault(word.key, []).append(place)
            if joined := self._with_next(place):
                self._places.setdefault(joined, []).append(place)

    def _with_next(self, place: int) -> str:
        """The word that a line's end or the space between thousands has cut in two; empty if there is none."""
        if place + 1 == len(self._words):
            return ""
        word, following = self._words[place], self._words[place + 1].key
        is_cut = word.text.endswith(("-", "\u00ad"))
        is_grouped = word.key.isdigit() and len(word.key) <= 3 and len(following) == 3 and following.isdigit()
        return word.key + following if following and (is_cut or is_grouped) else ""

    def ground(self, element: Element) -> _Finding:
        own = words_of(element.plain_text)
        if not own:
            return _Finding(replace(element, grounded=None))
        is_table = element.kind is ElementKind.TABLE
        places, wrong = self._in_order_of(own, _VERBATIM if is_table else _ENOUGH)
        if is_table and wrong is None:
            by_columns = words_of(_by_columns(element))
            again, wrong = self._in_order_of(by_columns, _VERBATIM)
            own, places = (own, self._anywhere(own)) if wrong is None else (by_columns, again)
        supported = len(places) >= _ENOUGH * len(own)
        lost = {i for i, word in enumerate(own) if word.has_digits and not self._numbers.has_all_of(word)}
        if supported and wrong is not None:
            lost |= {i for i in wrong if own[i].has_digits}
            altered = len(set(wrong) - lost)
            supported = not _has_invented_sentence(own, wrong)
        else:
            altered = in_any_order(own, (word.key for word in self._words)) if supported or is_table else 0
        is_again = supported and not is_table and self._says_again(own, places)
        share = round(len(places) / len(own), 3)
        box = self._box(places) if supported else None
        mark = supported and not lost and not is_again
        return _Finding(replace(element, box=box, confidence=share, grounded=mark), len(lost), altered)

    def left_out(self, elements: Sequence[Element]) -> int:
        """How many words of the page are in none of the elements, however they are cut."""
        said = Counter(word.key for element in elements for word in words_of(element.plain_text))
        missing, place = 0, 0
        while place < len(self._words):
            key, joined = self._words[place].key, self._with_next(place)
            if joined and not said[key] and said[joined]:
                said[joined] -= 1
                place += 1
            elif said[key]:
                said[key] -= 1
            else:
                missing += bool(key)
            place += 1
        return missing

    def _in_order_of(self, own: Sequence[AnswerWord], least: float) -> tuple[list[int], list[int] | None]:
        """Places close together, and which words the page has not there; None if less than this share is in order."""
        places = self._nearest([word.key for word in own])
        if not places:
            return places, None
        # Words that the page has several times may share a place, so the text may reach farther than its places.
        reach = _reach(len(own))
        start = max(0, min(places[0], places[-1] - reach))
        wrong = differing(own, self._words[start : max(places[-1], places[0] + reach) + 1])
        if wrong is not None:
            wrong = [
                i for run in _runs(wrong) if not self._is_elsewhere(own[run[0] : run[-1] + 1]) for i in run
            ]
        return places, wrong if wrong is not None and len(wrong) <= (1 - least) * len(own) else None

    def _is_elsewhere(self, run: Sequence[AnswerWord]) -> bool:
        """Whether the page has these words, one behind the other, at another place: it has another order there."""
        if len(run) < _LEAST_MOVED:
            return False
        for place in self._places.get(run[0].key, ())[:_MOST_PLACES]:
            if differing(run, self._words[place : place + len(run)]) == []:
                return True
        return False

    def _says_again(self, own: Sequence[AnswerWord], places: Sequence[int]) -> bool:
        """Whether an earlier element has these words of the page, and the page itself has them once."""
        again = sum(place in self._taken for place in places)
        self._taken.update(places)
        if len(own) < _LEAST_AGAIN or again < _AGAIN * len(places):
            return False
        return min(len(self._places.get(word.key, ())) for word in own if word.key in self._places) < 2

    def _anywhere(self, own: Sequence[AnswerWord]) -> list[int]:
        """A place for each of the words, each place once."""
        used: Counter[str] = Counter()
        found: list[int] = []
        for word in own:
            places = self._places.get(word.key, ())
            if used[word.key] < len(places):
                found.append(places[used[word.key]])
                used[word.key] += 1
        return sorted(found)

    def _nearest(self, keys: Sequence[str]) -> list[int]:
        """One place for each of the keys, all of them close together in the order of the page, as many as possible."""
        marks = sorted(
            (place, i) for i, key in enumerate(keys) for place in self._places.get(key, ())[:_MOST_PLACES]
        )
        reach = _reach(len(keys))
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


def _reach(count: int) -> int:
    """Over how many words of the page so many words of an answer may extend."""
    return count + count // 2 + _SLACK


def _runs(places: Sequence[int]) -> list[list[int]]:
    """Numbers that follow each other together."""
    found: list[list[int]] = []
    for place in places:
        if found and place == found[-1][-1] + 1:
            found[-1].append(place)
        else:
            found.append([place])
    return found


def _by_columns(element: Element) -> str:
    rows = element.table.rows if element.table is not None else ()
    return "\n".join("\t".join(column) for column in zip(*rows, strict=True))


def _has_invented_sentence(own: Sequence[AnswerWord], wrong: Sequence[int]) -> bool:
    """Whether the page lacks more than it has of a sentence."""
    odd, start = set(wrong), 0
    for end, word in enumerate(own, 1):
        if end == len(own) or word.text.rstrip("\"'”’)*_").endswith(_SENTENCE_END):
            lacking = sum(i in odd for i in range(start, end))
            if end - start >= _LEAST_SENTENCE and lacking > (1 - _ENOUGH) * (end - start):
                return True
            start = end
    return False
