"""The elements of a whole document over HTTP, streamed page by page."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from quire.api.http.auth import Team
from quire.api.http.error_responses import documented
from quire.api.http.responses import NO_SNIFF, ClosingStream, json_answer, of_current_result, started
from quire.api.http.services import EngineDep
from quire.api.jobs.output_params import IncludedDep
from quire.domain.included_details import IncludedDetails
from quire.domain.page_ranges import PageRanges
from quire.errors import MissingError, RequestError
from quire.pipeline.document_formats import elements_document, elements_lines
from quire.pipeline.engine import Engine
from quire.pipeline.figure_pictures import FIGURE_TYPE
from quire.rendering.element_json import page_json

router = APIRouter(prefix="/jobs", tags=["results"])

JSON_LINES = "application/x-ndjson"
_NUMBER = re.compile(r"p([1-9]\d{0,6})-")


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


class FileDetailsView(BaseModel):
    """What the file has beside its visible text; each list only if `include` has its name."""

    links: list[dict[str, Any]] | None = Field(
        None, description="`page`, `box`, and `address` or `to_page` of each link."
    )
    outline: list[dict[str, Any]] | None = Field(
        None, description="`level`, `title` and `page` of each entry."
    )
    form_fields: list[dict[str, Any]] | None = Field(None, description="`page`, `box`, `name`, `value`.")
    embedded_files: list[dict[str, Any]] | None = Field(
        None, description="`name` and `size`; `page` of a PDF's note, `job_id` of a file that was converted."
    )
    hidden_text: list[dict[str, Any]] | None = Field(
        None,
        description="Text that can't be seen: `page`, `box`, `text` and `reason` (`invisible`, `transparent`, "
        "`outside`, `tiny`, `covered`, `white`). The text layer of a scan is `invisible` or `covered`.",
    )
    truncated: list[str] | None = Field(
        None,
        description="The lists that are not complete: cut after 10,000 entries, or at a damaged part of the file.",
    )


class DocumentElementsView(BaseModel):
    """A document as elements in reading order, page by page."""

    job_id: str
    filename: str | None
    schema_version: int
    details: FileDetailsView | None = Field(None, description="Only if `include` asks for some of them.")
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
    lines: Annotated[bool, Query(description="The same as `include=lines`.")] = False,
    format: JsonFormParam = JsonForm.JSON,
    included: IncludedDep,
) -> Response:
    """Of a document that is completed; a page alone is at `/jobs/{id}/pages/{n}/elements` as soon as it is done.

    A page that could not be read is in the list, without elements and with a `note` that says why.
    """
    wanted = PageRanges.parse(pages)
    included = replace(included, lines=lines or included.lines)
    return await of_current_result(
        lambda: _answer(engine, team, job_id, wanted, included=included, form=format)
    )


class ElementsView(BaseModel):
    """A page as elements in reading order, each with its kind, its text and its place on the upright page."""

    job_id: str
    schema_version: int
    page_number: int
    width: float | None = Field(
        description="Of the upright page in points; null where the source has no pages."
    )
    height: float | None
    reader: str | None
    turned: int = Field(0, description="By how many degrees a scan was turned to the left to be read.")
    elements: list[dict[str, Any]]


@router.get(
    "/{job_id}/pages/{number}/elements",
    summary="A page as elements with their boxes",
    responses={200: {"model": ElementsView}, **documented(400, 401, 404, 409, 422, 503)},
)
async def elements(
    job_id: str,
    number: int,
    team: Team,
    engine: EngineDep,
    *,
    lines: Annotated[bool, Query(description="The same as `include=lines`.")] = False,
    included: IncludedDep,
) -> Response:
    """As soon as the page is done. Markdown is one rendering of these elements."""
    main = await engine.job(team, job_id)
    job = await engine.job(team, f"{main.id}-p{number}")
    found = await engine.page_elements(job, number)
    if included.of_file:
        raise RequestError(
            "include: a page has `lines` and `words`; the others are of GET /jobs/{id}/elements."
        )
    shown = page_json(found, replace(included, lines=lines or included.lines))
    return json_answer(ElementsView(job_id=f"{job.id}-p{number}", **shown))


@router.get(
    "/{job_id}/figures/{name}",
    summary="A figure, or any other element, cut from its page",
    responses={200: {"content": {FIGURE_TYPE: {}}}, **documented(400, 401, 404, 409, 422, 503)},
    response_class=Response,
)
async def figure(job_id: str, name: str, team: Team, engine: EngineDep) -> Response:
    """By the id of the element, such as `p3-e4` or `p3-e4.png`. Its resolution is FIGURE_DPI."""
    wanted = name.removesuffix(".png")
    found = _NUMBER.match(wanted)
    if not found:
        raise MissingError("There is no such element. Ids look like p3-e4.")
    number = int(found[1])
    main = await engine.job(team, job_id)
    job = await engine.job(team, f"{main.id}-p{number}")
    page = await engine.page_elements(job, number)
    element = next((one for one in page.elements if one.id == wanted), None)
    if element is None or element.box is None:
        raise MissingError(f"Page {number} has no element {wanted[:60]!r} with a box.")
    (picture,) = await engine.figures(job).cut(page, [element])
    headers = {"Cache-Control": "private, max-age=3600", **NO_SNIFF}
    return Response(picture, media_type=FIGURE_TYPE, headers=headers)


async def _answer(
    engine: Engine, team: str, job_id: str, wanted: PageRanges, *, included: IncludedDetails, form: JsonForm
) -> Response:
    job = await engine.job(team, job_id)
    found = await engine.elements(job, wanted)
    details = await engine.details(job, included.of_file, found) if included.of_file else None
    if form is JsonForm.LINES:
        body = await started(elements_lines(found, included, details))
        return ClosingStream(body, media_type=JSON_LINES, headers=NO_SNIFF)
    head = {"job_id": job.id, "filename": job.filename or None}
    body = await started(elements_document(head, found, included, details))
    return ClosingStream(body, media_type="application/json", headers=NO_SNIFF)
