"""Extraction over HTTP: values by a JSON Schema, each with its proof on the pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from pydantic import BaseModel, Field

from quire.api.http.auth import Team
from quire.api.http.caller_wait import while_connected
from quire.api.http.error_responses import MediaTypeError, documented, stored_error_response
from quire.api.http.request_bodies import media_type, read_json
from quire.api.http.responses import NO_SNIFF
from quire.api.http.services import Services, ServicesDep
from quire.api.jobs.convert_routes import check_room, source_submission
from quire.api.jobs.submission_fields import read_fields, read_key, submission
from quire.api.jobs.upload_receiver import receive_upload
from quire.api.vault.document_file_routes import conversion_of
from quire.api.vault.document_routes import document_of
from quire.domain.job import JobStatus, MainJob
from quire.domain.page_ranges import PageRanges
from quire.errors import (
    CancelledError,
    NotReadyError,
    OverloadedError,
    QuireError,
    RequestError,
)
from quire.pipeline.engine import Engine
from quire.pipeline.extraction.extraction_question import ExtractionRequest
from quire.pipeline.extraction.extraction_run import Extraction, NoModelError
from quire.pipeline.extraction.saved_schemas import SavedSchemas
from quire.pipeline.intake.upload_intake import Submission

router = APIRouter(tags=["results"])

_OWN = ("schema", "saved_schema", "instructions", "ungrounded")
_NO_SCHEMA = "schema: give the JSON Schema of the values, or the name of a saved one in saved_schema."
_EXAMPLE = {
    "job_id": "0123456789abcdef",
    "schema": {"type": "object", "properties": {"total": {"type": "number"}}},
}


class ExtractOptions(BaseModel):
    """What is wanted, and how."""

    values_schema: dict[str, Any] | None = Field(
        None,
        alias="schema",
        description="A JSON Schema whose outermost type is an object. In a form: its JSON text.",
    )
    saved_schema: str | None = Field(
        None, description="Instead of `schema`: the name of one that was saved by `PUT /schemas/{name}`."
    )
    instructions: str | None = Field(None, description="More words for the model.", max_length=8_000)
    ungrounded: str = Field("null", description="What becomes of values that no page says: `null` or `keep`.")
    pages: str | None = Field(None, description="Which pages; all if not given.", examples=["1-5,8"])


class ExtractRequest(ExtractOptions):
    """A document that is there, or a link; with a link there may be the options of `POST /convert`."""

    job_id: str | None = Field(None, description="A finished job.")
    document_id: str | None = Field(None, description="A document of the vault.")
    source: str | None = Field(None, description="The address of a document.")


class ExtractUpload(ExtractOptions):
    file: bytes = Field(description="The document.", json_schema_extra={"format": "binary"})


class CitationView(BaseModel):
    page: int
    box: list[float] | None = Field(
        description="Of the lines with the quotation, in points of the upright page."
    )
    quote: str = Field(description="The page's own words.")
    element: str
    confidence: float | None = Field(description="Of the reader of these words; null where it is not known.")
    grounded: bool | None


class FieldView(BaseModel):
    """One value with its proof."""

    path: str = Field(description="A JSON pointer into `values`.")
    value: Any
    match: str = Field(description="`exact`, `normalised`, `fuzzy` or `none`: how the page says it.")
    confidence: float | None = Field(description="0 to 1; null where there is no value.")
    citations: list[CitationView]
    flags: list[str] = Field(
        description="`missing`, `ungrounded`, `quote`, `page`, `invalid`, `conflict`: what is wrong with it."
    )
    rejected: Any = Field(None, description="Only where the value became null: what the model said.")
    alternatives: list[dict[str, Any]] | None = Field(
        None, description="Only with `conflict`: what other parts of the document say."
    )


class ProblemView(BaseModel):
    path: str
    message: str


class ExtractionUsageView(BaseModel):
    calls: int
    cached: int
    tokens_in: int
    tokens_out: int
    cost_usd: float


class ExtractionView(BaseModel):
    job_id: str
    filename: str | None
    schema_version: int
    values: dict[str, Any] = Field(
        description="In the shape of the schema; null is what the document does not say."
    )
    fields: list[FieldView]
    valid: bool = Field(description="Whether the values satisfy the schema, null allowed for every value.")
    problems: list[ProblemView]
    complete: bool = Field(
        description="False if some pages could not be read, or no model answered about them."
    )
    pages: list[int]
    pages_without_text: list[int]
    pages_failed: list[dict[str, Any]]
    items_rejected: list[dict[str, Any]] = Field(description="Items of lists that no page says anything of.")
    doubles_dropped: int
    models: list[str]
    usage: ExtractionUsageView


@dataclass(frozen=True, slots=True)
class _Asked:
    request: ExtractionRequest
    deadline_at: float
    pages: PageRanges | None = None


_SCHEMAS = {
    "multipart/form-data": {"schema": ExtractUpload.model_json_schema()},
    "application/json": {"schema": ExtractRequest.model_json_schema(), "example": _EXAMPLE},
}


@router.post(
    "/extract",
    summary="Values by a JSON Schema, with proof",
    responses={
        200: {"model": ExtractionView},
        **documented(400, 401, 404, 408, 409, 413, 415, 422, 502, 503),
    },
    openapi_extra={"requestBody": {"required": True, "content": _SCHEMAS}},
)
async def extract(
    request: Request,
    team: Team,
    services: ServicesDep,
    *,
    idempotency_key: Annotated[
        str | None, Header(description="For an upload or a link: the same key gives the same job.")
    ] = None,
) -> Response:
    """From a finished job, a document of the vault, a link or an upload (`multipart/form-data`, field `file`).

    The answer is held until it is there, up to EXTRACT_TIMEOUT from when the request was received. A caller that was
    cut off repeats the request: what a model has answered is not asked again. Without an AI provider: 409
    `ai_not_configured`, with `found`.
    """
    kind = media_type(request)
    key = read_key(idempotency_key)
    if kind == "application/json":
        asked, job = await _from_json(request, services, team, key)
    elif kind == "multipart/form-data":
        asked, job = await _from_upload(request, services, team, key)
    else:
        raise MediaTypeError("Send application/json with a `job_id`, or multipart/form-data with a `file`.")
    if job is None:
        raise OverloadedError("The service is stopping. Repeat the request.")
    if job.status is not JobStatus.COMPLETED:
        return _not_read(request, job)
    runtime = services.runtime
    work = Extraction(runtime.parts, runtime.engine).extract(
        job, asked.request, asked.pages, asked.deadline_at
    )
    try:
        found = await while_connected(request, work)
    except NoModelError as error:
        return stored_error_response(request, error.as_dict(), 409, job_id=job.id, found=error.found)
    if found is None:
        raise OverloadedError("The service is stopping. Repeat the request.")
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Response(text, media_type="application/json", headers=NO_SNIFF)


async def _from_json(
    request: Request, services: Services, team: str, key: str | None
) -> tuple[_Asked, MainJob | None]:
    given = await read_json(request)
    wanted = await _wanted(services, team, {name: given.pop(name) for name in _OWN if name in given})
    deadline_at = _deadline(services)
    named = [name for name in ("job_id", "document_id", "source") if given.get(name)]
    if len(named) != 1:
        raise RequestError(
            "Give one of job_id, document_id and source, or send the document as multipart/form-data."
        )
    engine = services.runtime.engine
    await Extraction(services.runtime.parts, engine).check(wanted)
    if named == ["source"]:
        given = {name: value for name, value in given.items() if name not in ("job_id", "document_id")}
        asked = source_submission(given, services.runtime.settings, team, key)
        await check_room(engine, team, key)
        engine.intake.check(asked)
        accepted = await engine.intake.accept_source(asked)
        return _Asked(wanted, deadline_at), await _over(request, services, team, accepted.job_id, deadline_at)
    pages = given.pop("pages", None)
    ident = given.pop(named[0])
    unknown = [name for name, value in given.items() if value is not None]
    if unknown:
        raise RequestError(f"{unknown[0][:60]!r} is not a field of this request with {named[0]}.")
    if not isinstance(ident, str) or not isinstance(pages, str | None):
        raise RequestError(f"{named[0]} and pages: expected texts.")
    asked_pages = _Asked(wanted, deadline_at, PageRanges.parse(pages))
    if named == ["job_id"]:
        return asked_pages, await _ready(engine, await engine.job(team, ident))
    vault = services.runtime.vault
    if vault is None:
        raise OverloadedError("This service has no vault.", retryable=False)
    return asked_pages, await conversion_of(vault, await document_of(vault, team, ident))


async def _from_upload(
    request: Request, services: Services, team: str, key: str | None
) -> tuple[_Asked, MainJob | None]:
    engine, checked = services.runtime.engine, list[ExtractionRequest]()
    await check_room(engine, team, key)

    async def check(given: Mapping[str, str]) -> None:
        """The schema is checked before the file if it comes before it, and again only if a later field replaces it.

        The last request in `checked` has all fields.
        """
        if given.get("schema") or given.get("saved_schema"):
            own = {name: given[name] for name in _OWN if name in given}
            wanted = await _wanted(services, team, own)
            if not checked or checked[-1].schema != wanted.schema:
                await Extraction(services.runtime.parts, engine).check(wanted)
            checked.append(wanted)

    def finished(given: dict[str, str], filename: str) -> Submission:
        if not checked:
            raise RequestError(_NO_SCHEMA)
        rest = {name: value for name, value in given.items() if name not in _OWN}
        if "source" in rest:
            raise RequestError("source: a form takes a `file`; a link is sent as application/json.")
        return submission(team, read_fields(rest), filename, key)

    draft = Submission(team=team, idempotency_key=key)
    most = services.runtime.settings.limits.max_upload_bytes
    received = await receive_upload(request, engine.intake, draft, finished, most, check=check)
    deadline_at = _deadline(services)
    accepted = await engine.intake.accept_upload(received.submission, received.upload)
    job = await _over(request, services, team, accepted.job_id, deadline_at)
    return _Asked(checked[-1], deadline_at), job


def _deadline(services: Services) -> float:
    return services.runtime.parts.clock.now() + services.runtime.settings.extraction.timeout_s


async def _wanted(services: Services, team: str, given: dict[str, Any]) -> ExtractionRequest:
    """Raises RequestError, or MissingError if there is no saved schema of the name."""
    for field in ("saved_schema", "instructions", "ungrounded"):
        if not isinstance(given.get(field), str | None):
            raise RequestError(f"{field}: expected a text.")
    schema, name = given.get("schema"), given.get("saved_schema")
    if (schema in (None, "")) == (not name):
        raise RequestError(_NO_SCHEMA)
    instructions, ungrounded = given.get("instructions"), given.get("ungrounded")
    if name:
        saved = await SavedSchemas(services.runtime.parts, team).get(name)
        schema = saved.schema
        instructions, ungrounded = instructions or saved.instructions, ungrounded or saved.ungrounded
    return ExtractionRequest.of(schema, instructions or "", ungrounded or "null")


async def _over(
    request: Request, services: Services, team: str, job_id: str, deadline_at: float
) -> MainJob | None:
    """The job once it has ended. Raises NotReadyError if it has not by the deadline."""
    most_s = max(0.0, deadline_at - services.runtime.parts.clock.now())
    job = await while_connected(request, services.runtime.engine.wait(team, job_id, most_s))
    if job is not None and not job.status.terminal:
        raise NotReadyError(f"The document is still being read. Repeat the request with job_id {job_id}.")
    return job


async def _ready(engine: Engine, job: MainJob) -> MainJob:
    """Raises NotReadyError while the job runs, StateConflictError if it has no result."""
    await engine.result(job)
    return job


def _not_read(request: Request, job: MainJob) -> Response:
    error: QuireError = CancelledError("The job was cancelled.")
    return stored_error_response(request, job.error or error.as_dict(), job_id=job.id)
