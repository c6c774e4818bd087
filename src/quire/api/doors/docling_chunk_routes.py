"""The chunk routes of docling-serve: a document is converted and cut into chunks in one request."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request, Response

from quire.api.doors.docling_chunks import chunks_answer
from quire.api.doors.docling_requests import DoclingRequest, DoclingTask
from quire.api.doors.docling_routes import DoclingRoute, start_task
from quire.api.doors.door_answers import DOOR_RESPONSES
from quire.api.http.auth import Team
from quire.api.http.services import Services, ServicesDep

router = APIRouter(
    prefix="/v1/chunk", tags=["doors: docling"], route_class=DoclingRoute, responses=DOOR_RESPONSES
)

Kind = Annotated[
    Literal["hybrid", "hierarchical"],
    Path(description="`hybrid` keeps to `chunking_max_tokens`; `hierarchical` gives whole sections."),
]


@router.post("/{kind}/file", summary="docling-serve: files in chunks", response_class=Response)
async def docling_chunk_file(kind: Kind, request: Request, team: Team, services: ServicesDep) -> Response:
    """A form with `files`, options prefixed by `convert_` and `chunking_`, and `include_converted_doc`."""
    asked = DoclingRequest(request, services, team, kind)
    return await _answer(services, asked, await asked.files())


@router.post("/{kind}/source", summary="docling-serve: sources in chunks", response_class=Response)
async def docling_chunk_source(kind: Kind, request: Request, team: Team, services: ServicesDep) -> Response:
    """JSON with `sources`, `convert_options`, `chunking_options` and `include_converted_doc`."""
    asked = DoclingRequest(request, services, team, kind)
    return await _answer(services, asked, await asked.sources())


@router.post("/{kind}/file/async", summary="docling-serve: files in chunks as a task")
async def docling_chunk_file_async(
    kind: Kind, request: Request, team: Team, services: ServicesDep
) -> Response:
    task = await DoclingRequest(request, services, team, kind).files()
    return await _started(services, team, task)


@router.post("/{kind}/source/async", summary="docling-serve: sources in chunks as a task")
async def docling_chunk_source_async(
    kind: Kind, request: Request, team: Team, services: ServicesDep
) -> Response:
    task = await DoclingRequest(request, services, team, kind).sources()
    return await _started(services, team, task)


async def _answer(services: Services, asked: DoclingRequest, task: DoclingTask) -> Response:
    jobs = {job.id: job for job in await asked.intake.ended(task.accepted)}
    return await chunks_answer(services, task.items, jobs, task.options, task.chunking)


async def _started(services: Services, team: str, task: DoclingTask) -> Response:
    return await start_task(services, team, task, task_type="chunk", chunking=task.chunking)
