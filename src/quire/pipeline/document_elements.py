"""Reads the stored elements of a finished document's pages, many pages with one read of the object store."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from quire.domain.element import PageElements
from quire.domain.element_codec import decode
from quire.domain.job import PageRecord
from quire.pipeline.object_keys import elements_ref
from quire.pipeline.page_texts import page_texts
from quire.pipeline.parts import Parts
from quire.pipeline.stages.merge_stage import failure_note
from quire.reading.files.markdown_elements import encoded_markdown
from quire.rendering.joined_tables import TableJoiner

_RUN_BYTES = 1 << 20
_RUN_PAGES = 64


@dataclass(frozen=True, slots=True)
class ElementPage:
    """A page's elements. A page that has none has a `note`: the line of Markdown that the result has in its place."""

    record: PageRecord
    page: PageElements
    note: str = ""


class DocumentElements:
    """The elements of the given pages, in order. Iterating raises MissingError if a retry has replaced the result.

    Pages whose Markdown came without elements (an external dispatcher read them, or an earlier version of Quire) get
    those that a CommonMark parser finds in it; they have no boxes.
    """

    def __init__(self, parts: Parts, records: Sequence[PageRecord]) -> None:
        self._parts = parts
        self._records = records

    @property
    def numbers(self) -> list[int]:
        """The numbers of the pages."""
        return [record.number for record in self._records]

    async def runs(self) -> AsyncGenerator[list[ElementPage], None]:
        """Yields neighbouring pages together: a caller can write them in one go, outside of the event loop."""
        for run in _runs(self._records):
            if run[0].elements_length:
                yield await self._stored(run)
            else:
                yield [await self._without_elements(record) for record in run]

    async def joined_runs(self) -> AsyncGenerator[list[ElementPage], None]:
        """The same pages with tables joined over page breaks. A page comes when it is known where its tables end."""
        joiner = TableJoiner()
        waiting: deque[ElementPage] = deque()

        def take(run: Sequence[ElementPage]) -> list[ElementPage]:
            waiting.extend(run)
            done = [page for one in run for page in joiner.add(one.page)]
            return [replace(waiting.popleft(), page=page) for page in done]

        async with aclosing(self.runs()) as runs:
            async for run in runs:
                if done := await asyncio.to_thread(take, run):
                    yield done
        if rest := [replace(waiting.popleft(), page=page) for page in await asyncio.to_thread(joiner.end)]:
            yield rest

    async def stored_texts(self) -> AsyncGenerator[tuple[int, str], None]:
        """The numbers and the Markdown of the pages as they are stored, neighbouring pages with one read."""
        async with aclosing(page_texts(self._parts.objects, self._records)) as pages:
            async for record, text in pages:
                yield record.number, text

    async def _stored(self, run: Sequence[PageRecord]) -> list[ElementPage]:
        start = run[0].elements_offset
        end = run[-1].elements_offset + run[-1].elements_length
        block = await self._bytes(elements_ref(run[0].ref or ""), start, end)
        pages = await asyncio.to_thread(
            lambda: [
                decode(block[one.elements_offset - start : one.elements_offset - start + one.elements_length])
                for one in run
            ]
        )
        return [ElementPage(record, page) for record, page in zip(run, pages, strict=True)]

    async def _without_elements(self, record: PageRecord) -> ElementPage:
        empty = PageElements(record.number, reader=record.reader or "")
        if record.ref is None:
            return ElementPage(record, empty, failure_note(record).decode())
        raw = await self._bytes(record.ref, record.offset, record.offset + record.length)
        markdown = raw.decode("utf-8", "replace")
        if not record.words:
            return ElementPage(record, empty, markdown.strip())
        reader = record.reader or record.model or ""
        packed = await self._parts.pool.run(
            encoded_markdown,
            *(markdown, record.number, reader),
            timeout_s=self._parts.settings.reading.page_timeout_s,
        )
        return ElementPage(record, decode(packed))

    async def _bytes(self, key: str, start: int, end: int) -> bytes:
        if end <= start:
            return b""
        return b"".join([piece async for piece in self._parts.objects.stream(key, start=start, end=end)])


def _runs(records: Sequence[PageRecord]) -> Iterator[list[PageRecord]]:
    """Groups neighbours whose elements are in the same object, in order and close together."""
    run: list[PageRecord] = []
    for record in records:
        if run and not _belongs(run, record):
            yield run
            run = []
        run.append(record)
    if run:
        yield run


def _belongs(run: list[PageRecord], record: PageRecord) -> bool:
    first, last = run[0], run[-1]
    return (
        bool(record.elements_length) == bool(first.elements_length)
        and record.ref == first.ref
        and record.elements_offset >= last.elements_offset
        and record.elements_offset + record.elements_length - first.elements_offset <= _RUN_BYTES
        and len(run) < _RUN_PAGES
    )
