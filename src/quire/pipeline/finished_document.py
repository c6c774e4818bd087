"""A finished document as doors and exports show it: its pages, and its Markdown, text and HTML as streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import PurePath

from quire.domain.job import MainJob, PageRecord
from quire.links import safe_filename
from quire.pipeline.document_elements import DocumentElements, ElementPage
from quire.pipeline.document_formats import html_document
from quire.pipeline.engine import Engine
from quire.pipeline.page_texts import page_texts
from quire.pipeline.parts import Parts
from quire.rendering.page_text import render_text


@dataclass(frozen=True, slots=True)
class FinishedDocument:
    job: MainJob
    records: list[PageRecord]
    parts: Parts
    given_name: str = ""
    """The file name of this request. The job may be an earlier one of the same content with another name."""

    @classmethod
    async def of(cls, engine: Engine, job: MainJob, given_name: str = "") -> FinishedDocument:
        """Raises MissingError if the result was deleted in the meantime."""
        await engine.result(job)
        return cls(job, await engine.pages(job), engine.parts, given_name)

    @property
    def name(self) -> str:
        return safe_filename(self.given_name) if self.given_name else self.job.filename or self.job.id

    @property
    def stem(self) -> str:
        return PurePath(self.name).stem

    @property
    def elements(self) -> DocumentElements:
        return DocumentElements(self.parts, self.records)

    async def pages(self) -> AsyncIterator[tuple[PageRecord, str]]:
        """Each page with its Markdown."""
        async with aclosing(page_texts(self.parts.objects, self.records)) as found:
            async for record, text in found:
                yield record, text

    async def markdown(self, between: str = "\n\n") -> AsyncIterator[str]:
        """The Markdown of all pages, with `between` between two pages."""
        first = True
        async with aclosing(page_texts(self.parts.objects, self.records)) as found:
            async for _, text in found:
                yield text if first else between + text
                first = False

    async def text(self, between: str = "\n\n") -> AsyncIterator[str]:
        """The words of all pages without markup."""
        first = True
        async with aclosing(self.elements.runs()) as runs:
            async for run in runs:
                for text in await asyncio.to_thread(list, map(_plain, run)):
                    yield text if first else between + text
                    first = False

    async def html(self) -> AsyncIterator[str]:
        """One HTML file with a section for each page."""
        async with aclosing(html_document(self.stem, self.elements)) as pieces:
            async for piece in pieces:
                yield piece.decode()


def _plain(one: ElementPage) -> str:
    return render_text(one.page.elements) or one.note
