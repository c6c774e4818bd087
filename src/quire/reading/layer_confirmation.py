"""Compares a text layer that was doubted with what OCR reads of the same page, and keeps what both readers agree on.

Names, formulas and codes look like garbage to a measure of letters, and OCR reads them no better. Where OCR finds
nearly all words of the layer, the layer is right. A picture with a few words of text over it is a scan for the reader
of pages; where OCR fails on it, words of the layer that are drawn, or that it confirms, stay, with what only OCR saw
around them.

Weakness: words are compared wherever they are on the page, so that the order of the layer is not confirmed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from quire.domain.element import Element
from quire.domain.element_codec import decode, encode
from quire.domain.element_tree import renumbered
from quire.domain.page import Grade, PageClass, word_count
from quire.reading.files.page_chunks import UNREADABLE_TEXT, Chunk, empty_note
from quire.reading.grading.layer_damage import UNREADABLE
from quire.reading.grading.page_grade import LOW_PLAUSIBILITY
from quire.reading.pdf.block_matching import compact
from quire.reading.pdf.unseen_text import LEAST_LETTERS
from quire.rendering.page_markdown import render_markdown

CONFIRMED = 0.85
"""The share of the layer's words that OCR must find, and the confidence of a layer that is confirmed: fair.

Two readers agree on its letters; its order has not been looked at.
"""
_LEAST_WORDS = 20
_PARTLY = 0.4
"""The confidence of a layer of which four of ten letters are in implausible words; more is garbage."""
_NOT_MORE = 0.8
"""A layer with a smaller share of the words that OCR reads is not the page's text."""


def text_of(chunk: Chunk) -> str:
    """The Markdown of a chunk of one page."""
    page = chunk.pages[0]
    return chunk.block[page.offset : page.offset + page.length].decode("utf-8", "replace")


def confirmed_layer(layer: Chunk, recognised: Chunk) -> Chunk | None:
    """The layer of one page if OCR has read the same words, else None. It is fair then, and not implausible."""
    page = layer.pages[0]
    if page.page_class is PageClass.SCANNED or not UNREADABLE.isdisjoint(page.reasons):
        return None  # OCR says more of a scan; capitals and signs are not compared
    own, found = _words(text_of(layer)), _words(text_of(recognised))
    total = own.total()
    if total < max(_LEAST_WORDS, _NOT_MORE * found.total()) or (own & found).total() < CONFIRMED * total:
        return None
    reasons = tuple(reason for reason in page.reasons if reason != LOW_PLAUSIBILITY)
    confidence = max(CONFIRMED, page.confidence or 0.0)
    grade = page.grade if page.grade is Grade.GOOD else Grade.FAIR
    return Chunk(layer.block, (replace(page, reasons=reasons, confidence=confidence, grade=grade),))


def _words(text: str) -> Counter[str]:
    return Counter(filter(None, map(compact, text.split())))


def where_ocr_saw_nothing(layer: Chunk, recognised: Chunk) -> Chunk:
    """What is kept of a page whose layer was doubted and on which OCR reads nothing: a layer that is partly plausible,
    which is low. Of garbage the result says that there is text which can't be read.
    """
    page, seen = layer.pages[0], recognised.pages[0]
    if (page.confidence or 0.0) >= _PARTLY:
        return layer
    reasons = tuple(dict.fromkeys((*page.reasons, *seen.reasons, UNREADABLE_TEXT)))
    note = empty_note(page.number, reasons).encode()
    kept = replace(seen, reasons=reasons, grade=Grade.LOW, confidence=0.0, offset=0, length=len(note))
    return Chunk(note, (replace(kept, elements_offset=len(note), elements_length=0),))


def completed_layer(layer: Chunk, recognised: Chunk) -> Chunk | None:
    """The few words over a scan that OCR failed on, and what OCR saw elsewhere.

    None if OCR confirms none of them, unless they are drawn on the page for everybody to see. The page stays one that
    OCR has read, with its grade and its reasons: what only OCR saw is no surer than before.
    """
    page, seen = layer.pages[0], recognised.pages[0]
    if (
        page.page_class is not PageClass.SCANNED
        or seen.grade is not Grade.LOW
        or page.grade is not Grade.GOOD
    ):
        return None
    own, others = decode(_stored(layer)), decode(_stored(recognised))
    is_drawn = not page.is_unseen and len(compact(text_of(layer))) >= LEAST_LETTERS
    if own.turns != others.turns or not (is_drawn or _confirms(own.elements, others.elements)):
        return None
    kept = [replace(element, reader=page.reader) for element in own.elements]
    seen_only = [one for one in others.elements if one.file is None]  # the layer has the page's files already
    added = [_of_ocr(one) for one in seen_only if not any(_overlap(one, other) for other in kept)]
    ordered = sorted([*kept, *added], key=lambda one: one.box[1] if one.box else 0.0)
    elements = renumbered(ordered, page.number)
    text = render_markdown(elements).encode()
    stored = encode(replace(others, elements=elements))
    merged = replace(
        seen,
        words=word_count(text.decode()),
        offset=0,
        length=len(text),
        elements_offset=len(text),
        elements_length=len(stored),
        headings=(),
        tables=(),
    )
    return Chunk(text + stored, (merged,))


def _of_ocr(element: Element) -> Element:
    """The element with ids that no element of the layer has."""
    parent = element.parent
    return replace(element, id=f"ocr-{element.id}", parent=f"ocr-{parent}" if parent else None)


def _confirms(own: Sequence[Element], found: Sequence[Element]) -> bool:
    """Whether OCR reads the words of one of these elements at its place."""
    return any(
        len(key := compact(one.plain_text)) > 1
        and key in compact("".join(other.plain_text for other in found if _overlap(one, other)))
        for one in own
    )


def _overlap(one: Element, other: Element) -> bool:
    if one.box is None or other.box is None:
        return False
    (x0, y0, x1, y1), (left, top, right, bottom) = one.box, other.box
    return x0 < right and left < x1 and y0 < bottom and top < y1


def _stored(chunk: Chunk) -> bytes:
    page = chunk.pages[0]
    return chunk.block[page.elements_offset : page.elements_offset + page.elements_length]
