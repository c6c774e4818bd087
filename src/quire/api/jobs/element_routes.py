"""The elements of a whole document over HTTP, streamed page by page."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query, Response

from quire.api.http.auth import Team
from quire.api.http.error_responses import documented
from quire.api.http.responses import NO_SNIFF, ClosingStream, of_current_result, started
from quire.api.http.services import EngineDep
from quire.api.jobs.element_views import DocumentElementsView, PageElementsView
from quire.api.jobs.output_params import IncludedDep
from quire.domain.included_details import IncludedDetails
from quire.domain.page_ranges import PageRanges
from quire.errors import MissingError, RequestError
from quire.pipeline.document_formats import compact_json, elements_document, elements_lines
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


@router.get(
    "/{job_id}/pages/{number}/elements",
    summary="A page as elements with their boxes",
    responses={200: {"model": PageElementsView}, **documented(400, 401, 404, 409, 422, 503)},
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
    answer = compact_json({"job_id": f"{job.id}-p{number}", "turned": 0, **shown})
    return Response(answer.encode("utf-8", "replace"), media_type="application/json", headers=NO_SNIFF)


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
