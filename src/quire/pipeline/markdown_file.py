"""Writes a finished document as Markdown with the options of a request, page by page."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from quire.domain.element import ElementKind
from quire.domain.job import MainJob
from quire.domain.output_options import FigureForm, OutputOptions
from quire.pipeline.document_elements import DocumentElements, ElementPage
from quire.pipeline.figure_pictures import FIGURE_TYPE, FigurePictures
from quire.pipeline.stages.merge_stage import SEPARATOR
from quire.rendering.markdown_options import figure_link, figure_placeholder, front_matter, page_markdown

SaveFigure = Callable[[str, bytes], None]
"""Writes the picture of the figure with that id; called in a thread."""


class MarkdownFile:
    """The Markdown of a job's elements. `figure_place` is the address of a figure's file, with `{id}` in it.

    With `save`, the figures that are linked are cut and saved while the Markdown is written.
    """

    def __init__(
        self,
        job: MainJob,
        options: OutputOptions,
        pictures: FigurePictures,
        figure_place: str,
        save: SaveFigure | None = None,
    ) -> None:
        self._job = job
        self._options = options
        self._pictures = pictures
        self._figure_place = figure_place
        self._save = save

    async def pieces(self, elements: DocumentElements) -> AsyncGenerator[bytes, None]:
        """The document in UTF-8. Iterating raises MissingError if a retry has replaced the result."""
        if self._options.front_matter:
            yield front_matter(self._known()).encode("utf-8", "replace")
        is_first = True
        stored = self._options.keeps_stored_pages
        async with aclosing(elements.stored_texts() if stored else self._rendered(elements)) as pages:
            async for number, text in pages:
                before = b"" if is_first else self._between(number)
                is_first = False
                yield before + text.encode("utf-8", "replace")

    def _between(self, number: int) -> bytes:
        given = self._options.page_break
        if given is None:
            return SEPARATOR
        return f"\n\n{given.replace('{page}', str(number))}\n\n".encode("utf-8", "replace")

    async def _rendered(self, elements: DocumentElements) -> AsyncGenerator[tuple[int, str], None]:
        pages = elements.joined_runs() if self._options.join_tables else elements.runs()
        async with aclosing(pages) as runs:
            async for run in runs:
                for one in run:
                    figures = await self._figures(one)
                    text = await asyncio.to_thread(page_markdown, one.page.elements, self._options, figures)
                    yield one.page.number or one.record.number, text if one.page.elements else one.note

    async def _figures(self, one: ElementPage) -> Mapping[str, str]:
        """What is written for each figure of a page. A figure that can't be cut has a placeholder."""
        figures = [element for element in one.page.elements if element.kind is ElementKind.FIGURE]
        form = self._options.figures
        if not figures or form is FigureForm.NONE:
            return {}
        found = {element.id: figure_placeholder(element) for element in figures}
        if form is FigureForm.FILES:
            saved = await self._saved(one)
            for element in figures:
                if element.box is not None and (saved is None or element.id in saved):
                    found[element.id] = figure_link(element, self._figure_place.format(id=element.id))
        elif form is FigureForm.EMBEDDED:
            pictures = await self._pictures.of_page(one.page)
            for element in figures:
                if element.id in pictures:
                    data = base64.b64encode(pictures[element.id]).decode()
                    found[element.id] = figure_link(element, f"data:{FIGURE_TYPE};base64,{data}")
        return found

    async def _saved(self, one: ElementPage) -> frozenset[str] | None:
        """The ids of the figures that were saved; None where figures are not saved but cut when asked for."""
        if self._save is None:
            return None
        pictures = await self._pictures.of_page(one.page)
        for name, picture in pictures.items():
            await asyncio.to_thread(self._save, name, picture)
        return frozenset(pictures)

    def _known(self) -> dict[str, Any]:
        metadata = (self._job.result or {}).get("metadata", {})
        return {
            "title": metadata.get("title") or None,
            "author": metadata.get("author") or None,
            "filename": self._job.filename or None,
            "mime": self._job.mime,
            "pages": metadata.get("pages"),
            "job_id": self._job.id,
        }
