"""Owns the form in which a chunk of pages reaches the pipeline: one block of bytes, and a small record for each page.

The block has the Markdown of all pages first and then their encoded elements. The pipeline stores it unchanged, and the
merge copies byte ranges of it, so texts are never parsed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.domain.element import PageElements
from quire.domain.element_codec import encode
from quire.domain.heading_scheme import packed_marks, page_marks
from quire.domain.page import Grade, PageClass, PageReading, word_count
from quire.domain.page_ranges import PageRanges
from quire.domain.table_seams import packed_edges, page_edges
from quire.reading.files.document_source import DocumentInfo, inspect
from quire.reading.grading.layer_damage import layer_damage
from quire.reading.grading.page_doubts import PageKind, page_doubts
from quire.reading.grading.page_grade import BELOW_GOOD, Judgement, grade_of, judge_text, text_confidence
from quire.reading.grading.plausibility import has_implausible_words
from quire.reading.pdf.mupdf import bound_store
from quire.reading.pdf.page_reader import ReadOptions, read_pages, read_text
from quire.reading.pdf.page_signals import garbled_ratio
from quire.reading.pdf.picture_damage import DAMAGED_PICTURE

UNREADABLE_TEXT = "unreadable_text"
"""The reason of a page that has text which neither its text layer nor OCR gives."""

WORDS_MISSING = "words_missing"
_ANY_COUNT = 1 << 30


@dataclass(frozen=True, slots=True)
class PageSlice:
    """What is known of a page, and where its Markdown and its elements are in the chunk's block."""

    number: int
    page_class: PageClass
    reader: str
    reasons: tuple[str, ...]
    has_text: bool
    words: int
    offset: int
    length: int
    confidence: float | None = None
    elements_offset: int = 0
    elements_length: int = 0
    words_missing: int = 0
    grade: Grade | None = None
    is_unseen: bool = False
    """Most of its text layer is not what the page draws."""
    headings: tuple[int, ...] = ()
    """What its headings look like (`heading_scheme.packed_marks`)."""
    tables: tuple[tuple[int, ...], ...] = ()
    """The tables that begin and end it (`table_seams.packed_edges`)."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The bytes of several pages, and a slice for each of them."""

    block: bytes
    pages: tuple[PageSlice, ...]


@dataclass(frozen=True, slots=True)
class OpenedDocument:
    """What a document is, and its first pages."""

    info: DocumentInfo
    chunk: Chunk


def open_document(
    path: str, password: str | None, pages: str | None, most: int, options: ReadOptions
) -> OpenedDocument:
    """Opens the document and reads the first `most` pages of the selection `pages`: one call for a short document.

    Raises as `inspect` does, RequestError where there is none of these pages, and PageError where one of them fails.
    """
    info = inspect(path, password, _ANY_COUNT, options.office)
    numbers = PageRanges.parse(pages).clip(info.page_count).numbers(0, most)
    return OpenedDocument(info, read_chunk(path, password, numbers, options, False))


def read_chunk(
    path: str, password: str | None, numbers: Sequence[int], options: ReadOptions, quick: bool
) -> Chunk:
    """Reads the pages as `read_pages` does, or as `read_text` does where time is short.

    With `options.turn_s` the chunk has the first of them, and at least one.
    """
    try:
        readings = (
            read_text(path, password, numbers, options)
            if quick
            else read_pages(path, password, numbers, options)
        )
    finally:
        bound_store()
    return pack(readings)


def pack(readings: Sequence[PageReading], judgement: Judgement | None = None) -> Chunk:
    """The readings as a chunk. `judgement` is that of every page in it; without one their texts are judged."""
    texts: list[bytes] = []
    shown: list[bool] = []
    for reading in readings:
        has_text = bool(reading.markdown.strip())
        text = reading.markdown if has_text else empty_note(reading.number, reading.reasons)
        texts.append(text.encode("utf-8", "replace"))
        shown.append(has_text)
    stored = [
        encode(page_elements(reading), () if judgement else _confidences(reading))
        if reading.elements
        else b""
        for reading in readings
    ]
    pages: list[PageSlice] = []
    offset, elements_offset = 0, sum(map(len, texts))
    for reading, part, has_text, packed in zip(readings, texts, shown, stored, strict=True):
        judged = judgement or _judged(reading)
        pages.append(
            PageSlice(
                reading.number,
                reading.page_class,
                reading.reader,
                (*reading.reasons, *judged.reasons),
                has_text,
                word_count(reading.markdown),
                offset,
                len(part),
                judged.confidence,
                elements_offset,
                len(packed),
                reading.words_missing,
                judged.grade,
                reading.is_unseen,
                _headings(reading, by_ocr=judgement is not None),
                packed_edges(page_edges(reading.elements, reading.signals.height_pt)),
            )
        )
        offset += len(part)
        elements_offset += len(packed)
    return Chunk(b"".join([*texts, *stored]), tuple(pages))


def _headings(reading: PageReading, *, by_ocr: bool) -> tuple[int, ...]:
    return packed_marks(page_marks(reading.elements, reading.markdown, is_estimated=by_ocr))


def _judged(reading: PageReading) -> Judgement:
    """The judgement on a text layer. Pictures and charts are not read, so a page that has them is never good."""
    is_layer = reading.signals.width_pt > 0
    has_graphics = reading.page_class is PageClass.HAS_GRAPHICS and is_layer
    doubts = page_doubts(reading.elements, PageKind(has_graphics=has_graphics))
    if reading.words_missing:
        doubts = (*doubts, WORDS_MISSING)
    damage = layer_damage(reading.text) if is_layer else ()
    judged = judge_text(
        reading.text, reading.signals.garbled_ratio, doubts, has_graphics=has_graphics, damage=damage
    )
    if DAMAGED_PICTURE not in reading.reasons:
        return judged
    if judged.confidence is None:  # whether it had text is not known
        return Judgement(0.0, Grade.LOW)
    confidence = min(judged.confidence, BELOW_GOOD)
    return Judgement(confidence, grade_of(confidence), judged.reasons)


def _confidences(reading: PageReading) -> list[float | None]:
    """How sure each element of a text layer is; None for one without text."""
    texts = [element.plain_text for element in reading.elements]
    if reading.signals.garbled_ratio > 0:
        return [text_confidence(text, garbled_ratio(text)) if text else None for text in texts]
    if not has_implausible_words(" ".join(texts)):  # asked once for all: most pages have none
        return [1.0 if text else None for text in texts]
    return [text_confidence(text) if text else None for text in texts]


def page_elements(reading: PageReading) -> PageElements:
    """The elements of a reading with what they have in common."""
    signals = reading.signals
    size = (signals.width_pt, signals.height_pt)
    return PageElements(reading.number, reading.elements, reading.reader, *size, reading.turns)


def empty_note(number: int, reasons: Sequence[str]) -> str:
    """The text of the result for a page without text: no page is silently empty."""
    why = ", ".join(reason.replace("_", " ") for reason in reasons) or "nothing was found on it"
    if UNREADABLE_TEXT in reasons:
        return f"*Page {number} has text, but it can't be read ({why}).*"
    return f"*Page {number} has no text ({why}).*"
