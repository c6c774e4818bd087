"""The text chunks of a document over HTTP, for search and models."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from quire.api.http.auth import Team
from quire.api.http.error_responses import documented
from quire.api.http.responses import NO_SNIFF, ClosingStream, disposition, of_current_result, started
from quire.api.http.services import EngineDep, VaultDep
from quire.api.jobs.element_routes import JSON_LINES
from quire.api.vault.document_file_routes import conversion_of
from quire.api.vault.document_routes import document_of
from quire.domain.job import MainJob
from quire.domain.text_chunk import DEFAULT_MAX_TOKENS, ChunkOptions
from quire.links import safe_filename
from quire.pipeline.chunk_table import PARQUET_TYPE, chunks_parquet
from quire.pipeline.document_formats import chunks_document, chunks_lines
from quire.pipeline.engine import Engine

router = APIRouter()

MaxTokensParam = Annotated[
    int, Query(description="The most tokens of a chunk, by the estimate that `tokenizer` names; 32 to 8192.")
]
OverlapParam = Annotated[
    int, Query(description="Tokens of a chunk that the next one repeats; up to half of `max_tokens`.")
]


class ChunkForm(StrEnum):
    JSON = "json"
    LINES = "jsonl"
    PARQUET = "parquet"


ChunkFormParam = Annotated[
    ChunkForm,
    Query(
        description="`json` is one object; `jsonl` has one chunk a line, for large documents; `parquet` is a table "
        "with one row a chunk, where the service has the library for it (`quire[bulk]`)."
    ),
]


class ChunkBoxView(BaseModel):
    page: int
    element: str
    box: list[float]


class ChunkView(BaseModel):
    """A piece of the document."""

    index: int
    kind: str = Field(description="`text`, `heading`, `table`, `code`, `formula` or `figure`.")
    text: str = Field(description="Markdown.")
    headings: list[str] = Field(description="The headings of its section, the outermost first.")
    tokens: int = Field(description="An estimate, by `tokenizer`.")
    hash: str = Field(description="Equal for equal texts.")
    pages: list[int]
    elements: list[str]
    boxes: list[ChunkBoxView]
    overlap_chars: int
    confidence: float | None = Field(description="Of the least sure element; null where it is not known.")
    grounded: bool | None = Field(description="False if the page's own words do not support some of it.")


class ChunksView(BaseModel):
    job_id: str
    document_id: str | None = Field(None, description="Only of a document in the vault.")
    filename: str | None
    schema_version: int
    tokenizer: str
    max_tokens: int
    overlap: int
    chunks: list[ChunkView]
    pages_without_text: list[int] = Field(description="Pages that no chunk can be of: failed or empty ones.")


_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"model": ChunksView, "content": {JSON_LINES: {"schema": {"type": "string"}}, PARQUET_TYPE: {}}},
    **documented(400, 401, 404, 409, 503),
}


@router.get("/jobs/{job_id}/chunks", summary="A document in chunks", tags=["results"], responses=_RESPONSES)
async def job_chunks(
    job_id: str,
    team: Team,
    engine: EngineDep,
    *,
    max_tokens: MaxTokensParam = DEFAULT_MAX_TOKENS,
    overlap: OverlapParam = 0,
    format: ChunkFormParam = ChunkForm.JSON,
) -> Response:
    """By structure: a chunk never goes over the beginning of a section, and never cuts a row of a table.

    A long table is cut between rows and repeats its head. Each chunk has the headings above it, its pages, and the
    boxes of its elements.
    """
    options = ChunkOptions(max_tokens, overlap)

    async def answer() -> Response:
        return await _answer(engine, await engine.job(team, job_id), options, format)

    return await of_current_result(answer)


@router.get(
    "/documents/{document_id}/chunks",
    summary="A document of the vault in chunks",
    tags=["vault"],
    responses=_RESPONSES,
)
async def document_chunks(
    document_id: str,
    team: Team,
    vault: VaultDep,
    engine: EngineDep,
    *,
    max_tokens: MaxTokensParam = DEFAULT_MAX_TOKENS,
    overlap: OverlapParam = 0,
    format: ChunkFormParam = ChunkForm.JSON,
) -> Response:
    """As `/jobs/{id}/chunks`."""
    options = ChunkOptions(max_tokens, overlap)

    async def answer() -> Response:
        row = await document_of(vault, team, document_id)
        return await _answer(engine, await conversion_of(vault, row), options, format, document_id=row.id)

    return await of_current_result(answer)


async def _answer(
    engine: Engine, job: MainJob, options: ChunkOptions, form: ChunkForm, **known: str
) -> Response:
    found = await engine.elements(job)
    if form is ChunkForm.LINES:
        body = await started(chunks_lines(found, options))
        return ClosingStream(body, media_type=JSON_LINES, headers=NO_SNIFF)
    head = {"job_id": job.id, **known, "filename": job.filename or None}
    if form is ChunkForm.PARQUET:
        body = await started(chunks_parquet(head, found, options))
        name = safe_filename(f"{Path(job.filename or job.id).stem}.chunks.parquet")
        headers = {"Content-Disposition": disposition("attachment", name), **NO_SNIFF}
        return ClosingStream(body, media_type=PARQUET_TYPE, headers=headers)
    body = await started(chunks_document(head, found, options))
    return ClosingStream(body, media_type="application/json", headers=NO_SNIFF)
