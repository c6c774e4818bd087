"""Compares the elements of a model's answer with the words that the page itself has.

An element that enough of the page's words support gets their box; its confidence is the share of its words that the
page has there. One that is not supported, that has a sentence or a number which the page has not, or that says again
what an earlier one has said, is marked, so that an invented sentence or number can be seen and counted. Single words
that the page has not at that place (`answer_words.py`) are counted: with any of them an answer is not good. So are
words of comments and the like, which a viewer does not show, and addresses that the page does not have.

Where the page's text layer supports too little of an answer, as on a scan, the answer is compared with the words that
OCR sees as well.

Weakness: words that neither the text layer nor OCR has are marked also where the answer is right; descriptions of
figures are marked too, but are not counted; numbers in them are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from quire.domain.element import Element, ElementKind, PageElements
from quire.domain.element_codec import encode
from quire.domain.element_tree import renumbered
from quire.errors import PageError
from quire.reading.files.attachment_notes import AttachmentNote, with_attachments
from quire.reading.files.document_source import PdfSource, open_documents
from quire.reading.grading.page_grade import AnswerEvidence
from quire.reading.office.office_elements import page_elements
from quire.reading.office.office_source import OfficeSource
from quire.reading.office.zip_container import OfficeLimits
from quire.reading.pdf.answer_support import PageIndex
from quire.reading.pdf.attached_files import attached_files, shown_files
from quire.reading.pdf.block_matching import compact
from quire.reading.pdf.shown_page import NOTHING, ShownPage, links_of, shown_by

if TYPE_CHECKING:
    from quire.reading.ocr.page_ocr import OcrOptions

READER_AI = "ai"
READER_FILES = "mupdf"
"""Attached files are in the file, not in the answer."""
_LEAST_WORDS = 5
_DESCRIPTION = re.compile(r"\s*\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]\s*")
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
    if not isinstance(source, PdfSource):
        return _packed(number, answer, NOTHING, (0.0, 0.0))
    view, page = shown_by(source, number)
    files = attached_files(source.handle, source.page(number), view.turn)
    return _packed(number, answer, page if trusted else NOTHING, view.size, files=files)


def ground_by_ocr(
    path: str, password: str | None, number: int, answer: str, options: OcrOptions
) -> GroundedAnswer:
    """The same, compared with the words that OCR sees. Raises PageError if the page can't be drawn or read by OCR."""
    from quire.reading.ocr.page_ocr import recognised_words

    words, size, turns = recognised_words(path, password, number, options)
    source = open_documents().get(path, password)
    files, links = list[AttachmentNote](), frozenset[str]()
    if isinstance(source, PdfSource):
        files, links = shown_files(source, number, turns), links_of(source.page(number))
    return _packed(number, answer, ShownPage(words, links, is_exact=False), size, turns, files=files)


def _packed(
    number: int,
    answer: str,
    page: ShownPage,
    size: tuple[float, float],
    turns: int = 0,
    *,
    files: Sequence[AttachmentNote] = (),
) -> GroundedAnswer:
    from quire.reading.files.markdown_elements import parsed_answer

    parsed = parsed_answer(answer, number)
    said = parsed.elements
    with_files = with_attachments(said, files) if files else list(said)
    own = [one for one in with_files if one.kind is not ElementKind.ATTACHMENT]
    found = ground(own, page, parsed.unshown, parsed.addresses)
    left = iter(found.elements)
    elements = tuple(
        replace(one, reader=READER_FILES) if one.kind is ElementKind.ATTACHMENT else next(left)
        for one in with_files
    )
    stored = renumbered(elements, number) if files else elements
    return GroundedAnswer(
        encode(PageElements(number, stored, READER_AI, *size, turns)),
        found.ungrounded,
        found.ungrounded_numbers,
        found.support,
        found.altered,
        found.words_missing,
        "\n\n".join(one.markdown for one in with_files[len(said) :]),
    )


def answer_without_ground(number: int, answer: str) -> GroundedAnswer:
    """The elements of a model's answer about a page that can't be compared with it."""
    return _packed(number, answer, NOTHING, (0.0, 0.0))


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


@dataclass(frozen=True, slots=True)
class Grounded:
    """`support` is the share of characters in elements with ground, descriptions of the page's figures left out."""

    elements: tuple[Element, ...]
    ungrounded: int
    ungrounded_numbers: int
    support: float | None = None
    altered: int = 0
    words_missing: int = 0


def ground(
    elements: Sequence[Element], shown: ShownPage, unshown: Iterable[str] = (), addresses: Iterable[str] = ()
) -> Grounded:
    """The elements with boxes and marks. With hardly any words on the page nothing is known of any of them.

    `unshown` is what the answer says in comments and the like, `addresses` is where it leads.
    """
    if len(shown.words) < _LEAST_WORDS:
        return Grounded(tuple(replace(element, grounded=None) for element in elements), 0, 0)
    page = PageIndex(shown)
    grounded = [page.ground(element) for element in elements]
    marked = tuple(one.element for one in grounded)
    told = [one for one in grounded if not (shown.has_figures and _is_description(one.element))]
    lost, altered = page.lacking(unshown)
    return Grounded(
        marked,
        sum(one.element.grounded is False for one in told),
        sum(one.unknown_numbers for one in grounded) + lost,
        _support([one.element for one in told]),
        sum(one.altered for one in told) + altered + page.unknown_addresses(addresses),
        page.left_out(elements),
    )


def _support(elements: Sequence[Element]) -> float | None:
    sizes = [
        (len(compact(element.plain_text)), element.grounded)
        for element in elements
        if element.grounded is not None
    ]
    total = sum(size for size, _ in sizes)
    return sum(size for size, is_grounded in sizes if is_grounded) / total if total else None


def _is_description(element: Element) -> bool:
    return _DESCRIPTION.fullmatch(element.plain_text) is not None
