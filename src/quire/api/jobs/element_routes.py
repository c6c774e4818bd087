"""The elements of a whole document over HTTP, streamed page by page."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from quire.api.http.auth import Team
from quire.api.http.error_responses import documented
from quire.api.http.responses import NO_SNIFF, ClosingStream, of_current_result, started
from quire.api.http.services import EngineDep
from quire.domain.page_ranges import PageRanges
from quire.pipeline.document_formats import elements_document, elements_lines
from quire.pipeline.engine import Engine

router = APIRouter(prefix="/jobs", tags=["results"])

JSON_LINES = "application/x-ndjson"


class JsonForm(StrEnum):
    JSON = "json"
    LINES = "jsonl"


JsonFormParam = Annotated[
    JsonForm, Query(description="`json` is one object; `jsonl` has one object a line, for large documents.")
]
PagesParam = Annotated[
    str | None, Query(max_length=10_000, description="Which pages; all if not given.", examples=["1-5,8"])
]


class DocumentPageView(BaseModel):
    page_number: int
    width: float | None = Field(description="Of the upright page in points; null where there are no pages.")
    height: float | None
    reader: str | None
    elements: list[dict[str, Any]]
    note: str | None = Field(
        None, description="Only of a page without elements: what the Markdown has in its place."
    )


class DocumentElementsView(BaseModel):
    """A document as elements in reading order, page by page."""

    job_id: str
    filename: str | None
    schema_version: int
    pages: list[DocumentPageView]


@router.get(
    "/{job_id}/elements",
    summary="A document as elements with their boxes",
    responses={
        200: {"model": DocumentElementsView, "content": {JSON_LINES: {"schema": {"type": "string"}}}},
        **documented(400, 401, 404, 409, 503),
    },
)
async def document_elements(
    job_id: str,
    team: Team,
    engine: EngineDep,
    *,
    pages: PagesParam = None,
    lines: Annotated[bool, Query(description="Adds the box of every line.")] = False,
    format: JsonFormParam = JsonForm.JSON,
) -> Response:
    """Of a document that is completed; a page alone is at `/jobs/{id}/pages/{n}/elements` as soon as it is done.

    A page that could not be read is in the list, without elements and with a `note` that says why.
    """
    wanted = PageRanges.parse(pages)
    return await of_current_result(lambda: _answer(engine, team, job_id, wanted, lines=lines, form=format))


async def _answer(
    engine: Engine, team: str, job_id: str, wanted: PageRanges, *, lines: bool, form: JsonForm
) -> Response:
    job = await engine.job(team, job_id)
    found = await engine.elements(job, wanted)
    if form is JsonForm.LINES:
        body = await started(elements_lines(found, lines=lines))
        return ClosingStream(body, media_type=JSON_LINES, headers=NO_SNIFF)
    head = {"job_id": job.id, "filename": job.filename or None}
    body = await started(elements_document(head, found, lines=lines))
    return ClosingStream(body, media_type="application/json", headers=NO_SNIFF)
