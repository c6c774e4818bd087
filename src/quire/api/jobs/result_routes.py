"""Results over HTTP: Markdown as JSON or bare, page pictures, originals. All but pictures are streamed."""

from __future__ import annotations

import codecs
import math
from collections.abc import AsyncIterator
from contextlib import aclosing
from io import FileIO
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from quire.api.http.auth import Team
from quire.api.http.error_responses import documented
from quire.api.http.responses import (
    NO_SNIFF,
    ClosingStream,
    disposition,
    json_answer,
    of_current_result,
    started,
)
from quire.api.http.services import EngineDep, Services, ServicesDep
from quire.api.jobs.element_views import DocumentPageView, FileDetailsView
from quire.api.jobs.job_views import iso
from quire.api.jobs.output_params import IncludedDep, OutputDep
from quire.api.jobs.page_job_views import page_metadata, result_head
from quire.api.jobs.written_results import WRITTEN_FORMATS, Format, FormatParam, written_answer
from quire.domain.included_details import IncludedDetails
from quire.domain.job import JobId, JobType, MainJob, PageRecord
from quire.domain.output_options import OutputOptions
from quire.errors import MissingError, RequestError
from quire.links import safe_filename
from quire.objects.object_store import PIECE_BYTES, in_thread
from quire.pipeline.document_elements import DocumentElements
from quire.pipeline.document_formats import compact_json, pages_member
from quire.pipeline.engine import Engine, Text
from quire.pipeline.object_keys import FILE_SCHEME, local_document
from quire.pipeline.open_streams import closing, single_piece
from quire.pipeline.result_links import signed_result

router = APIRouter(prefix="/jobs", tags=["results"])


_MEDIA_TYPES = {
    "application/json": Format.JSON,
    "application/*": Format.JSON,
    "*/*": Format.JSON,
    "text/markdown": Format.MARKDOWN,
    "text/*": Format.MARKDOWN,
    "text/plain": Format.TEXT,
}


class ResultBody(BaseModel):
    markdown: str
    metadata: dict[str, Any]
    details: FileDetailsView | None = Field(None, description="Only if `include` asks for some of them.")
    pages: list[DocumentPageView] | None = Field(None, description="The elements; only with `include`.")


class ResultView(BaseModel):
    job_id: str
    type: str
    page_number: int | None = Field(None, description="Only of a page.")
    parent_job_id: str | None = Field(None, description="Only of a page or a merge.")
    status: str
    created_at: str | None
    started_at: str | None
    completed_at: str | None
    result: ResultBody


class LinkView(BaseModel):
    """An address and its expiry."""

    url: str
    signed: bool = Field(
        description="Whether it works without credentials; an unsigned link is of this service and needs a key."
    )
    expires_at: str | None


class LinkedView(BaseModel):
    job_id: str
    type: str
    link: LinkView


RESULT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": ResultView | LinkedView,
        "description": "The Markdown and what is known about it; or, if asked for, the bare text.",
        "content": {
            "text/markdown": {"schema": {"type": "string"}},
            "text/plain": {"schema": {"type": "string"}},
            "text/html": {"schema": {"type": "string"}},
            "application/zip": {"schema": {"type": "string", "format": "binary"}},
            "application/pdf": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}

LinkParam = Annotated[
    bool,
    Query(description="Instead of the content, a link to it: a signed one where the store can make one."),
]


PartialParam = Annotated[
    bool,
    Query(description="While the job runs, what has been read so far, instead of 409."),
]


@router.get(
    "/{job_id}/result",
    summary="The Markdown of a document or of one page",
    responses={**RESULT_RESPONSES, **documented(400, 401, 404, 409, 422, 503)},
)
async def result(
    request: Request,
    job_id: str,
    team: Team,
    services: ServicesDep,
    *,
    format: FormatParam = None,
    link: LinkParam = False,
    partial: PartialParam = False,
    options: OutputDep,
    included: IncludedDep,
) -> Response:
    """Of a main or merge job once it is completed, of a page job as soon as that page is done.

    With `partial=1` a main job that is still running answers with what it has read so far: pages that wait for AI
    have their local text, and `metadata.pages_pending` names them. 409 only while nothing has been read.

    With `link=1` the answer is `{job_id, type, link: {url, signed, expires_at}}`. With `include` the JSON has the
    elements in `result.pages`, and `result.details`.
    """
    if link:
        return await result_link(request, services, team, job_id)
    engine = services.runtime.engine
    if partial and (found := await _partial_answer(request, engine, team, job_id, format)):
        return found
    return await result_answer(
        request, engine, team, job_id, chosen=format, options=options, included=included
    )


async def result_link(request: Request, services: Services, team: str, job_id: str) -> Response:
    """Raises NotReadyError, StateConflictError (it failed or was cancelled) or MissingError."""
    engine, settings = services.runtime.engine, services.runtime.settings
    job = await engine.job(team, job_id)
    asked = JobId.parse(job_id) or JobId(job.id, JobType.MAIN)
    signed = None
    if asked.type is JobType.PAGE and asked.page is not None:
        await engine.page_result(job, asked.page)
    else:
        text = await engine.result(job)
        signed = await signed_result(services.runtime.parts, job, text, settings.retention.link_ttl_s)
    own = f"{request.base_url}jobs/{asked}/result?format=md"
    return _linked(services, asked, job, signed=signed, own=own, kept_s=settings.retention.results_s)


def _linked(
    services: Services, asked: JobId, job: MainJob, *, signed: str | None, own: str, kept_s: float | None
) -> Response:
    """A signed link, or one of this service, with the time at which it stops working."""
    settings, now = services.runtime.settings, services.runtime.parts.clock.now()
    ttl_s = settings.jobs.ttl_s if kept_s is None else min(kept_s, settings.jobs.ttl_s)
    gone_at = None if job.completed_at is None else job.completed_at + ttl_s
    until = gone_at
    if signed is not None:
        until = min(now + settings.retention.link_ttl_s, gone_at or math.inf)
    shown = LinkView(url=signed or own, signed=signed is not None, expires_at=iso(until))
    return json_answer(LinkedView(job_id=str(asked), type=asked.type.value, link=shown))


def check_included(request: Request, chosen: Format | None, included: IncludedDetails | None) -> None:
    """Raises RequestError for details of a result that is not JSON."""
    if included and (chosen or preferred(request.headers.get("accept", ""))) is not Format.JSON:
        raise RequestError("include: goes with format=json.")


async def result_answer(
    request: Request,
    engine: Engine,
    team: str,
    job_id: str,
    *,
    chosen: Format | None,
    options: OutputOptions,
    included: IncludedDetails | None = None,
) -> Response:
    """Raises NotReadyError, StateConflictError (it failed or was cancelled) or MissingError."""
    check_included(request, chosen, included)
    return await of_current_result(
        lambda: _answer(request, engine, team, job_id, chosen=chosen, options=options, included=included)
    )


async def _answer(
    request: Request,
    engine: Engine,
    team: str,
    job_id: str,
    *,
    chosen: Format | None,
    options: OutputOptions,
    included: IncludedDetails | None,
) -> Response:
    job = await engine.job(team, job_id)
    asked = JobId.parse(job_id) or JobId(job.id, JobType.MAIN)
    title = stem = Path(safe_filename(job.filename or job.id)).stem
    text: Text | bytes
    record: PageRecord | None = None
    if asked.type is JobType.PAGE and asked.page is not None:
        record, text = await engine.page_result(job, asked.page)
        metadata = page_metadata(job, record)
        stem = f"{stem}-p{asked.page}"
    elif asked.type in (JobType.MAIN, JobType.MERGE):
        text = await engine.result(job)
        metadata = {**(job.result or {}).get("metadata", {}), "usage": _usage(job)}
    else:
        raise _no_own_result(asked)
    if chosen in WRITTEN_FORMATS or not options.is_default or included:
        elements = engine.elements_of(record) if record else await engine.elements(job)
    if chosen in WRITTEN_FORMATS:
        return await written_answer(
            *(chosen, engine, job, elements),
            title=title,
            stem=stem,
            options=options,
            metadata=metadata,
            only=asked.page if record else None,
        )
    if not options.is_default:
        place = f"/jobs/{job.id}/figures/{{id}}.png"
        body = await started(engine.markdown(job, options, place).pieces(elements))
    else:
        body = await started(single_piece(text) if isinstance(text, bytes) else engine.text(text))
    head = result_head(job, asked, record)
    if included:
        details = await engine.details(job, included.of_file, elements) if included.of_file else None
        more = _with_elements(elements, included, details)
        answer = as_json(head, body, metadata, more)
        return ClosingStream(answer, media_type="application/json", headers=NO_SNIFF)
    return _formatted(request, head, body, metadata=metadata, stem=stem, chosen=chosen)


async def _with_elements(
    elements: DocumentElements, included: IncludedDetails, details: dict[str, Any] | None
) -> AsyncIterator[bytes]:
    """The members of a JSON result that `include` adds."""
    if details is not None:
        yield f',"details":{compact_json(details)}'.encode("utf-8", "replace")
    async with aclosing(pages_member(elements, included)) as pieces:
        async for piece in pieces:
            yield piece


def _no_own_result(asked: JobId) -> MissingError:
    return MissingError(f"A {asked.type.value} job has no result of its own; job {asked.main} has.")


async def _partial_answer(
    request: Request, engine: Engine, team: str, job_id: str, chosen: Format | None
) -> Response | None:
    """None if the job is over, or its id is not that of a document: the usual answer is right then."""
    job = await engine.job(team, job_id)
    if job.status.terminal or job.id != job_id:
        return None
    if chosen in WRITTEN_FORMATS:
        raise RequestError("format: with partial=1 there are `json`, `md` and `text`.")
    found = await engine.partial_result(job)
    try:
        body = await started(engine.partial_text(found))
    except MissingError:  # the merge has just replaced the pages by the final result
        return None
    stem = Path(safe_filename(job.filename or job.id)).stem
    head = result_head(job, JobId(job.id, JobType.MAIN), None)
    return _formatted(request, head, body, metadata=found.metadata(), stem=stem, chosen=chosen)


def _formatted(
    request: Request,
    head: dict[str, Any],
    body: AsyncIterator[bytes],
    *,
    metadata: dict[str, Any],
    stem: str,
    chosen: Format | None,
) -> Response:
    form = chosen or preferred(request.headers.get("accept", ""))
    if form is Format.JSON:
        return ClosingStream(as_json(head, body, metadata), media_type="application/json", headers=NO_SNIFF)
    kind, ending = ("text/markdown", "md") if form is Format.MARKDOWN else ("text/plain", "txt")
    headers = {"Content-Disposition": disposition("inline", safe_filename(f"{stem}.{ending}")), **NO_SNIFF}
    return ClosingStream(body, media_type=f"{kind}; charset=utf-8", headers=headers)


def preferred(accept: str) -> Format:
    """The best of what the header asks for; JSON if it asks for nothing that there is."""
    best, best_weight = Format.JSON, 0.0
    for part in accept.split(","):
        kind, *options = (piece.strip() for piece in part.split(";"))
        form = _MEDIA_TYPES.get(kind.lower())
        weight = _weight(options)
        if form is not None and weight > best_weight:
            best, best_weight = form, weight
    return best


def _weight(options: list[str]) -> float:
    for option in options:
        name, _, value = option.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


async def as_json(
    head: dict[str, Any],
    body: AsyncIterator[bytes],
    metadata: dict[str, Any],
    more: AsyncIterator[bytes] | None = None,
) -> AsyncIterator[bytes]:
    """`{…head, "result": {"markdown": body, "metadata": …}}`, escaped piece by piece; `more` are further members."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    async with closing(body):
        yield f'{compact_json(head)[:-1]},"result":{{"markdown":"'.encode()
        async for piece in body:
            text = decoder.decode(piece)
            if text:
                yield compact_json(text)[1:-1].encode()
        rest = decoder.decode(b"", final=True)
        yield f'{compact_json(rest)[1:-1]}","metadata":{compact_json(metadata)}'.encode()
    if more is not None:
        async with closing(more):
            async for piece in more:
                yield piece
    yield b"}}"


@router.get(
    "/{job_id}/pages/{number}/image",
    summary="A page as a picture",
    responses={
        200: {"content": {"image/jpeg": {}, "image/png": {}}},
        **documented(400, 401, 404, 409, 422, 503),
    },
    response_class=Response,
)
async def image(job_id: str, number: int, team: Team, engine: EngineDep) -> Response:
    """Drawn when asked for, also while the document is being read."""
    main = await engine.job(team, job_id)
    job = await engine.job(team, f"{main.id}-p{number}")
    picture, media_type = await engine.image(job, number)
    headers = {"Cache-Control": "private, max-age=3600", **NO_SNIFF}
    return Response(picture, media_type=media_type, headers=headers)


@router.get(
    "/{job_id}/original",
    summary="The document as it came in",
    responses={
        200: {"content": {"application/octet-stream": {}, "application/json": {}}},
        **documented(400, 401, 404, 409, 503),
    },
    response_class=Response,
)
async def original(
    request: Request, job_id: str, team: Team, services: ServicesDep, *, link: LinkParam = False
) -> Response:
    """Always sent as a download, never shown inline: its content is untrusted."""
    engine, objects = services.runtime.engine, services.runtime.parts.objects
    job = await engine.job(team, job_id)
    ref = await engine.original(job)
    if link:
        retention = services.runtime.settings.retention
        signed = None if ref.startswith(FILE_SCHEME) else await objects.link(ref, retention.link_ttl_s)
        own = f"{request.base_url}jobs/{job.id}/original"
        asked = JobId(job.id, JobType.MAIN)
        return _linked(services, asked, job, signed=signed, own=own, kept_s=retention.originals_s)
    headers = {
        "Content-Disposition": disposition("attachment", safe_filename(job.filename or "document")),
        **NO_SNIFF,
    }
    if ref.startswith(FILE_SCHEME):
        async with local_document(objects, ref) as path:
            body = await started(_file(path))
    else:
        size = await objects.size(ref)
        if size is None:
            raise MissingError("The document no longer exists.")
        headers["Content-Length"] = str(size)
        body = await started(objects.stream(ref))
    return ClosingStream(body, media_type="application/octet-stream", headers=headers)


async def _file(path: Path) -> AsyncIterator[bytes]:
    try:
        file = await in_thread(FileIO, path)
    except OSError as error:
        raise MissingError("The document no longer exists.") from error
    with file:
        while piece := await in_thread(file.read, PIECE_BYTES):
            yield piece


def _usage(job: MainJob) -> dict[str, Any]:
    return {"tokens_in": job.tokens_in, "tokens_out": job.tokens_out, "cost_usd": job.cost_usd}
