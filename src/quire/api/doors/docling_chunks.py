"""Writes finished documents in chunks as docling-serve answers them, with the boxes that its users miss."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from fastapi import Response

from quire.api.doors.docling_options import DoclingOptions, OptionError
from quire.api.doors.docling_results import document_response, files_of, only_document
from quire.api.doors.door_answers import LongValue, json_list, json_stream
from quire.api.http.flag_words import is_false, is_true
from quire.api.http.services import Services
from quire.domain.document_batch import BatchItem
from quire.domain.job import MainJob
from quire.domain.text_chunk import (
    DEFAULT_MAX_TOKENS,
    LARGEST_MAX_TOKENS,
    SMALLEST_MAX_TOKENS,
    ChunkOptions,
    TextChunk,
)
from quire.pipeline.document_elements import ElementPage
from quire.pipeline.finished_document import FinishedDocument
from quire.rendering.docling_json import DoclingItems
from quire.rendering.document_chunks import Chunker


def read_chunking(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a chunk request, from a form or from JSON. Raises OptionError."""
    nested = fields.get("chunking_options") or {}
    if not isinstance(nested, dict):
        raise OptionError("chunking_options", "an object")
    given = {**{name.removeprefix("chunking_"): value for name, value in fields.items()}, **nested}

    def one(name: str) -> Any:
        value = given.get(name)
        return value[-1] if isinstance(value, list) and value else value

    most = LARGEST_MAX_TOKENS if kind == "hierarchical" else DEFAULT_MAX_TOKENS
    if kind == "hybrid" and one("max_tokens") not in (None, ""):
        try:
            most = int(one("max_tokens"))
        except (TypeError, ValueError):
            most = 0
        if not SMALLEST_MAX_TOKENS <= most <= LARGEST_MAX_TOKENS:
            raise OptionError(
                "chunking_max_tokens", f"a number from {SMALLEST_MAX_TOKENS} to {LARGEST_MAX_TOKENS}"
            )
    return {
        "max_tokens": most,
        "with_document": is_true(one("include_converted_doc")),
        "raw_text": not is_false(one("include_raw_text")),
    }


async def chunks_answer(
    services: Services,
    items: list[BatchItem],
    jobs: Mapping[str, MainJob],
    options: DoclingOptions,
    chunking: Mapping[str, Any],
) -> Response:
    """The chunks of all documents. Raises as `only_document` if there is one."""
    found: list[FinishedDocument | str]
    if len(items) == 1:
        found = [await only_document(services, items[0], jobs)]
    else:
        files = files_of(services, items, jobs, options)
        found = [await files.document_of(item) for item in items]
    documents = [one for one in found if isinstance(one, FinishedDocument)]
    failures = [
        {"filename": item.name, "error_message": one}
        for item, one in zip(items, found, strict=True)
        if isinstance(one, str)
    ]
    took = sum((one.job.completed_at or 0) - (one.job.started_at or 0) for one in documents)
    shown: dict[str, Any] = {
        "chunks": LongValue(json_list(_all_chunks(documents, chunking))),
        "documents": [document_response(one, options) for one in documents]
        if chunking["with_document"]
        else [],
        "processing_time": round(max(0.0, took), 3),
        "errors": failures,
    }
    return await json_stream(shown)


async def _all_chunks(
    documents: list[FinishedDocument], chunking: Mapping[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    for document in documents:
        async with aclosing(_chunks(document, chunking)) as chunks:
            async for chunk in chunks:
                yield chunk


async def _chunks(
    document: FinishedDocument, chunking: Mapping[str, Any]
) -> AsyncGenerator[dict[str, Any], None]:
    chunker = Chunker(ChunkOptions(max_tokens=chunking["max_tokens"]))
    items = DoclingItems()
    refs: dict[str, str] = {}

    def cut(run: list[ElementPage]) -> list[TextChunk]:
        found: list[TextChunk] = []
        for one in run:
            refs.update(items.add(one.page, one.note).refs)
            found += chunker.add(one.page)
        return found

    async with aclosing(document.elements.joined_runs()) as runs:
        async for run in runs:
            for chunk in await asyncio.to_thread(cut, run):
                yield _shown(document, chunk, refs, raw_text=chunking["raw_text"])
    for chunk in chunker.end():
        yield _shown(document, chunk, refs, raw_text=chunking["raw_text"])


def _shown(
    document: FinishedDocument, chunk: TextChunk, refs: Mapping[str, str], *, raw_text: bool
) -> dict[str, Any]:
    """`text` begins with the headings above the chunk that are not in it."""
    found = chunk.as_dict()
    top = {line.lstrip("# ").strip() for line in chunk.text.split("\n\n") if line.startswith("#")}
    above = [heading for heading in chunk.headings if heading not in top]
    return {
        "filename": document.name,
        "chunk_index": chunk.index,
        "text": "\n".join([*above, chunk.text]),
        "raw_text": chunk.text if raw_text else None,
        "num_tokens": found["tokens"],
        "headings": found["headings"],
        "captions": None,
        "doc_items": [refs[one] for one in found["elements"] if one in refs],
        "page_numbers": found["pages"],
        "metadata": {
            "origin": {"filename": document.name, "mimetype": document.job.mime},
            "boxes": found["boxes"],
            "kind": chunk.kind,
            "hash": found["hash"],
            "confidence": chunk.confidence,
            "grounded": chunk.grounded,
        },
    }
