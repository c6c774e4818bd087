"""Grades a text layer that its page does not draw by what the page's picture says of it.

A layer that the picture contradicts, or that lacks much of what the picture shows, is low, so that the page is read
anew. One that the picture confirms line for line may be good, as any text layer. Where nothing could be compared,
the layer is fair: it may be right.
"""

from __future__ import annotations

from dataclasses import replace

from quire.domain.element_codec import decode
from quire.domain.page import Grade
from quire.reading.files.page_chunks import PageSlice
from quire.reading.grading.layer_damage import layer_damage
from quire.reading.grading.page_doubts import COMPLEX_PAGE, PageKind, page_doubts
from quire.reading.grading.page_grade import BELOW_FAIR, BELOW_GOOD, INK_LEFT_OUT, UNREAD, judge_text
from quire.reading.ocr.layer_witness import LayerEvidence
from quire.reading.pdf.page_signals import garbled_ratio

CONTRADICTED = "text_layer_contradicts_picture"
NOT_CONFIRMED = "text_layer_not_confirmed"

_LINES_AGAINST, _SHARE_AGAINST = 2, 0.3
"""Lines, and a share of the letters that were compared: half a page of another text is contradicted."""
_NONE_FOR = 12
"""Letters of lines that are read otherwise, where no line is read as the layer has it."""
_MOST_BARE, _USUAL_BARE = 0.4, 0.1
_HALF_READ = 0.2
"""With more letters of the picture outside of the layer, parts of the page are missing in it."""
_LEAST_FOR, _LIKENESS = 60, 0.97
"""A layer with every twentieth letter wrong has .95 in common with what is read."""


def graded_layer(page: PageSlice, block: bytes, found: LayerEvidence | None) -> PageSlice:
    """The page with the grade that the evidence gives it. `block` has its text and its elements; without evidence it
    is fair at most.
    """
    if found is None:
        return _lowered(page, BELOW_GOOD, NOT_CONFIRMED)
    if is_contradicted(found):
        return _lowered(page, BELOW_FAIR, CONTRADICTED)
    if found.unread > _HALF_READ:
        return _lowered(page, BELOW_FAIR, INK_LEFT_OUT)
    if found.unread > UNREAD:
        return _lowered(page, BELOW_GOOD, INK_LEFT_OUT)
    if not _is_confirmed(found):
        return _lowered(page, BELOW_GOOD, NOT_CONFIRMED)
    return _as_text(page, block)


def is_refuted(page: PageSlice) -> bool:
    """Whether the picture of the page speaks against its layer, which is low for that."""
    return (
        page.is_unseen
        and not {CONTRADICTED, INK_LEFT_OUT}.isdisjoint(page.reasons)
        and page.grade is Grade.LOW
    )


def is_contradicted(found: LayerEvidence) -> bool:
    """Whether the picture says something else than the layer, or nothing where most of the layer's words are."""
    if found.has_ink and found.bare > _MOST_BARE:
        return True
    compared = found.for_it + found.against_it
    if not found.for_it and found.against_it >= _NONE_FOR:
        return True
    return found.lines_against >= _LINES_AGAINST and found.against_it >= _SHARE_AGAINST * compared


def _is_confirmed(found: LayerEvidence) -> bool:
    is_read = found.for_it >= _LEAST_FOR and not found.against_it and found.likeness >= _LIKENESS
    return found.has_ink and is_read and found.bare <= _USUAL_BARE


def _lowered(page: PageSlice, most: float, reason: str) -> PageSlice:
    confidence = min(most, page.confidence if page.confidence is not None else most)
    grade = Grade.LOW if most == BELOW_FAIR or page.grade is Grade.LOW else Grade.FAIR
    return replace(page, confidence=confidence, grade=grade, reasons=(*page.reasons, reason))


def _as_text(page: PageSlice, block: bytes) -> PageSlice:
    """The page judged as one whose picture has been read: it says what the layer says."""
    text = block[page.offset : page.offset + page.length].decode("utf-8", "replace")
    stored = block[page.elements_offset : page.elements_offset + page.elements_length]
    elements = decode(stored).elements if stored else ()
    doubts = page_doubts(elements, PageKind(by_ocr=True))
    judged = judge_text(text, garbled_ratio(text), doubts, damage=layer_damage(text))
    if judged.grade is not Grade.GOOD:
        return replace(page, reasons=tuple(dict.fromkeys((*page.reasons, *judged.reasons))))
    reasons = tuple(reason for reason in page.reasons if reason != COMPLEX_PAGE)  # its picture was the doubt
    return replace(page, confidence=judged.confidence, grade=judged.grade, reasons=reasons)
