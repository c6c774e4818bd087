"""Reads pages of files that are no PDF: pictures, text files, office files."""

from __future__ import annotations

from quire.domain.page import PageClass, PageReading, PageSignals
from quire.reading.files.image_source import HEIC_OVER_BOUND, ImageSource
from quire.reading.files.text_source import TextSource, text_elements
from quire.reading.office.office_elements import page_elements
from quire.reading.office.office_source import OfficeSource
from quire.reading.pdf.page_signals import garbled_ratio

READER_TEXT = "text"
READER_IMAGE = "image"


def read_image(source: ImageSource, number: int) -> PageReading:
    width, height = source.size_px(number)
    signals = PageSignals(
        image_coverage=1.0, largest_image=1.0, width_pt=float(width), height_pt=float(height)
    )
    reasons = ("image_file", "no_text_layer", *((HEIC_OVER_BOUND,) if source.is_heavy else ()))
    return PageReading(number, PageClass.SCANNED, "", "", READER_IMAGE, reasons, signals)


def read_text_page(source: TextSource, number: int) -> PageReading:
    text = source.page_text(number)
    signals = PageSignals(chars=len("".join(text.split())), garbled_ratio=round(garbled_ratio(text), 4))
    reasons = () if signals.chars else ("blank_page",)
    markdown = source.page_markdown(number)
    return PageReading(
        *(number, PageClass.TEXT_ONLY, text, markdown, READER_TEXT, reasons, signals),
        elements=text_elements(text, number, source.kind),
    )


def read_office_page(source: OfficeSource, number: int) -> PageReading:
    page = source.page(number)
    text = page.markdown
    signals = PageSignals(chars=len("".join(text.split())), garbled_ratio=round(garbled_ratio(text), 4))
    has_pictures = source.has_pictures(number)
    reasons = ("has_pictures",) if has_pictures else () if signals.chars else ("blank_page",)
    page_class = PageClass.HAS_GRAPHICS if has_pictures else PageClass.TEXT_ONLY
    elements = page_elements(page, number, text, source.files)
    return PageReading(number, page_class, text, text.strip(), source.reader, reasons, signals, elements)
