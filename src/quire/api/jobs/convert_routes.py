"""POST /convert: accepts a document as an upload or as a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, Field

from quire.api.http.auth import Team
from quire.api.http.caller_wait import while_connected
from quire.api.http.error_responses import MediaTypeError, documented, stored_error_response
from quire.api.http.request_bodies import media_type, read_json
from quire.api.http.responses import json_answer
from quire.api.http.services import Services, ServicesDep
from quire.api.jobs.job_views import AcceptedView, links
from quire.api.jobs.output_params import OUTPUT_NAMES, READING_NAMES, IncludedDep, OutputDep, ReadingDep
from quire.api.jobs.result_routes import (
    RESULT_RESPONSES,
    LinkParam,
    check_included,
    result_answer,
    result_link,
)
from quire.api.jobs.submission_fields import read_fields, read_key, refuse_version, submission
from quire.api.jobs.upload_receiver import receive_upload
from quire.api.jobs.written_results import FormatParam
from quire.domain.included_details import IncludedDetails
from quire.domain.job import JobStatus, MainJob, job_id_for_key
from quire.domain.output_options import OutputOptions
from quire.errors import CancelledError, MissingError, RequestError
from quire.objects.buckets import source_address
from quire.pipeline.engine import Engine
from quire.pipeline.intake.upload_intake import Accepted, Submission, UploadIntake
from quire.settings import Settings

router = APIRouter(tags=["jobs"])

LONGEST_WAIT_S = 600.0
_QUERY = frozenset({"wait", "format", "link", "include"}) | OUTPUT_NAMES | READING_NAMES


class ConvertOptions(BaseModel):
    """The fields of a conversion; only for the description, `submissions` reads them."""

    mode: Literal["auto", "local", "ai"] = Field(
        "auto", description="Which reader: the best one for each page, only this machine, or AI."
    )
    engine: str | None = Field(None, description="The AI provider to try first.")
    model_tier: str | None = Field(None, description="`primary`, `secondary` or `fast`.")
    prompt: str | None = Field(None, description="Instructions for the AI.")
    pages: str | None = Field(None, description="Which pages.", examples=["1-5,8,12-"])
    password: str | None = Field(None, description="Opens an encrypted PDF. Kept sealed, never logged.")
    timeout_seconds: float | None = Field(None, description="When pages still missing get their plain text.")
    callback_url: str | None = Field(None, description="Receives a signed POST when the job ends.")
    priority: Literal["low", "normal", "high"] = Field(
        "normal", description="Documents of higher priority are read first; none waits for ever."
    )
    force: bool = Field(False, description="Make a new job even if an earlier one did the same.")
    force_ocr: bool = Field(False, description="Read pages by OCR although they have a text layer.")
    ocr_languages: str | None = Field(
        None,
        description="The languages of the scans, joined with `+`; as Tesseract names them. Default: OCR_LANGUAGES.",
        examples=["eng+deu"],
    )
    reading_effort: Literal["fast", "balanced", "careful"] | None = Field(
        None, description="How much work a scanned page may take on this machine. Default: READING_EFFORT."
    )
    result_to: str | None = Field(
        None,
        description="`s3://bucket/prefix/` (or `gs://`, `az://`) in an allowed bucket: the Markdown is put under it as "
        "well, as `<job id>/<name>.md`. Of `POST /convert` only; the vault keeps its results itself.",
    )

    version_of: str | None = Field(
        None,
        description="Of `POST /documents` only: the id of the document that this is a new version of. Pages whose "
        "content is the same are not read again.",
    )


class SourceRequest(ConvertOptions):
    source: str = Field(
        description="`https://…`, also a share link of Google Drive or Dropbox; `s3://…`, `gs://…` or `az://…` in an "
        "allowed bucket, or a bare key in AWS_S3_BUCKET; `file://…` under FILES_BASE; `upload://…` of `POST /uploads`."
    )


class UploadRequest(ConvertOptions):
    file: bytes = Field(description="The document.", json_schema_extra={"format": "binary"})


def documented_body(**example: str) -> dict[str, Any]:
    """A body that is an upload or a link, for the description; `example` has fields to show beside the link."""
    link = {"source": "https://example.org/report.pdf", **example}
    return {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": UploadRequest.model_json_schema()},
                "application/json": {"schema": SourceRequest.model_json_schema(), "example": link},
            },
        }
    }


@router.post(
    "/convert",
    summary="Turn a document into Markdown",
    status_code=202,
    response_model=AcceptedView,
    responses={
        **RESULT_RESPONSES,
        202: {"model": AcceptedView, "description": "Accepted; `Location` is the address of the job."},
        **documented(400, 401, 408, 409, 413, 415, 422, 502, 503),
    },
    openapi_extra=documented_body(pages="1-5"),
)
async def convert(
    request: Request,
    team: Team,
    services: ServicesDep,
    *,
    wait: Annotated[
        float,
        Query(ge=0, le=LONGEST_WAIT_S, allow_inf_nan=False, description="Seconds to wait for the result."),
    ] = 0.0,
    format: FormatParam = None,
    link: LinkParam = False,
    output: OutputDep,
    included: IncludedDep,
    reading: ReadingDep,
    idempotency_key: Annotated[
        str | None, Header(description="The same key gives the same job, however often the request is sent.")
    ] = None,
) -> Response:
    """As an upload (`multipart/form-data`, field `file`) or a link (JSON, field `source`), with options.

    With `wait`, the result itself if the job is over by then, or the error it failed with; otherwise 202.
    """
    for name in request.query_params:
        if name not in _QUERY:
            raise RequestError(
                f"{name[:60]!r} is not a parameter of the address; other options go into the body."
            )
    check_included(request, format, included)
    engine = services.runtime.engine
    key = read_key(idempotency_key)
    kind = media_type(request)
    if kind not in ("application/json", "multipart/form-data"):
        raise MediaTypeError("Send multipart/form-data with a `file`, or application/json with a `source`.")
    await check_room(engine, team, key)
    if kind == "application/json":
        accepted = await _accept_source(request, services, team, key, reading)
    else:
        max_bytes = services.runtime.settings.limits.max_upload_bytes
        accepted = await _accept_upload(request, engine.intake, team, key, max_bytes, reading=reading)
    if wait > 0:
        job = await while_connected(request, engine.wait(team, accepted.job_id, wait))
        if job is not None and job.status.terminal:
            return await _ended(
                request, services, team, job, format, link=link, output=output, included=included
            )
        if job is not None:
            accepted = Accepted(accepted.job_id, job.status, accepted.deduplicated)
    return _accepted(accepted)


async def check_room(engine: Engine, team: str, key: str | None) -> None:
    """Raises OverloadedError. A repeated request needs no room, so it always passes."""
    if key is not None:
        try:
            await engine.job(team, job_id_for_key(team, key))
        except MissingError:
            pass
        else:
            return
    await engine.intake.check_room()


async def _accept_source(
    request: Request, services: Services, team: str, key: str | None, reading: Mapping[str, str]
) -> Accepted:
    intake = services.runtime.engine.intake
    given = {**reading, **await read_json(request)}
    asked = source_submission(given, services.runtime.settings, team, key)
    if asked.options.version_of:
        raise RequestError("version_of: is for POST /documents.")
    intake.check(asked)
    return await intake.accept_source(asked)


async def read_source(request: Request, settings: Settings, team: str, key: str | None) -> Submission:
    """The submission of a JSON body; a bare key becomes the address of its object. Raises RequestError."""
    return source_submission(await read_json(request), settings, team, key)


def source_submission(given: Mapping[str, Any], settings: Settings, team: str, key: str | None) -> Submission:
    """The submission of fields with a `source`. Raises RequestError."""
    fields = read_fields(given)
    if not fields.secrets.source_url:
        raise RequestError("source: missing. Give the document's address, or send it as multipart/form-data.")
    place = source_address(fields.secrets.source_url, settings.aws.bucket)
    fields = replace(fields, secrets=replace(fields.secrets, source_url=place))
    return submission(team, fields, "", key)


async def _accept_upload(
    request: Request,
    intake: UploadIntake,
    team: str,
    key: str | None,
    max_bytes: int,
    *,
    reading: Mapping[str, str],
) -> Accepted:
    def finished(given: dict[str, str], filename: str) -> Submission:
        if "source" in given:
            raise RequestError("source: a form takes a `file`; a link is sent as application/json.")
        fields = read_fields({**reading, **given})
        refuse_version(fields)
        return submission(team, fields, filename, key)

    draft = Submission(team=team, idempotency_key=key)
    received = await receive_upload(request, intake, draft, finished, max_bytes)
    return await intake.accept_upload(received.submission, received.upload)


async def _ended(
    request: Request,
    services: Services,
    team: str,
    job: MainJob,
    format: FormatParam,
    *,
    link: bool,
    output: OutputOptions,
    included: IncludedDetails,
) -> Response:
    if job.status is JobStatus.COMPLETED and link:
        response = await result_link(request, services, team, job.id)
    elif job.status is JobStatus.COMPLETED:
        engine = services.runtime.engine
        response = await result_answer(
            request, engine, team, job.id, chosen=format, options=output, included=included
        )
    else:
        error = job.error or CancelledError("The job was cancelled.").as_dict()
        response = stored_error_response(request, error, job_id=job.id)
    response.headers["Location"] = f"/jobs/{job.id}"
    return response


def _accepted(accepted: Accepted) -> Response:
    view = AcceptedView(
        job_id=accepted.job_id,
        status=accepted.status.value,
        deduplicated=accepted.deduplicated,
        links=links(accepted.job_id),
    )
    return json_answer(view, 202, {"Location": f"/jobs/{accepted.job_id}"})
