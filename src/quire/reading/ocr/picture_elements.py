"""The parts of a page's picture, with their places: titles, paragraphs, lists, tables and figures, in reading order.

This is the form in which `/parse` answers; the parts are the elements that `scan_elements` makes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from quire.domain.element import Element, ElementKind
from quire.reading.files.image_source import grey_picture
from quire.reading.ocr.ocr_options import AUTO, OcrOptions
from quire.reading.ocr.ocr_stages import Recognised, recognise
from quire.reading.ocr.ocr_words import Box, around
from quire.reading.ocr.scan_elements import lay_out_scan

if TYPE_CHECKING:
    from quire.settings import OcrSettings

TITLE, PARA, LIST, TABLE, FIGURE = "title", "para", "list", "table", "figure"

_INCHES = 11.0
_POINTS_PER_INCH = 72
_LABELS = {
    ElementKind.TITLE: TITLE,
    ElementKind.HEADING: TITLE,
    ElementKind.LIST_ITEM: LIST,
    ElementKind.TABLE: TABLE,
    ElementKind.FIGURE: FIGURE,
}


@dataclass(frozen=True, slots=True)
class ElementOptions:
    languages: str = "eng"
    max_pixels: int = 100_000_000
    longest_px: int = 4000
    data_dir: str | None = None
    mode: str = AUTO

    @classmethod
    def of(cls, settings: OcrSettings, max_pixels: int) -> ElementOptions:
        ocr = OcrOptions.of(settings)
        return cls(ocr.languages, max_pixels, data_dir=ocr.data_dir, mode=ocr.mode)


@dataclass(frozen=True, slots=True)
class LayoutElement:
    """One part; `bbox` is left, top, right, bottom in pixels. A table's rows are lines, cells `|`."""

    label: str
    bbox: Box
    text: str
    reading_order: int


def read_elements(picture: bytes, options: ElementOptions) -> list[LayoutElement]:
    """The page's parts, their boxes in pixels of the picture as it came, upright or not.

    Raises PageError where the picture can't be decoded or OCR fails.
    """
    grey, scale = grey_picture(picture, max_pixels=options.max_pixels, longest_px=options.longest_px)
    dpi = min(600, max(70, round(max(grey.size) / _INCHES)))
    found = recognise(grey, OcrOptions(options.languages, dpi, options.data_dir, options.mode))
    return [replace(one, bbox=_scaled(found.turn.back(one.bbox), scale)) for one in arrange(found, dpi)]


def arrange(found: Recognised, dpi: int) -> list[LayoutElement]:
    """Labels, texts and the order of reading, boxes in pixels of what was seen."""
    points_per_px = _POINTS_PER_INCH / dpi
    parts: list[tuple[str, Box, str]] = []
    for element in lay_out_scan(1, found.seen, found.rules, points_per_px).elements:
        if element.box is None:
            continue
        label, text = _LABELS.get(element.kind, PARA), _text(element)
        box = _scaled(element.box, 1 / points_per_px)
        if label == LIST and parts and parts[-1][0] == LIST:
            _, above, items = parts.pop()
            box, text = around([above, box]), f"{items}\n{text}"
        parts.append((label, box, text))
    return [LayoutElement(label, box, text, order) for order, (label, box, text) in enumerate(parts)]


def _text(element: Element) -> str:
    if element.table is not None:
        return "\n".join(" | ".join(cell.replace("|", "/") for cell in row) for row in element.table.rows)
    return f"{element.marker} {element.text}".strip()


def _scaled(box: tuple[float, float, float, float], scale: float) -> Box:
    left, top, right, bottom = (round(side * scale) for side in box)
    return left, top, right, bottom
