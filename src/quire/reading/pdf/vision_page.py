"""A page as a vision model gets it: its picture, its own text, and some text of the pages around it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from quire.reading.files.document_source import PdfSource, open_documents
from quire.reading.pdf.hidden_text import shown_text
from quire.reading.pdf.mupdf import text_flags
from quire.reading.pdf.page_render import RenderOptions, render_page
from quire.reading.pdf.table_crops import dense_tables

_OWN_TEXT_BYTES = 24_000
_MOST_LONGER = 1.1
_CROPS_NOTE = "=== Further pictures ===\nParts of the current page again, larger: its tables in small type.\n"


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """`radius` pages before and after give up to `max_bytes` of text together.

    `own_text` says whether the page's own text can be trusted; a garbled one is left out. `elements` is the page's own
    text as it was laid out here, in reading order, and goes along in place of the text layer. `shows_own` says whether
    either goes along at all. `table_crops` is the most dense tables that are drawn apart, larger.
    """

    radius: int = 1
    max_bytes: int = 3_000
    own_text: bool = True
    elements: str = ""
    shows_own: bool = True
    table_crops: int = 0


@dataclass(frozen=True, slots=True)
class VisionPage:
    image: bytes
    mime: str
    text: str
    layer: str
    pixels: int
    crops: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        return f"VisionPage({len(self.image)} bytes)"


def picture_page(
    path: str, password: str | None, number: int, render: RenderOptions, context: ContextOptions
) -> VisionPage:
    """Page `number` (from 1) with what goes along.

    Raises what `render_page` raises. A neighbour that can't be read has no text: that is its own failure.
    """
    image = render_page(path, password, number, render)
    source = open_documents().get(path, password)
    if not isinstance(source, PdfSource):
        return VisionPage(
            image, f"image/{render.format}", _section(number, "current", ""), "", _pixels(image)
        )
    own = _text(source, number) if context.own_text else ""
    shown = _shown_text(own, context)
    before, after = _neighbours(source, number, context)
    sections = [_section(n, "context", text) for n, text in before]
    sections.append(_section(number, "current", _cut(shown, _OWN_TEXT_BYTES)))
    sections += [_section(n, "context", text) for n, text in after]
    crops = dense_tables(path, password, number, render, context.table_crops) if context.table_crops else ()
    if crops:
        sections.append(_CROPS_NOTE)
    pixels = _pixels(image) + sum(map(_pixels, crops))
    return VisionPage(image, f"image/{render.format}", "\n".join(sections), own, pixels, crops)


def page_layer(path: str, password: str | None, number: int) -> str:
    """The page's own text; empty if the document has no text layer. Raises what opening the document raises."""
    source = open_documents().get(path, password)
    return _text(source, number) if isinstance(source, PdfSource) else ""


def _shown_text(own: str, context: ContextOptions) -> str:
    """The page's text as it is sent. Elements that are much longer than the text layer, as wide tables, cost more."""
    if not context.own_text or not context.shows_own:
        return ""
    return context.elements if 0 < len(context.elements) <= _MOST_LONGER * len(own) else own


def _neighbours(
    source: PdfSource, number: int, context: ContextOptions
) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Texts of the pages around, the nearest served first: the end of what is before, the start of what is after."""
    left = context.max_bytes
    before: list[tuple[int, str]] = []
    after: list[tuple[int, str]] = []
    for distance in range(1, context.radius + 1):
        for other in (number - distance, number + distance):
            if not 1 <= other <= source.page_count or left <= 0:
                continue
            share = left // 2 if other < number and number + distance <= source.page_count else left
            text = _text(source, other)
            text = _cut_front(text, share) if other < number else _cut(text, share)
            if text:
                (before if other < number else after).append((other, text))
                left -= len(text.encode())
    return sorted(before), sorted(after)


def _section(number: int, what: str, text: str) -> str:
    return f"=== Page {number} ({what}) ===\n{text}\n"


def _text(source: PdfSource, number: int) -> str:
    """The text that the page shows: what is hidden may be an instruction to the model."""
    try:
        page = source.page(number)
        found = shown_text(page, page.get_text("text", flags=text_flags()), text_flags())
    except MemoryError:
        raise
    except Exception:
        return ""
    return "\n".join(line.rstrip() for line in found.splitlines() if line.strip())


def _cut(text: str, most_bytes: int) -> str:
    return text.encode("utf-8", "ignore")[:most_bytes].decode("utf-8", "ignore")


def _cut_front(text: str, most_bytes: int) -> str:
    raw = text.encode("utf-8", "ignore")
    return raw[max(0, len(raw) - most_bytes) :].decode("utf-8", "ignore")


def _pixels(image: bytes) -> int:
    """The area of a JPEG or PNG, from its header; a typical page where it can't be found."""
    if image.startswith(b"\x89PNG"):
        width, height = struct.unpack(">II", image[16:24])
        return int(width) * int(height)
    at = 2
    while at + 9 < len(image) and image[at] == 0xFF:
        if 0xC0 <= image[at + 1] <= 0xC3:
            height, width = struct.unpack(">HH", image[at + 5 : at + 9])
            return int(width) * int(height)
        at += 2 + int.from_bytes(image[at + 2 : at + 4], "big")
    return 850 * 1100
