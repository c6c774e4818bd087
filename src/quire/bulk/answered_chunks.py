"""The chunks of documents that AI has read in part: cut again from the elements of all their pages.

A chunk may go over pages, so one answer changes the chunks of its neighbours as well. Pages that local readers read are
read again for their elements; other pages get theirs from the Markdown of their rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from quire.bulk.page_rows import PAGE, PageRow
from quire.bulk.shard_reader import chunks_by_page
from quire.bulk.source_documents import FetchedDocument, SourceDocuments
from quire.domain.page import PageSource
from quire.errors import DocumentError, PageError
from quire.pipeline.page_vision import PageVision
from quire.providers import configured_providers
from quire.reading.document_reading import DocumentOptions, read_document
from quire.reading.pdf.grounding import GroundedAnswer
from quire.reading.pool.child_pool import ChildPool

_LOCAL = (PageSource.LOCAL, PageSource.MUPDF_FALLBACK, PageSource.MUPDF_TIMEOUT_FALLBACK)


@dataclass(frozen=True, slots=True)
class AnsweredChunks:
    """`options` are those of the first pass."""

    pool: ChildPool
    vision: PageVision
    source: SourceDocuments
    options: DocumentOptions

    async def cut_again(
        self, document: FetchedDocument | None, rows: Sequence[PageRow], answered: Mapping[int, bytes]
    ) -> None:
        """Replaces the column `chunks` in all rows of one document.

        `answered` has the packed elements of the pages that AI has just read. `document` is None where it is gone.
        """
        known = dict(answered)
        if document is not None and any(row.source in _LOCAL and row.page not in known for row in rows):
            known = await self._read_locally(document, rows) | known
        for row in rows:
            if row.page not in known and row.kind == PAGE and row.markdown:
                known[row.page] = await self._from_markdown(document, row)
        chunks = chunks_by_page((row.page, known.get(row.page, b"")) for row in rows)
        for row in rows:
            row.chunks = chunks.get(row.page)

    async def _read_locally(self, document: FetchedDocument, rows: Sequence[PageRow]) -> dict[int, bytes]:
        options = replace(self.options, ocr=False)
        reading = await read_document(self.pool, document.path, options, password=self.source.password)
        local = {row.page for row in rows if row.source in _LOCAL}
        return {
            page.number: page.packed_elements
            for page in reading.pages
            if page.number in local and page.packed_elements
        }

    async def _from_markdown(self, document: FetchedDocument | None, row: PageRow) -> bytes:
        text = row.markdown or ""
        if document is not None:
            reader = configured_providers.OCR if row.source == PageSource.OCR else row.reader or ""
            try:
                page = self.source.page(document, row)
                return (await self.vision.ground(page, text, reader.partition(":")[0])).elements
            except (DocumentError, PageError):
                pass
        return (await elements_without_ground(self.vision, row.page, text)).elements


async def elements_without_ground(vision: PageVision, number: int, text: str) -> GroundedAnswer:
    """Returns the elements of an answer that can't be compared with its page; none where the readers fail."""
    try:
        return await vision.without_ground(number, text)
    except PageError:
        return GroundedAnswer(b"")
