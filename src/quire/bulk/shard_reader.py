"""Reads the documents of a shard and writes its part. Whatever is wrong with a document becomes a row."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from quire.bulk import page_rows
from quire.bulk.page_rows import PageRow, ShardStats, stats_of, to_parquet
from quire.bulk.shard_plan import DELETED, DUPLICATE, PlannedDocument, Shard, part_name
from quire.domain.element_codec import decode
from quire.domain.text_chunk import ChunkOptions
from quire.errors import MissingError, PageCrashedError, QuireError, StateConflictError
from quire.objects.bulk_locations import BulkLocation
from quire.objects.object_store import in_thread
from quire.objects.spool_folders import SpoolFolder
from quire.reading.document_reading import (
    DocumentOptions,
    DocumentReading,
    ReadPage,
    read_document,
    unreadable,
)
from quire.reading.pool.cage import CageOptions
from quire.reading.pool.child_pool import ChildPool, PoolOptions

_LANGUAGE_SAMPLE = 3_000
_HELD_DOCUMENTS = 32
"""For each reader process, documents that are being read or whose rows are being made."""


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """`formats` are columns besides `markdown`. `processes` reader processes share the documents of all shards."""

    document: DocumentOptions = field(default_factory=DocumentOptions)
    formats: frozenset[str] = frozenset()
    processes: int = 1
    memory_bytes: int = 1 << 30
    password: str | None = None
    caged: bool = True


OnDocument = Callable[[ShardStats], None]


class ShardReader:
    """Reads shards, several at a time if asked. Must be opened within the event loop that uses it."""

    def __init__(self, source: BulkLocation, target: BulkLocation, options: ShardOptions) -> None:
        self._source = source
        self._target = target
        self._options = options
        self._folder = SpoolFolder("quire-bulk-")
        self._spool = self._folder.path
        cage = CageOptions(str(self._spool / "temporary"))
        self._pool = ChildPool(
            PoolOptions(
                processes=options.processes,
                memory_bytes=options.memory_bytes,
                cage=cage if options.caged else None,
                slow_processes=0,
            )
        )
        self._numbers = itertools.count()
        self._model = asyncio.ensure_future(in_thread(_load_language_model))
        # One more than there are processes: the next document is fetched while they read.
        self._room = asyncio.Semaphore(options.processes + 1)
        # Documents that are read don't take that room from others while their rows wait for the model or a thread.
        self._held = asyncio.Semaphore(options.processes * _HELD_DOCUMENTS)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, source: BulkLocation, target: BulkLocation, options: ShardOptions
    ) -> AsyncIterator[ShardReader]:
        reader = cls(source, target, options)
        try:
            reader._pool.warm()
            yield reader
        finally:
            await asyncio.wait([reader._model])
            await reader._pool.close()
            reader._folder.remove()

    async def write_part(self, shard: Shard, on_document: OnDocument | None = None) -> ShardStats:
        """Reads the shard and writes its part. Raises ObjectsError where a store can't be used."""
        found = await self.rows(shard, on_document)
        stats = stats_of(found)
        content = await in_thread(to_parquet, found, stats)
        await self._target.put(part_name(shard.number), content)
        return stats

    async def rows(self, shard: Shard, on_document: OnDocument | None = None) -> list[PageRow]:
        """Returns the rows of all documents of the shard, in its order."""

        async def one(document: PlannedDocument) -> list[PageRow]:
            async with self._held:
                found = await self._document(document, shard.run)
            if on_document is not None:
                on_document(stats_of(found))
            return found

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(document)) for document in shard.documents]
        return [row for task in tasks for row in task.result()]

    async def _document(self, document: PlannedDocument, run: int) -> list[PageRow]:
        base = PageRow(document.key, document.etag, document.size, document.content, run)
        if document.action in (DUPLICATE, DELETED):
            return [replace(base, kind=document.action)]
        async with self._room:
            reading = await self._reading(document)
        await self._model
        # In a thread: reader processes wait for the event loop.
        return await in_thread(document_rows, base, reading, self._options.formats)

    async def _reading(self, document: PlannedDocument) -> DocumentReading:
        key, etag = document.key, document.etag
        copy = self._spool / f"document-{next(self._numbers)}"
        path: Path | None = None
        try:
            path = await self._source.fetch(key, etag, copy)
            options = self._options
            found = await read_document(
                self._pool, str(path), options.document, password=options.password, share=key
            )
            if (found.info, found.pages[0].error_code) == (None, PageCrashedError.code):
                raise PageCrashedError(found.pages[0].error or "", retryable=True)  # not the document's fault
            if not await self._source.is_unchanged(key, etag):
                raise StateConflictError("It changed while it was read. Run again to read the new version.")
            return found
        except (MissingError, StateConflictError) as error:
            return unreadable(error)
        finally:
            if path is None or path == copy:  # otherwise it is the original
                await in_thread(copy.unlink, missing_ok=True)


def document_rows(base: PageRow, reading: DocumentReading, formats: frozenset[str]) -> list[PageRow]:
    """Returns one row for each page, or the one that says why the document can't be read."""
    mime = reading.info.mime if reading.info else ""
    count = reading.info.page_count if reading.info else 0
    language = _language(reading.pages)
    chunks: dict[int, str] = {}
    if "chunks" in formats:
        chunks = chunks_by_page((page.number, page.packed_elements) for page in reading.pages)
    found: list[PageRow] = []
    for page in reading.pages:
        row = replace(
            base,
            kind=page_rows.ERROR if page.error_code else page_rows.PAGE,
            page=page.number,
            pages=count,
            mime=mime,
            markdown=page.markdown if page.number else None,
            page_class=page.page_class.value if page.page_class else None,
            source=page.source.value if page.source else None,
            reader=page.reader,
            grade=page.grade.value if page.grade else None,
            reasons=page.reasons,
            confidence=page.confidence,
            words=page.words,
            language=language,
            milliseconds=page.milliseconds,
            error_code=page.error_code,
            error=page.error,
        )
        add_formats(row, page.packed_elements, formats)
        row.chunks = chunks.get(page.number)
        found.append(row)
    return found


def add_formats(row: PageRow, packed_elements: bytes, formats: frozenset[str]) -> None:
    """Fills the columns `text`, `html` and `elements` that are asked for."""
    if not packed_elements or not formats & {"text", "html", "elements"}:
        return
    from quire.rendering.element_json import page_json
    from quire.rendering.page_html import render_html
    from quire.rendering.page_text import render_text

    try:
        elements = decode(packed_elements)
    except QuireError:  # a reader process that a hostile file has taken over wrote them
        return
    if "text" in formats:
        row.text = render_text(elements.elements)
    if "html" in formats:
        row.html = render_html(elements.elements)
    if "elements" in formats:
        row.elements = json.dumps(page_json(elements), ensure_ascii=False)


def chunks_by_page(pages: Iterable[tuple[int, bytes]]) -> dict[int, str]:
    """Returns the chunks of a document as JSON, under the page that each begins on.

    `pages` are numbers in ascending order with packed elements; a page without any has no part in a chunk.
    """
    from quire.rendering.document_chunks import Chunker
    from quire.rendering.joined_tables import joined_pages

    chunker = Chunker(ChunkOptions())
    known, first = [], 0
    for number, packed in pages:
        first = first or number
        with contextlib.suppress(QuireError):
            known.append(decode(packed))
    pieces = [piece for page in joined_pages(known) for piece in chunker.add(page)]
    found: dict[int, list[object]] = {}
    for piece in (*pieces, *chunker.end()):
        begins = min((place.page for place in piece.places), default=first)
        found.setdefault(begins, []).append(piece.as_dict())
    return {number: json.dumps(chunks, ensure_ascii=False) for number, chunks in found.items()}


def _load_language_model() -> None:
    """Loads the model for all documents to come; otherwise the first ones would each load it."""
    from quire.classification.local_classifier import load_language_model

    load_language_model()


def _language(pages: Sequence[ReadPage]) -> str | None:
    from quire.classification.local_classifier import language_of

    sample = ""
    for page in pages:
        sample += page.markdown if page.words else ""
        if len(sample) >= _LANGUAGE_SAMPLE:
            break
    return language_of(sample) if sample else None
