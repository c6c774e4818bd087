"""Writes a finished document as a searchable PDF, in a reader process."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from quire.domain.element import Element, ElementKind, PageElements, TableGrid
from quire.domain.job import MainJob
from quire.domain.page import PageSource
from quire.errors import MissingError, StateConflictError
from quire.objects.temporary_files import TemporaryFile, sweep
from quire.pipeline.document_elements import DocumentElements, ElementPage
from quire.pipeline.object_keys import local_document
from quire.pipeline.parts import Parts
from quire.reading.ocr.ocr_stages import TURNED
from quire.reading.pdf.page_render import RenderOptions
from quire.reading.pdf.searchable_pdf import Bookmark, LayerLine, PdfAdditions, TextLayer, searchable_pdf

PDF_TYPE = "application/pdf"
_OWN_TEXT = frozenset({PageSource.LOCAL, PageSource.MUPDF_FALLBACK, PageSource.MUPDF_TIMEOUT_FALLBACK})
_NO_TEXT_OF_PAGE = frozenset({ElementKind.FIGURE, ElementKind.FORM_FIELD, ElementKind.ATTACHMENT})
_PICTURE_PX = 16_384
_PICTURE_QUALITY = 90
_LETTER_SHARE = 0.4
"""The width of an average letter, as a share of the distance between lines."""
_SECONDS_A_PAGE = 1.0
_PIECE_BYTES = 256 << 10


class SearchableFile:
    """One document as a PDF whose scanned pages can be searched."""

    def __init__(self, parts: Parts, job: MainJob) -> None:
        self._parts = parts
        self._job = job

    async def pieces(
        self, elements: DocumentElements, only: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The PDF, of page `only` alone if that is given. It is written to a file first, so memory use is small.

        Raises MissingError if the original was deleted, StateConflictError for a document of another type, and
        DocumentError or PageError if the document can't be opened or written.
        """
        job = self._job
        if job.original_deleted or not job.content_ref:
            raise MissingError("The original was deleted; it is kept only as long as RETAIN_ORIGINALS says.")
        if job.mime and job.mime != PDF_TYPE and not job.mime.startswith("image/"):
            raise StateConflictError(
                f"Only PDFs and pictures have a searchable PDF; this document is {job.mime}."
            )
        additions = await self._additions(elements, only)
        folder = self._parts.settings.general.data_dir / "scratch" / "searchable"
        file = await asyncio.to_thread(_swept_file, folder)
        try:
            await self._write(additions, file.path)
            with await asyncio.to_thread(file.path.open, "rb") as written:
                while piece := await asyncio.to_thread(written.read, _PIECE_BYTES):
                    yield piece
        finally:
            file.discard()

    async def _write(self, additions: PdfAdditions, target: Path) -> None:
        job, settings = self._job, self._parts.settings
        render = replace(
            RenderOptions.of(settings.images, settings.limits.max_pixels),
            color="rgb",
            format="jpeg",
            quality=_PICTURE_QUALITY,
            max_px=_PICTURE_PX,
        )
        password = self._parts.sealer.unseal(job.id, job.sealed).password
        async with local_document(self._parts.objects, job.content_ref or "") as path:
            await self._parts.pool.run(
                searchable_pdf,
                *(str(path), password, additions, render, str(target)),
                timeout_s=settings.reading.page_timeout_s + _SECONDS_A_PAGE * (job.total_pages or 1),
            )

    async def _additions(self, elements: DocumentElements, only: int | None) -> PdfAdditions:
        layers: list[TextLayer] = []
        bookmarks: list[Bookmark] = []
        async with aclosing(elements.runs()) as runs:
            async for run in runs:
                for one in run:
                    number = one.page.number or one.record.number
                    bookmarks.extend(page_bookmarks(one.page, number))
                    layers.append(_layer(one, number))
        return PdfAdditions(tuple(layers), tuple(bookmarks), only)


def _swept_file(folder: Path) -> TemporaryFile:
    """A new file; files of processes that were killed are deleted first."""
    sweep(folder)
    return TemporaryFile(folder)


def page_bookmarks(page: PageElements, number: int) -> Iterator[Bookmark]:
    """The title and the headings of a page; text of a model that the page does not support is none."""
    for one in page.elements:
        if one.kind in (ElementKind.TITLE, ElementKind.HEADING) and one.grounded is not False and one.text:
            yield Bookmark(max(1, one.level), one.text, number)


def _layer(one: ElementPage, number: int) -> TextLayer:
    """The lines of a page. One that is read from its own text gets none, nor one whose turn is not known.

    An earlier version of Quire stored that it had turned a page, and not by how much.
    """
    page = one.page
    is_unknown = TURNED in one.record.reasons and not page.turns
    if one.record.source in _OWN_TEXT or is_unknown:
        return TextLayer(number, page.width, page.height, ())
    lines = tuple(line for element in page.elements for line in element_lines(element))
    return TextLayer(number, page.width, page.height, lines, page.turns)


def element_lines(element: Element) -> list[LayerLine]:
    """The lines of an element; where only its own box is known, they share it. None without ground in the page."""
    box, text = element.box, element.text
    if box is None or not element.grounded or (element.kind in _NO_TEXT_OF_PAGE and not element.lines):
        return []
    if element.table is not None:
        return _table_lines(element.table, box)
    if not element.lines:
        return _shared(text, box)
    ends = [line.start for line in element.lines[1:]] + [len(text)]
    texts = [text[line.start : end] for line, end in zip(element.lines, ends, strict=True)]
    if element.kind is ElementKind.LIST_ITEM and element.marker:
        texts[0] = f"{element.marker} {texts[0]}"
    return [
        LayerLine(said, line.box) for said, line in zip(texts, element.lines, strict=True) if said.strip()
    ]


def _shared(text: str, box: tuple[float, float, float, float]) -> list[LayerLine]:
    """The text in as many lines of equal height as letters of the usual shape need in the box."""
    x0, y0, x1, y1 = box
    words = text.split()
    if not words or x1 <= x0 or y1 <= y0:
        return []
    length = sum(map(len, words)) + len(words) - 1
    count = min(len(words), max(1, round(math.sqrt(_LETTER_SHARE * length * (y1 - y0) / (x1 - x0)))))
    rows: list[list[str]] = [[] for _ in range(count)]
    before = 0
    for word in words:
        rows[min(count - 1, before * count // length)].append(word)
        before += len(word) + 1
    high = (y1 - y0) / count
    return [
        LayerLine(" ".join(row), (x0, y0 + at * high, x1, y0 + (at + 1) * high))
        for at, row in enumerate(rows)
        if row
    ]


def _table_lines(table: TableGrid, box: tuple[float, float, float, float]) -> list[LayerLine]:
    """The cells of a table, whose rows and columns are taken to be equal in size."""
    x0, y0, x1, y1 = box
    columns = max((len(row) for row in table.rows), default=0)
    if not columns:
        return []
    wide, high = (x1 - x0) / columns, (y1 - y0) / len(table.rows)
    found: list[LayerLine] = []
    for cell in table.cells():
        left, top = x0 + cell.column * wide, y0 + cell.row * high
        place = (left, top, left + cell.column_span * wide, top + cell.row_span * high)
        found.extend(_shared(cell.text, place))
    return found
