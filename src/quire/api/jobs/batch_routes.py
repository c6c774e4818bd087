"""Document batches over HTTP: many documents under one id, with one progress, one callback and one export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, Field

from quire.api.http.auth import Team
from quire.api.http.error_responses import documented
from quire.api.http.responses import NO_SNIFF, ClosingStream, disposition, json_answer, started
from quire.api.http.services import Services, ServicesDep
from quire.api.jobs.batch_requests import BatchRequest
from quire.api.jobs.job_views import iso
from quire.api.jobs.submission_fields import read_key
from quire.coordination.batch_callbacks import BatchCallbacks
from quire.domain.document_batch import DocumentBatch
from quire.domain.job import JobSecrets, JobStatus, job_id_for_key, new_job_id
from quire.errors import MissingError, NotReadyError
from quire.links import unique_name
from quire.pipeline.document_batches import BatchProgress, DocumentBatches, ItemState
from quire.pipeline.document_formats import compact_json
from quire.pipeline.finished_document import FinishedDocument
from quire.pipeline.open_streams import single_piece
from quire.pipeline.upkeep.batch_notifier import save_announced
from quire.pipeline.zip_stream import ZipEntry, ZipStream

router = APIRouter(prefix="/batches", tags=["jobs"])
_BATCH = "batch:"
_ENDED = frozenset({"completed", "failed", "cancelled", "expired"})


class BatchItemView(BaseModel):
    name: str
    status: str = Field(
        description="Of its job; `failed` for a refused document, `expired` for a job that is gone."
    )
    job_id: str | None
    error: dict[str, Any] | None


class DocumentBatchView(BaseModel):
    batch_id: str
    status: str = Field(
        description="`queued`, `processing`; once all have ended `completed` if a document has a result, else "
        "`expired` or `failed`."
    )
    progress: int = Field(description="Per cent of the documents that have ended.")
    total: int
    queued: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    expired: int
    created_at: str | None
    items: list[BatchItemView]
    links: dict[str, str]


class ExportFormat(StrEnum):
    ZIP = "zip"
    LINES = "jsonl"


_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "file": {"type": "array", "items": {"type": "string", "format": "binary"}}
                    },
                }
            },
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["sources"],
                    "properties": {"sources": {"type": "array", "items": {"type": "string"}}},
                },
                "example": {"sources": ["https://example.org/report.pdf", "s3://bucket/inbox/"]},
            },
        },
    }
}


@router.post(
    "",
    summary="Turn many documents into Markdown",
    status_code=202,
    response_model=DocumentBatchView,
    responses=documented(400, 401, 408, 413, 415, 502, 503),
    openapi_extra=_BODY,
)
async def create_batch(
    request: Request,
    team: Team,
    services: ServicesDep,
    *,
    idempotency_key: Annotated[
        str | None,
        Header(description="The same key gives the same batch, however often the request is sent."),
    ] = None,
) -> Response:
    """As files (`multipart/form-data`; a ZIP archive is taken apart) or as `sources` (JSON: links, and prefixes of
    allowed buckets that end with a slash), with the options of `POST /convert`. `callback_url` is called once, when all
    have ended. A document that is refused has its error in `items`; the others are not affected.
    """
    key = read_key(idempotency_key)
    batches = DocumentBatches(services.runtime.parts)
    batch_id = new_job_id() if key is None else job_id_for_key(team, _BATCH + key)
    if key is not None:
        try:
            return await _answer(batches, await batches.find(team, batch_id), 202)
        except MissingError:
            pass
    items, callback_url = await BatchRequest(request, services, team).accept()
    parts = services.runtime.parts
    sealed = parts.sealer.seal(batch_id, JobSecrets(callback_url=callback_url)) if callback_url else None
    batch = DocumentBatch(team, parts.clock.now(), tuple(items), batch_id, sealed)
    if callback_url:
        await save_announced(batches, BatchCallbacks(services.runtime.connection, parts.clock), batch)
    else:
        await batches.save(batch)
    return await _answer(batches, batch, 202)


@router.get(
    "/{batch_id}",
    summary="The state of a batch",
    response_model=DocumentBatchView,
    responses=documented(401, 404, 503),
)
async def get_batch(batch_id: str, team: Team, services: ServicesDep) -> Response:
    """With the state of each of its documents."""
    batches = DocumentBatches(services.runtime.parts)
    return await _answer(batches, await batches.find(team, batch_id))


@router.post(
    "/{batch_id}/cancel",
    summary="Cancel what has not ended",
    response_model=DocumentBatchView,
    responses=documented(401, 404, 503),
)
async def cancel_batch(batch_id: str, team: Team, services: ServicesDep) -> Response:
    """Documents that have ended stay as they are. A job that other requests share is cancelled for them too."""
    batches = DocumentBatches(services.runtime.parts)
    batch = await batches.find(team, batch_id)
    engine = services.runtime.engine
    for one in (await batches.progress(batch)).items:
        if one.item.job_id and one.status not in _ENDED:
            await engine.cancel(await engine.job(team, one.item.job_id))
    return await _answer(batches, batch)


@router.get(
    "/{batch_id}/export",
    summary="All results of a batch",
    responses={
        200: {"content": {"application/zip": {}, "application/x-ndjson": {}}},
        **documented(400, 401, 404, 409, 503),
    },
    response_class=Response,
)
async def export_batch(
    batch_id: str,
    team: Team,
    services: ServicesDep,
    *,
    format: Annotated[
        ExportFormat,
        Query(
            description="`zip`: a Markdown file for each document; `jsonl`: a document a line, with metadata."
        ),
    ] = ExportFormat.ZIP,
) -> Response:
    """When all documents have ended (409 before). Those that failed are named: in `failures.json`, or with `error`."""
    batches = DocumentBatches(services.runtime.parts)
    progress = await batches.progress(await batches.find(team, batch_id))
    if not progress.is_over:
        left = len(progress.items) - progress.ended
        raise NotReadyError(f"{left} documents of the batch have not ended.", retry_after_s=2.0)
    if format is ExportFormat.LINES:
        body = await started(_lines(services, team, progress))
        return ClosingStream(body, media_type="application/x-ndjson", headers=NO_SNIFF)
    now = services.runtime.parts.clock.now()
    body = await started(ZipStream(now).stream(_members(services, team, progress)))
    headers = {"Content-Disposition": disposition("attachment", f"batch-{batch_id}.zip"), **NO_SNIFF}
    return ClosingStream(body, media_type="application/zip", headers=headers)


async def _answer(batches: DocumentBatches, batch: DocumentBatch, status: int = 200) -> Response:
    progress = await batches.progress(batch)
    counts = {name: progress.count(name) for name in ("queued", "processing", *sorted(_ENDED))}
    address = f"/batches/{batch.id}"
    view = DocumentBatchView(
        batch_id=batch.id,
        status=progress.status,
        progress=100 * progress.ended // len(progress.items),
        total=len(progress.items),
        **counts,
        created_at=iso(batch.created_at),
        items=[
            BatchItemView(name=one.item.name, status=one.status, job_id=one.item.job_id, error=one.error)
            for one in progress.items
        ],
        links={"self": address, "export": f"{address}/export", "cancel": f"{address}/cancel"},
    )
    return json_answer(view, status, {"Location": address} if status == 202 else None)


async def _document(
    services: Services, team: str, one: ItemState
) -> tuple[ItemState, FinishedDocument | None]:
    """The document and its state; `expired` if its result was deleted after the state was read."""
    if one.status != JobStatus.COMPLETED.value or one.item.job_id is None:
        return one, None
    try:
        job = await services.runtime.engine.job(team, one.item.job_id)
        return one, await FinishedDocument.of(services.runtime.engine, job, one.item.name)
    except MissingError as error:
        return ItemState(one.item, "expired", error.as_dict()), None


def _failure(one: ItemState) -> dict[str, Any]:
    return {"name": one.item.name, "job_id": one.item.job_id, "status": one.status, "error": one.error}


async def _members(services: Services, team: str, progress: BatchProgress) -> AsyncIterator[ZipEntry]:
    names: set[str] = {"failures.json"}
    failures: list[dict[str, Any]] = []
    for one in progress.items:
        state, document = await _document(services, team, one)
        if document is None:
            failures.append(_failure(state))
        else:
            yield ZipEntry(unique_name(f"{document.stem}.md", names), _markdown(document))
    if failures:
        yield ZipEntry("failures.json", single_piece(compact_json(failures).encode("utf-8", "replace")))


async def _markdown(document: FinishedDocument) -> AsyncIterator[bytes]:
    async for piece in document.markdown("\n\n---\n\n"):
        yield piece.encode("utf-8", "replace")


async def _lines(services: Services, team: str, progress: BatchProgress) -> AsyncIterator[bytes]:
    for one in progress.items:
        state, document = await _document(services, team, one)
        if document is None:
            yield (compact_json(_failure(state)) + "\n").encode("utf-8", "replace")
            continue
        head = {"name": one.item.name, "job_id": one.item.job_id, "status": one.status}
        metadata = (document.job.result or {}).get("metadata", {})
        yield f'{compact_json({**head, "metadata": metadata})[:-1]},"markdown":"'.encode("utf-8", "replace")
        async for piece in document.markdown("\n\n---\n\n"):
            yield compact_json(piece)[1:-1].encode("utf-8", "replace")
        yield b'"}\n'
