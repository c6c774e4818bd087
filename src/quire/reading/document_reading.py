"""Reads a whole document locally: one record for each page, or one record that says why it can't be opened.

Nothing is stored; `quire.read` and `quire bulk` use it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from quire.domain.job import Mode
from quire.domain.page import Grade, PageClass, PageSource
from quire.domain.page_ranges import PageRanges
from quire.domain.page_settling import PageNotes, PageScheme, SettledPage, page_schemes, settled
from quire.domain.routing import Readers, Route, best_route
from quire.errors import QuireError, TooManyPagesError
from quire.reading.files.document_source import DocumentInfo
from quire.reading.files.page_chunks import Chunk, PageSlice
from quire.reading.local_reader import (
    LocalOptions,
    LocalReader,
    UnreadPage,
    class_for_route,
    page_source,
    unread_scan,
)
from quire.reading.pool.child_pool import ChildPool
from quire.reading.pool.fair_slots import sharing

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """`pages` is a selection such as `1-5,8`. `chunk_pages` are read in one call of a reader process."""

    local: LocalOptions = field(default_factory=LocalOptions)
    ocr: bool = True
    pages: str | None = None
    max_pages: int = 20_000
    chunk_pages: int = 32


@dataclass(frozen=True, slots=True)
class ReadPage:
    """One page as it was read. `error` says why it has no text; a document that can't be opened is one page 0.

    `milliseconds` is the time of reader processes: the page's share of its chunk, and OCR.

    `packed_elements` is the stored form of the page's elements; `quire.domain.element_codec.decode` reads it.
    """

    number: int
    markdown: str = ""
    page_class: PageClass | None = None
    source: PageSource | None = None
    reader: str | None = None
    reasons: tuple[str, ...] = ()
    confidence: float | None = None
    grade: Grade | None = None
    words: int = 0
    milliseconds: int = 0
    error: str | None = None
    error_code: str | None = None
    packed_elements: bytes = field(default=b"", repr=False)
    notes: PageNotes = field(default=PageNotes(0), repr=False)
    """What its headings and its tables look like, for the scheme of the document."""


@dataclass(frozen=True, slots=True)
class DocumentReading:
    """The pages in ascending order; `info` is None where the document could not be opened."""

    pages: tuple[ReadPage, ...]
    info: DocumentInfo | None = None


async def read_document(
    pool: ChildPool,
    path: str,
    options: DocumentOptions,
    *,
    password: str | None = None,
    share: str = "",
) -> DocumentReading:
    """Reads every page that is selected. Never raises for a document: what can't be read is a page with an error.

    `share` names the document in the pool's accounts of reader time.
    """
    with sharing("", share or path):
        for attempt in range(_ATTEMPTS):
            try:
                return await _Attempt(pool, path, password, options).run()
            except QuireError as error:
                if not error.retryable or attempt == _ATTEMPTS - 1:
                    return DocumentReading((_failed(0, error),))
    raise AssertionError  # pragma: no cover - the last attempt returns


class _Attempt:
    """One attempt to read a document. Raises a retryable QuireError if the reader processes broke, not the document."""

    def __init__(self, pool: ChildPool, path: str, password: str | None, options: DocumentOptions) -> None:
        self._options = options
        local = replace(options.local, reads_lines=options.ocr)
        self._reader = LocalReader(pool, local, path, password)

    async def run(self) -> DocumentReading:
        options = self._options
        info, first = await self._reader.open(options.pages, options.chunk_pages)
        ranges = PageRanges.parse(options.pages).clip(info.page_count)
        total = len(ranges)
        if total > options.max_pages:
            raise TooManyPagesError(
                f"The document has {total:,} pages, more than the {options.max_pages:,} allowed. Read it in parts."
            )
        pages: list[ReadPage] = []
        start = 0
        if first is not None:
            pages += await self._finished([first], 0.0)
            start = len(first.pages)
        for place in range(start, total, options.chunk_pages):
            before_s = self._reader.spent_s
            numbers = ranges.numbers(place, min(place + options.chunk_pages, total))
            pages += await self._finished(await self._reader.read(numbers), before_s)
        return DocumentReading(await asyncio.to_thread(_settled, pages), info)

    async def _finished(self, found: Sequence[Chunk | UnreadPage], before_s: float) -> list[ReadPage]:
        count = sum(len(one.pages) if isinstance(one, Chunk) else 1 for one in found)
        each_ms = round((self._reader.spent_s - before_s) * 1000 / max(count, 1))
        pages: list[ReadPage] = []
        for one in found:
            if isinstance(one, UnreadPage):
                pages.append(_unread(one, each_ms))
                continue
            for page, block in _split(one):
                pages.append(await self._by_ocr(page, block, each_ms))
        return pages

    async def _by_ocr(self, page: PageSlice, block: bytes, each_ms: int) -> ReadPage:
        """The page as it is, or by OCR where that is its route."""
        readers = Readers(ocr=self._options.ocr)
        if best_route(class_for_route(page), Mode.LOCAL, readers) is not Route.OCR:
            return _read_page(page, block, each_ms)
        before_s = self._reader.spent_s
        found = await self._reader.recognise(Chunk(block, (page,)))
        spent_ms = each_ms + round((self._reader.spent_s - before_s) * 1000)
        if isinstance(found, UnreadPage):
            return _unread(found, spent_ms)
        return _read_page(found.pages[0], found.block, spent_ms)


def _split(chunk: Chunk) -> Iterator[tuple[PageSlice, bytes]]:
    """Each page of a chunk with the bytes of its own."""
    for page in chunk.pages:
        text = chunk.block[page.offset : page.offset + page.length]
        elements = chunk.block[page.elements_offset : page.elements_offset + page.elements_length]
        yield replace(page, offset=0, elements_offset=len(text)), text + elements


def _read_page(page: PageSlice, block: bytes, milliseconds: int) -> ReadPage:
    source = page_source(page)
    error = unread_scan(page, source)
    return ReadPage(
        page.number,
        block[: page.length].decode("utf-8", "replace"),
        page.page_class,
        source,
        page.reader,
        page.reasons,
        page.confidence,
        page.grade,
        page.words,
        milliseconds,
        error.public if error else None,
        error.code if error else None,
        block[page.elements_offset : page.elements_offset + page.elements_length],
        PageNotes(page.number, page.headings, page.tables),
    )


def _settled(pages: Sequence[ReadPage]) -> tuple[ReadPage, ...]:
    """The pages with what only the whole document knows of them."""
    schemes = page_schemes([page.notes for page in pages])
    return tuple(_with_scheme(page, scheme) for page, scheme in zip(pages, schemes, strict=True))


def _with_scheme(page: ReadPage, scheme: PageScheme) -> ReadPage:
    if scheme == PageScheme():
        return page
    known = SettledPage(page.markdown.encode("utf-8", "replace"), page.packed_elements, page.notes)
    found = settled(known, scheme)
    if found is known:
        return page
    text = found.markdown.decode("utf-8", "replace")
    return replace(page, markdown=text, packed_elements=found.elements, notes=found.notes)


def _unread(page: UnreadPage, milliseconds: int) -> ReadPage:
    failed = _failed(page.number, page.error)
    reasons = (*page.reasons, page.error.code)
    return replace(failed, page_class=page.page_class, reasons=reasons, milliseconds=milliseconds)


def _failed(number: int, error: QuireError) -> ReadPage:
    return ReadPage(number, error=error.public, error_code=error.code)


def unreadable(error: QuireError) -> DocumentReading:
    """Returns the reading of a document that could not be fetched or opened."""
    return DocumentReading((_failed(0, error),))
