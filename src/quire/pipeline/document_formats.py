"""Writes a finished document's elements as HTML, JSON and chunks, page by page: no format is whole in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from quire.domain.included_details import IncludedDetails
from quire.domain.text_chunk import CHUNKS_SCHEMA_VERSION, TOKENIZER, ChunkOptions
from quire.pipeline.document_elements import DocumentElements, ElementPage
from quire.rendering.document_chunks import Chunker
from quire.rendering.document_html import DOCUMENT_END, document_start, page_section
from quire.rendering.element_json import SCHEMA_VERSION, document_page_json


async def html_document(title: str, elements: DocumentElements) -> AsyncGenerator[bytes, None]:
    """One HTML file with a section for each page. Everything from the document is escaped."""
    before = document_start(title)
    async with aclosing(html_sections(elements)) as sections:
        async for piece in sections:
            yield (before + piece).encode("utf-8", "replace")
            before = ""
    yield (before + DOCUMENT_END).encode("utf-8", "replace")


async def html_sections(elements: DocumentElements) -> AsyncGenerator[str, None]:
    """The sections of the pages alone, some at a time."""
    written = _pieces(elements.joined_runs(), lambda one: page_section(one.page, one.note))
    async with aclosing(written) as pieces:
        async for piece in pieces:
            yield "".join(piece)


async def elements_document(
    head: dict[str, Any],
    elements: DocumentElements,
    included: IncludedDetails | None = None,
    details: dict[str, Any] | None = None,
) -> AsyncGenerator[bytes, None]:
    """`{…head, "schema_version": 1, "pages": […]}`, with `details` of the file before the pages if they are given."""
    more = {} if details is None else {"details": details}
    yield compact_json({**head, "schema_version": SCHEMA_VERSION, **more})[:-1].encode("utf-8", "replace")
    async with aclosing(pages_member(elements, included)) as pieces:
        async for piece in pieces:
            yield piece
    yield b"}"


async def pages_member(
    elements: DocumentElements, included: IncludedDetails | None = None
) -> AsyncGenerator[bytes, None]:
    """`,"pages": […]`: a member of a JSON object that has others before it."""
    wanted = included or IncludedDetails()
    between = ',"pages":['

    def written(one: ElementPage) -> str:
        return compact_json(document_page_json(one.page, wanted, note=one.note))

    async with aclosing(_pieces(elements.runs(), written)) as pieces:
        async for piece in pieces:
            yield (between + ",".join(piece)).encode("utf-8", "replace")
            between = ","
    yield (between if between != "," else "").encode() + b"]"


async def elements_lines(
    elements: DocumentElements,
    included: IncludedDetails | None = None,
    details: dict[str, Any] | None = None,
) -> AsyncGenerator[bytes, None]:
    """One page a line, each with the schema's version; before them a line with `details` if they are given."""
    wanted = included or IncludedDetails()

    def line(one: ElementPage) -> str:
        shown = document_page_json(one.page, wanted, note=one.note)
        return compact_json({"schema_version": SCHEMA_VERSION, **shown}) + "\n"

    if details is not None:
        about = compact_json({"schema_version": SCHEMA_VERSION, "details": details})
        yield f"{about}\n".encode("utf-8", "replace")
    async with aclosing(_pieces(elements.runs(), line)) as pieces:
        async for piece in pieces:
            yield "".join(piece).encode("utf-8", "replace")


async def chunks_document(
    head: dict[str, Any], elements: DocumentElements, options: ChunkOptions
) -> AsyncGenerator[bytes, None]:
    """`{…head, …options, "chunks": […], "pages_without_text": […]}`."""
    start = {
        **head,
        "schema_version": CHUNKS_SCHEMA_VERSION,
        "tokenizer": TOKENIZER,
        "max_tokens": options.max_tokens,
        "overlap": options.overlap,
    }
    between = f'{compact_json(start)[:-1]},"chunks":['
    empty: list[int] = []
    async with aclosing(_chunks(elements, options, empty)) as pieces:
        async for piece in pieces:
            if piece:
                yield (between + ",".join(piece)).encode("utf-8", "replace")
                between = ","
    between = "" if between == "," else between
    yield f'{between}],"pages_without_text":{compact_json(empty)}}}'.encode("utf-8", "replace")


async def chunks_lines(elements: DocumentElements, options: ChunkOptions) -> AsyncGenerator[bytes, None]:
    """One chunk a line."""
    async with aclosing(_chunks(elements, options, [])) as pieces:
        async for piece in pieces:
            if piece:
                yield ("\n".join(piece) + "\n").encode("utf-8", "replace")


async def _chunks(
    elements: DocumentElements, options: ChunkOptions, empty: list[int]
) -> AsyncGenerator[list[str], None]:
    """The chunks that are complete after each run of pages. `empty` gets the numbers of pages without elements."""
    chunker = Chunker(options)

    def cut(run: list[ElementPage]) -> list[str]:
        return [compact_json(chunk.as_dict()) for one in run for chunk in chunker.add(one.page)]

    async with aclosing(elements.joined_runs()) as runs:
        async for run in runs:
            empty += [one.page.number for one in run if not one.page.elements]
            yield await asyncio.to_thread(cut, run)
    yield [compact_json(chunk.as_dict()) for chunk in chunker.end()]


def compact_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


async def _pieces(
    pages: AsyncGenerator[list[ElementPage], None], written: Callable[[ElementPage], str]
) -> AsyncGenerator[list[str], None]:
    """The written pages, run by run; a run is written in a thread, so that the event loop is not blocked."""
    async with aclosing(pages) as runs:
        async for run in runs:
            yield await asyncio.to_thread(list, map(written, run))
