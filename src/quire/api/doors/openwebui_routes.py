"""The interface that Open WebUI expects of an external document loader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from quire.api.doors.door_answers import (
    DOOR_RESPONSES,
    DoorError,
    DoorRoute,
    LongValue,
    json_list,
    json_stream,
)
from quire.api.doors.door_intake import DoorIntake
from quire.api.http.auth import Team
from quire.api.http.services import ServicesDep
from quire.domain.job import JobOptions, PageRecord
from quire.pipeline.finished_document import FinishedDocument


class _LoaderRoute(DoorRoute):
    @staticmethod
    def shaped(error: DoorError) -> Response:
        """Open WebUI shows the body of an error to its user, so it is a sentence."""
        return PlainTextResponse(error.text, error.status)


router = APIRouter(tags=["doors: open webui"], route_class=_LoaderRoute, responses=DOOR_RESPONSES)


@router.put(
    "/process",
    summary="Open WebUI: the pages of a document",
    response_class=Response,
)
async def load_document(request: Request, team: Team, services: ServicesDep) -> Response:
    """The body is the document, `X-Filename` its name, percent-encoded. The answer is a list, one entry a page."""
    intake = DoorIntake(request, services, team)
    file = await intake.body(unquote(request.headers.get("x-filename", "")))
    job = await intake.converted(file, JobOptions())
    document = await FinishedDocument.of(services.runtime.engine, job, file.filename)
    return await json_stream(LongValue(json_list(_pages(document))))


async def _pages(document: FinishedDocument) -> AsyncIterator[dict[str, Any]]:
    async for record, text in document.pages():
        yield {"page_content": text, "metadata": _metadata(document, record)}


def _metadata(document: FinishedDocument, record: PageRecord) -> dict[str, Any]:
    """Open WebUI keeps only plain values."""
    found: dict[str, Any] = {
        "source": document.name,
        "page": record.number,
        "total_pages": document.job.total_pages,
        "job_id": document.job.id,
        "status": record.status.value,
    }
    for name in ("title", "author"):
        if document.job.info.get(name):
            found[name] = document.job.info[name]
    if record.source is not None:
        found["read_by"] = record.source.value
    if record.confidence is not None:
        found["confidence"] = record.confidence
    if record.grade is not None:
        found["grade"] = record.grade.value
    return found
