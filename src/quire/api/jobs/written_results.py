"""Results that are written from a document's elements on request: HTML, DoclingDocument, zip, PDF, Markdown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

from fastapi import Query, Response

from quire.api.http.responses import INERT, NO_SNIFF, ClosingStream, disposition, started
from quire.domain.included_details import IncludedDetails
from quire.domain.job import MainJob
from quire.domain.output_options import FigureForm, OutputOptions
from quire.domain.text_chunk import ChunkOptions
from quire.links import safe_filename
from quire.pipeline.docling_file import docling_document
from quire.pipeline.document_elements import DocumentElements
from quire.pipeline.document_formats import chunks_lines, compact_json, elements_document, html_document
from quire.pipeline.engine import Engine
from quire.pipeline.open_streams import single_piece
from quire.pipeline.searchable_file import PDF_TYPE
from quire.pipeline.zip_stream import ZipEntry, ZipStream


class Format(StrEnum):
    JSON = "json"
    MARKDOWN = "md"
    TEXT = "text"
    HTML = "html"
    DOCLING = "docling"
    ZIP = "zip"
    PDF = "pdf"


WRITTEN_FORMATS = frozenset({Format.HTML, Format.DOCLING, Format.ZIP, Format.PDF})
"""Formats of which nothing is stored; the others are the stored Markdown."""

FormatParam = Annotated[
    Format | None,
    Query(
        description="Overrules `Accept`. `md` and `text` give the bare Markdown, labelled as such or as plain; "
        "`html` is one file with a section for each page, without anything that loads or runs; `docling` is a "
        "DoclingDocument; `zip` has all of these, the elements, the chunks and the figures; `pdf` is the original "
        "with an invisible text layer on scanned pages and with bookmarks (PDFs and pictures only)."
    ),
]


async def written_answer(
    form: Format,
    engine: Engine,
    job: MainJob,
    elements: DocumentElements,
    *,
    title: str,
    stem: str,
    options: OutputOptions,
    metadata: dict[str, Any],
    only: int | None = None,
) -> Response:
    """The elements in one of WRITTEN_FORMATS; `stem` is the name of the download without its ending.

    `only` is the number of the page, where the elements are those of one page.
    """
    if form is Format.PDF:
        content = await started(engine.searchable(job).pieces(elements, only))
        headers = {"Content-Disposition": disposition("attachment", safe_filename(f"{stem}.pdf")), **NO_SNIFF}
        return ClosingStream(content, media_type=PDF_TYPE, headers=headers)
    if form is Format.HTML:
        return await _html_answer(title, elements, stem)
    if form is Format.ZIP:
        body = await started(
            zip_document(engine, job, elements, title=title, options=options, metadata=metadata)
        )
        headers = {"Content-Disposition": disposition("attachment", safe_filename(f"{stem}.zip")), **NO_SNIFF}
        return ClosingStream(body, media_type="application/zip", headers=headers)
    name = safe_filename(f"{stem}.docling.json")
    headers = {"Content-Disposition": disposition("inline", name), **NO_SNIFF}
    body = await started(docling_document(job, elements))
    return ClosingStream(body, media_type="application/json", headers=headers)


def zip_document(
    engine: Engine,
    job: MainJob,
    elements: DocumentElements,
    *,
    title: str,
    options: OutputOptions,
    metadata: dict[str, Any],
) -> AsyncIterator[bytes]:
    """All formats of a document and its figures as one zip, piece by piece."""
    entries = _entries(engine, job, elements, title=title, options=options, metadata=metadata)
    return ZipStream(engine.now()).stream(entries)


async def _html_answer(title: str, elements: DocumentElements, stem: str) -> Response:
    """Sent as a download: what comes from documents is never shown inline as HTML."""
    name = safe_filename(f"{stem}.html")
    headers = {"Content-Disposition": disposition("attachment", name), **INERT}
    body = await started(html_document(title, elements))
    return ClosingStream(body, media_type="text/html; charset=utf-8", headers=headers)


async def _entries(
    engine: Engine,
    job: MainJob,
    elements: DocumentElements,
    *,
    title: str,
    options: OutputOptions,
    metadata: dict[str, Any],
) -> AsyncIterator[ZipEntry]:
    """The members of a zip. The links to figures in its Markdown lead to its own files."""
    linked = replace(options, figures=FigureForm.FILES)
    head = {"job_id": job.id, "filename": job.filename or None}
    yield ZipEntry("document.md", engine.markdown(job, linked, "figures/{id}.png").pieces(elements))
    yield ZipEntry("document.html", html_document(title, elements))
    yield ZipEntry("document.docling.json", docling_document(job, elements))
    yield ZipEntry("elements.json", elements_document(head, elements, IncludedDetails(lines=True)))
    yield ZipEntry("chunks.jsonl", chunks_lines(elements, ChunkOptions()))
    yield ZipEntry("metadata.json", single_piece(compact_json(head | metadata).encode("utf-8", "replace")))
    pictures = engine.figures(job)
    async with aclosing(elements.runs()) as runs:
        async for run in runs:
            for one in run:
                for name, picture in (await pictures.of_page(one.page)).items():
                    yield ZipEntry(f"figures/{safe_filename(name)}.png", single_piece(picture), packed=False)
