"""The endpoints at which an external dispatcher reports pages (docs/protocol.md). They require INTERNAL_TOKEN."""

from __future__ import annotations

import hmac
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from quire.api.http.error_responses import ForbiddenError, documented
from quire.api.http.request_bodies import media_type, read_json
from quire.api.http.responses import json_answer
from quire.api.http.services import Services, ServicesDep, services
from quire.errors import MissingError, RequestError
from quire.pipeline.outside_reports import OutsideReports, PageReport

_LARGEST_PAGE = 10_000_000
_MOST_TOKENS = 1_000_000_000
_LONGEST_NAME = 200


class Reported(BaseModel):
    job_id: str
    page_id: int
    accepted: bool = Field(description="False if the page already had a result: the first one counts.")


class Closed(BaseModel):
    job_id: str
    pages_given_up: int = Field(description="Pages that got their local text; 0 when repeated.")


async def _authorised(request: Request) -> None:
    """Raises MissingError if no token is configured, so that the endpoints seem absent; ForbiddenError for a wrong
    token."""
    token = services(request).runtime.settings.auth.internal_token
    if not token:
        raise MissingError("There is nothing at this address.")
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    given = request.headers.get("x-internal-token", "") or (
        bearer.strip() if scheme.lower() == "bearer" else ""
    )
    if not hmac.compare_digest(given.encode("latin-1", "replace"), token.encode()):
        raise ForbiddenError("X-Internal-Token is missing or wrong.")


router = APIRouter(prefix="/internal", tags=["ghostserver"], dependencies=[Depends(_authorised)])

JobParam = Annotated[str, Query(max_length=100)]
PageParam = Annotated[int, Query(ge=1, le=_LARGEST_PAGE)]
EpochParam = Annotated[
    int, Query(ge=0, le=1_000_000, description="The run that the page was read for; 0 is the current run.")
]
_TEXT_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["text"],
                    "properties": {
                        "text": {"type": "string"},
                        "provider": {"type": "string"},
                        "model": {"type": "string"},
                        "tokens_used": {"type": "integer"},
                    },
                }
            }
        },
    }
}


@router.post(
    "/page_done",
    summary="Report the text of a page",
    response_model=Reported,
    responses=documented(400, 403, 404, 409, 503),
    openapi_extra=_TEXT_BODY,
)
async def page_done(
    request: Request, services: ServicesDep, job_id: JobParam, page_id: PageParam, epoch: EpochParam = 0
) -> Response:
    """The first result of a page counts, also while a worker holds the page; a later result is counted as late."""
    given = await read_json(request)
    text = given.get("text")
    if not isinstance(text, str):
        raise RequestError("text: expected a text.")
    tokens_in = _tokens("tokens_in", given)
    report = PageReport(
        number=page_id,
        text=text.encode("utf-8", "replace").decode(),
        provider=_name("provider", given),
        model=_name("model", given),
        tokens_in=tokens_in,
        # With only the sum given, tokens that are not known to be input count as output.
        tokens_out=_tokens("tokens_out", given) or max(_tokens("tokens_used", given) - tokens_in, 0),
        epoch=epoch,
    )
    counted = await _reports(services).page_done(job_id, report)
    return json_answer(Reported(job_id=job_id, page_id=page_id, accepted=counted))


@router.post(
    "/page_failed",
    summary="Report that a page could not be read",
    response_model=Reported,
    responses=documented(400, 403, 404, 409, 503),
)
async def page_failed(
    request: Request, services: ServicesDep, job_id: JobParam, page_id: PageParam, epoch: EpochParam = 0
) -> Response:
    """The page gets its local text. A body is ignored."""
    media_type(request)
    counted = await _reports(services).page_failed(job_id, page_id, epoch)
    return json_answer(Reported(job_id=job_id, page_id=page_id, accepted=counted))


@router.post(
    "/job_done",
    summary="Report that no more pages will come",
    response_model=Closed,
    responses=documented(400, 403, 404, 409, 503),
)
async def job_done(services: ServicesDep, job_id: JobParam) -> Response:
    """Pages that still wait get their local text, and the job ends."""
    given_up = await _reports(services).job_done(job_id)
    return json_answer(Closed(job_id=job_id, pages_given_up=given_up))


def _reports(services: Services) -> OutsideReports:
    return OutsideReports(services.runtime.parts)


def _tokens(name: str, given: dict[str, Any]) -> int:
    value = given.get(name) or 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_TOKENS:
        raise RequestError(f"{name}: expected a whole number of tokens.")
    return value


def _name(name: str, given: dict[str, Any]) -> str | None:
    value = given.get(name)
    if value in (None, ""):
        return None
    if not isinstance(value, str) or len(value) > _LONGEST_NAME or not value.isprintable():
        raise RequestError(f"{name}: expected a text of at most {_LONGEST_NAME} printable characters.")
    return value
