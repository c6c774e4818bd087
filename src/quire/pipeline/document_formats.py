"""Writes a finished document's elements as HTML and as JSON, page by page, so that no format is whole in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from quire.pipeline.document_elements import DocumentElements, ElementPage
from quire.rendering.document_html import DOCUMENT_END, document_start, page_section
from quire.rendering.element_json import SCHEMA_VERSION, document_page_json


async def html_document(title: str, elements: DocumentElements) -> AsyncGenerator[bytes, None]:
    """One HTML file with a section for each page. Everything from the document is escaped."""
    before = document_start(title)
    async with aclosing(_pieces(elements, lambda one: page_section(one.page, one.note))) as pieces:
        async for piece in pieces:
            yield (before + "".join(piece)).encode("utf-8", "replace")
            before = ""
    yield (before + DOCUMENT_END).encode("utf-8", "replace")


async def elements_document(
    head: dict[str, Any], elements: DocumentElements, *, lines: bool = False
) -> AsyncGenerator[bytes, None]:
    """`{…head, "schema_version": 1, "pages": […]}`."""
    start = compact_json({**head, "schema_version": SCHEMA_VERSION})
    between = f'{start[:-1]},"pages":['
    async with aclosing(_pieces(elements, lambda one: page_object(one, lines=lines))) as pieces:
        async for piece in pieces:
            yield (between + ",".join(piece)).encode("utf-8", "replace")
            between = ","
    yield (between if between != "," else "").encode() + b"]}"


async def elements_lines(elements: DocumentElements, *, lines: bool = False) -> AsyncGenerator[bytes, None]:
    """One page a line, each with the schema's version."""

    def line(one: ElementPage) -> str:
        shown = document_page_json(one.page, lines=lines, note=one.note)
        return compact_json({"schema_version": SCHEMA_VERSION, **shown}) + "\n"

    async with aclosing(_pieces(elements, line)) as pieces:
        async for piece in pieces:
            yield "".join(piece).encode("utf-8", "replace")


def page_object(one: ElementPage, *, lines: bool = False) -> str:
    return compact_json(document_page_json(one.page, lines=lines, note=one.note))


def compact_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


async def _pieces(
    elements: DocumentElements, written: Callable[[ElementPage], str]
) -> AsyncGenerator[list[str], None]:
    """The written pages, run by run; a run is written in a thread, so that the event loop is not blocked."""
    async with aclosing(elements.runs()) as runs:
        async for run in runs:
            yield await asyncio.to_thread(list, map(written, run))
