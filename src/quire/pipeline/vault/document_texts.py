"""The text of a finished conversion: its text chunks for search, and its beginning for a classifier."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from quire.domain.element import RUNNING_KINDS, Element
from quire.domain.job import JobStatus, PageRecord
from quire.domain.text_chunk import ChunkOptions, ChunkPlace, TextChunk
from quire.domain.vault_document import ChunkStart, ContentPage
from quire.errors import MissingError, PlaneError, QuireError
from quire.objects.object_store import ObjectStore
from quire.pipeline.document_elements import DocumentElements, ElementPage
from quire.pipeline.parts import Parts
from quire.pipeline.stages.merge_stage import unpack_pages
from quire.rendering.document_chunks import Chunker

_LOG = logging.getLogger(__name__)

_MOST_BYTES = 16 << 20
"""Search keeps some million characters of a document; more is not read."""
_LAST_BYTES = 8 << 10


async def searchable_texts(parts: Parts, result: dict[str, Any]) -> list[ContentPage]:
    """Returns the chunks of a document in order, up to a bound. Raises MissingError if a retry has replaced the result.

    They are those of `GET /documents/{id}/chunks` with its defaults. Where a page has no elements and none can be made
    of its Markdown, or they are damaged, the document is searched by the Markdown of its pages, which has no boxes.
    """
    raw = await parts.objects.get(result["pages_key"])
    records = [record for _, record in sorted(unpack_pages(raw).items()) if _has_text(record)]
    try:
        return await _chunks(DocumentElements(parts, records))
    except (MissingError, PlaneError):
        raise
    except QuireError as error:  # damaged elements cost the boxes, never the document
        _LOG.warning("search has no boxes of a document", extra={"code": error.code})
    text = await _read(parts.objects, result["key"], 0, _MOST_BYTES)
    return await asyncio.to_thread(_cut, raw, text)


async def _chunks(elements: DocumentElements) -> list[ContentPage]:
    chunker = Chunker(ChunkOptions())
    found: list[ContentPage] = []
    size = 0
    async with aclosing(elements.joined_runs()) as runs:
        async for run in runs:
            new = await asyncio.to_thread(_of_run, chunker, run)
            found += new
            size += sum(len(one.text) for one in new)
            if size > _MOST_BYTES:
                break
    return [*found, *map(_of_chunk, chunker.end())]


def _of_run(chunker: Chunker, run: Sequence[ElementPage]) -> list[ContentPage]:
    found: list[ContentPage] = []
    for one in run:
        found += map(_of_chunk, chunker.add(one.page))
        found += filter(None, (_of_running_line(element, one.page.number) for element in one.page.elements))
    return found


def _of_chunk(chunk: TextChunk) -> ContentPage:
    start = ChunkStart(0, chunk.index, chunk.hash)
    page = chunk.places[0].page if chunk.places else None
    return ContentPage(chunk.text, page, (start,), chunk.places)


def _of_running_line(element: Element, page: int) -> ContentPage | None:
    """A header or footer that the Markdown has too, as it is not repeated. Chunks leave it out; search must find it."""
    if element.kind not in RUNNING_KINDS or element.repeated or not element.plain_text.strip():
        return None
    return ContentPage(element.plain_text, page, (), (ChunkPlace(page, element.id, element.box),))


async def text_excerpt(objects: ObjectStore, result: dict[str, Any], most_bytes: int) -> str:
    """Returns the beginning of a text and, if it is longer, a little of its end: letters are signed and dated there."""
    key, raw = result["key"], await objects.get(result["pages_key"])
    if not await asyncio.to_thread(_all_have_text, raw):
        # The result has notes in place of pages without text; a classifier must not see them.
        pages = await asyncio.to_thread(_cut, raw, await _read(objects, key, 0, 4 * most_bytes))
        return "\n\n".join(page.text for page in pages)[:most_bytes]
    size = await objects.size(key) or 0
    head = await _read(objects, key, 0, most_bytes)
    if size <= most_bytes:
        return head.decode("utf-8", "replace")
    tail = await _read(objects, key, max(most_bytes, size - _LAST_BYTES), size)
    return f"{head.decode('utf-8', 'ignore')}\n\n[…]\n\n{tail.decode('utf-8', 'ignore')}"


async def _read(objects: ObjectStore, key: str, start: int, end: int) -> bytes:
    return b"".join([piece async for piece in objects.stream(key, start=start, end=end)])


def _has_text(record: PageRecord) -> bool:
    return record.status is JobStatus.COMPLETED and record.words > 0


def _all_have_text(raw: bytes) -> bool:
    return all(map(_has_text, unpack_pages(raw).values()))


def _cut(raw: bytes, text: bytes) -> list[ContentPage]:
    records = unpack_pages(raw)
    found = []
    for number in sorted(records):
        record = records[number]
        if not _has_text(record) or record.offset >= len(text):
            continue
        page = text[record.offset : record.offset + record.length].decode("utf-8", "ignore")
        if page.strip():
            found.append(ContentPage(page, number))
    return found
