"""Lays out what OCR has read on a page, by the analysis that text PDFs go through, and makes elements of it.

Boxes are in points, and each element has the confidence of its words.

Weakness: type in bold is not told from other type, so headings are known by their size alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quire.domain.element import Box as PointBox
from quire.domain.element import Element, ElementKind, ElementLine
from quire.domain.element_tree import renumbered
from quire.domain.page import PageReading
from quire.reading.files.document_source import PdfSource
from quire.reading.ocr.ocr_words import Box, OcrWord, RecognisedPage
from quire.reading.ocr.word_sheet import sheet_scale, word_sheet
from quire.reading.pdf.drawn_rules import Rules
from quire.reading.pdf.mupdf import empty_store
from quire.reading.pdf.page_reader import ReadOptions, read_pdf
from quire.reading.pdf.paragraph_kinds import with_held_captions
from quire.rendering.page_markdown import render_markdown

_FIGURE_SHARE = 0.01
_FIGURE_SIDE_PX = 40


def lay_out_scan(
    number: int, seen: RecognisedPage, rules: Rules, points_per_px: float, *, join_hyphens: bool = True
) -> PageReading:
    """The reading of a recognised page: elements in reading order, with boxes in points, and their Markdown."""
    scale = sheet_scale(seen)
    source = PdfSource(None, data=word_sheet(seen, rules, scale))
    try:
        (reading,) = read_pdf(source, [1], ReadOptions(strip_running=False, join_hyphens=join_hyphens))
    finally:
        source.close()
        empty_store()
    words = [(_scaled(word.box, points_per_px), word) for word in seen.words()]
    elements = [_placed(element, points_per_px / scale, words) for element in reading.elements]
    if number > 1:
        elements = [_as_heading(element) for element in elements]
    for box in seen.blank:
        if _is_figure(box, seen):
            _insert_figure(elements, _scaled(box, points_per_px))
    numbered = tuple(with_held_captions(renumbered(elements, number)))
    return replace(reading, number=number, elements=numbered, markdown=render_markdown(numbered))


def _as_heading(element: Element) -> Element:
    """The title of a sheet, which has one page, is a heading of a later page."""
    return replace(element, kind=ElementKind.HEADING) if element.kind is ElementKind.TITLE else element


def _placed(element: Element, scale: float, words: Sequence[tuple[PointBox, OcrWord]]) -> Element:
    """The element of the sheet on the page, with the confidence of its words."""
    if element.box is None:
        return element
    box = _scaled(element.box, scale)
    lines = tuple(ElementLine(line.start, _scaled(line.box, scale)) for line in element.lines)
    return replace(element, box=box, lines=lines, confidence=_confidence(box, words))


def _is_figure(box: Box, seen: RecognisedPage) -> bool:
    width, height = box[2] - box[0], box[3] - box[1]
    page = max(1, seen.width * seen.height)
    return min(width, height) >= _FIGURE_SIDE_PX and width * height >= _FIGURE_SHARE * page


def _insert_figure(elements: list[Element], box: PointBox) -> None:
    """Puts a figure behind the last element that ends above it in its column, else in front."""
    at = 0
    for place, one in enumerate(elements):
        if one.box and one.box[3] <= box[1] + 2 and one.box[0] < box[2] and box[0] < one.box[2]:
            at = place + 1
    elements.insert(at, Element("", ElementKind.FIGURE, box=box))


def _scaled(box: PointBox, scale: float) -> PointBox:
    left, top, right, bottom = (side * scale for side in box)
    return left, top, right, bottom


def _confidence(box: PointBox, words: Sequence[tuple[PointBox, OcrWord]]) -> float | None:
    """How sure the reader is of a character in the box, on average; None where it has no words there."""
    left, top, right, bottom = box
    total, sure = 0, 0.0
    for place, word in words:
        x, y = (place[0] + place[2]) / 2, (place[1] + place[3]) / 2
        if left - 1 <= x <= right + 1 and top - 1 <= y <= bottom + 1:
            total += len(word.text)
            sure += len(word.text) * word.confidence
    return round(sure / total, 3) if total else None
