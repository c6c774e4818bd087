"""A chunk of pages as the pipeline takes it: one block of bytes that is stored as it comes, and a small record
for each page that says where in it the page lies. Texts are never parsed again on their way to the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.domain.page import PageClass, PageReading
from quire.reading.pdf.mupdf import empty_store
from quire.reading.pdf.page_reader import ReadOptions, read_pages, read_text


@dataclass(frozen=True, slots=True)
class PageSlice:
    number: int
    page_class: PageClass
    reader: str
    reasons: tuple[str, ...]
    has_text: bool
    words: int
    offset: int
    length: int
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    block: bytes
    pages: tuple[PageSlice, ...]


def read_chunk(
    path: str, password: str | None, numbers: Sequence[int], options: ReadOptions, quick: bool
) -> Chunk:
    """Reads the pages as `read_pages` does, or as `read_text` does where time is short."""
    try:
        readings = (
            read_text(path, password, numbers, options)
            if quick
            else read_pages(path, password, numbers, options)
        )
    finally:
        empty_store()
    return pack(readings)


def pack(readings: Sequence[PageReading], confidence: float | None = None) -> Chunk:
    parts: list[bytes] = []
    pages: list[PageSlice] = []
    offset = 0
    for reading in readings:
        has_text = bool(reading.markdown.strip())
        text = reading.markdown if has_text else empty_note(reading.number, reading.reasons)
        part = text.encode("utf-8", "replace")
        words = len(reading.markdown.split()) if has_text else 0
        pages.append(
            PageSlice(
                reading.number,
                reading.page_class,
                reading.reader,
                reading.reasons,
                has_text,
                words,
                offset,
                len(part),
                confidence,
            )
        )
        parts.append(part)
        offset += len(part)
    return Chunk(b"".join(parts), tuple(pages))


def empty_note(number: int, reasons: Sequence[str]) -> str:
    """What stands in the result for a page without text: no page is silently empty."""
    why = ", ".join(reason.replace("_", " ") for reason in reasons) or "nothing was found on it"
    return f"*Page {number} has no text ({why}).*"
