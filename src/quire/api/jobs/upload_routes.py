"""Direct uploads over HTTP: where to put a large file, so that it does not come through this service if it need not."""

from __future__ import annotations

from contextlib import aclosing

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from quire.api.http.auth import Team
from quire.api.http.error_responses import documented
from quire.api.http.request_bodies import check_length, media_type, pieces
from quire.api.http.responses import json_answer
from quire.api.http.services import ServicesDep
from quire.api.jobs.job_views import iso
from quire.errors import RequestError, TooLargeError
from quire.pipeline.intake.direct_uploads import DirectUploads

router = APIRouter(tags=["jobs"])


class NewUploadRequest(BaseModel):
    """A file that is to be uploaded."""

    model_config = ConfigDict(extra="forbid")

    size: int = Field(description="Bytes of the file.", examples=[734003200])
    filename: str = Field("", max_length=1_000)
    sha256: str = Field(
        "", description="Of the file, as 64 hexadecimal digits; it is checked before the file is read."
    )


class UploadView(BaseModel):
    """Where to put the file, and how to name it afterwards."""

    upload_id: str
    source: str = Field(
        description="For `source` of `POST /convert` and `POST /documents`, and `sources` of `POST /batches`."
    )
    method: str = "PUT"
    url: str
    headers: dict[str, str] = Field(description="To be sent with the file.")
    signed: bool = Field(
        description="Whether `url` is one of the object store and needs no key; one of this service needs a key."
    )
    expires_at: str | None


@router.post(
    "/uploads",
    summary="Begin the upload of a large file",
    status_code=201,
    response_model=UploadView,
    responses=documented(400, 401, 413, 422, 503),
)
async def begin_upload(
    body: NewUploadRequest, request: Request, team: Team, services: ServicesDep
) -> Response:
    """The answer says where to PUT the file: straight to the object store where it can sign an address.

    Then give its `source` to `POST /convert`, `POST /documents` or `POST /batches`. An upload that no request names is
    deleted after six hours.
    """
    uploads = DirectUploads(services.runtime.parts)
    upload = await uploads.begin(team, body.filename, body.size, body.sha256)
    signed = await uploads.signed(upload)
    now, ttl_s = services.runtime.parts.clock.now(), services.runtime.settings.retention.link_ttl_s
    view = UploadView(
        upload_id=upload.id,
        source=upload.source,
        url=signed.url if signed else f"{request.base_url}uploads/{upload.id}",
        headers=dict(signed.headers) if signed else {},
        signed=signed is not None,
        expires_at=iso(now + ttl_s) if signed else None,
    )
    return json_answer(view, 201, {"Location": f"/uploads/{upload.id}"})


@router.put(
    "/uploads/{upload_id}",
    summary="The file of an upload",
    status_code=204,
    response_class=Response,
    responses=documented(400, 401, 404, 408, 413, 415, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def put_upload(request: Request, upload_id: str, team: Team, services: ServicesDep) -> Response:
    """The body is the file. It replaces one that was put before."""
    media_type(request)  # refuses a compressed body
    uploads = DirectUploads(services.runtime.parts)
    upload = await uploads.find(team, upload_id)
    too_large = f"The file is larger than the {upload.size} bytes announced."
    check_length(request, upload.size, too_large)
    async with uploads.writer(upload) as writer, aclosing(pieces(request)) as body:
        async for piece in body:
            if writer.size + len(piece) > upload.size:
                raise TooLargeError(too_large)
            await writer.write(piece)
        if writer.size != upload.size:
            raise RequestError(f"The file has {writer.size} bytes and was announced with {upload.size}.")
    return Response(status_code=204)
