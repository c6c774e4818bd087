"""`POST /parse`: reads one image from the body, holds the caller, and responds with the image's own result."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from quire.api.http.auth import Team, given_key, team_of
from quire.api.http.caller_wait import disconnected
from quire.api.http.client_address import client_address
from quire.api.http.error_responses import (
    MediaTypeError,
    SlowRequestError,
    documented,
    request_id,
    status_of,
)
from quire.api.http.request_bodies import (
    FORM_OVERHEAD,
    FieldRead,
    FileEnds,
    FilePiece,
    FileStarts,
    check_length,
    media_type,
    read_form,
)
from quire.api.http.responses import json_answer
from quire.api.http.services import batcher_of, services
from quire.api.jobs.submission_fields import read_key
from quire.batching.batcher import Batcher, Ticket
from quire.batching.body_memory import SPILL_BYTES, Body, BodyReceiver, Bytes, too_large
from quire.batching.longjson import MAX_REST_BYTES, LongJson, read_complete
from quire.batching.parse_errors import ClientRateLimitedError, QueueFullError, ResponseTimeoutError
from quire.batching.parse_intake import ParseSubmission
from quire.batching.waiting_callers import Failed, ParseOutcome, ParseResult
from quire.coordination.parse_requests import Priority
from quire.errors import QuireError, RequestError

router = APIRouter(tags=["batching"])

MAX_DOOR_BODY_BYTES = SPILL_BYTES * 4 // 3 + MAX_REST_BYTES
"""The largest body that the front door reads as a whole."""

_MAX_NAME_CHARS = 255
_BODY_S = 300.0
_FIELDS = frozenset({"filename", "priority"})
_PLAIN = {
    one.encode(): one for one in ("application/json", "application/octet-stream", "image/jpeg", "image/png")
}
"""Media types without parameters: the common case, found without parsing."""

_CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"cookie"})
_MAX_KNOWN_HOSTS = 64
_TYPES = {"response_timeout": "timeout", "page_failed": "server_error"}
"""Codes of errors that have another name in the field `type` of an answer of `/parse` (docs/batching.md)."""
_STATUS_BY_CODE = {"page_failed": 422, "not_found": 404, "stopping": 503, "coordination_unavailable": 503}


class ElementView(BaseModel):
    label: str = Field(examples=["title"])
    bbox: list[float] = Field(description="Left, top, right, bottom in pixels.")
    text: str
    reading_order: int


class BatchView(BaseModel):
    total_elements: int
    batch_id: str
    position_in_batch: int
    batch_size: int


class ParsedView(BaseModel):
    """An image and what is on it."""

    request_id: str
    filename: str
    processing_time_seconds: float = Field(description="How long the backend took for the batch.")
    timestamp: float
    results: list[ElementView]
    metadata: BatchView


class QueueStatusView(BaseModel):
    queue_depth: int
    max_queue_size: int
    utilization_percent: float
    oldest_request_age_seconds: float
    estimated_wait_time_minutes: float = Field(description="From measured service times.")
    batches_in_flight: int
    breaker_open: bool


_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["image_data"],
                    "properties": {
                        "image_data": {"type": "string", "description": "The image in base64."},
                        "filename": {"type": "string"},
                        "priority": {"type": "string", "enum": ["low", "normal", "high"]},
                    },
                }
            },
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            },
            "image/*": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}
_RESPONSES = documented(400, 401, 408, 413, 415, 422, 503)


@router.post(
    "/parse",
    summary="Read one image",
    response_model=ParsedView,
    responses={**_RESPONSES, 429: {"description": "Too many requests of this client."}},
    openapi_extra=_BODY,
)
async def parse(request: Request) -> Response:
    """The response comes when the image's own result is ready. With an Idempotency-Key it can be requested again."""
    try:
        given = dict(request.scope["headers"])
        team = await _team(request, given)
        key = read_key(request.headers["idempotency-key"]) if b"idempotency-key" in given else None
        batcher = batcher_of(request)
        ticket = await batcher.resume(team, key) if key is not None else None
        if ticket is None:
            await batcher.admit(_client(request))
            ticket = await _submit(request, batcher, team, key)
        else:
            request.scope.pop("quire.body", None)  # the image is known
        return await _hold(request, batcher, ticket)
    except QuireError as error:
        return _refusal(request, error)
    except ClientDisconnect:
        return Response(status_code=400)  # the caller has disconnected


class ParseShortcut:
    """Middleware that calls the endpoint of `POST /parse` directly: routing costs as much time as serving it."""

    path = "/parse"

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self.path or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        scope["route"] = self  # the log shows its path
        response = await parse(Request(scope, receive))
        await response(scope, receive, send)


@router.get(
    "/parse/{parse_id}",
    summary="Get an image's result again",
    response_model=ParsedView,
    responses=documented(400, 401, 404, 408, 409, 422, 503),
)
async def parse_again(
    parse_id: str,
    request: Request,
    team: Team,
    wait: Annotated[bool, Query(description="Wait until the result is ready.")] = True,
) -> Response:
    """The same result as the first time, computed once."""
    batcher = batcher_of(request)
    try:
        ticket = await batcher.attach(team, parse_id, wait=wait)
        return await _hold(request, batcher, ticket)
    except QuireError as error:
        return _refusal(request, error, parse_id)


@router.get(
    "/queue/status",
    summary="How many images wait, and how long",
    response_model=QueueStatusView,
    responses=documented(401, 503),
)
async def queue_status(_team: Team, request: Request) -> Response:
    runtime = services(request).runtime
    condition = await batcher_of(request).condition()
    status, now = condition.status, runtime.parts.clock.now()
    limits = runtime.settings.batching
    backend = status.backend
    view = QueueStatusView(
        queue_depth=status.depth,
        max_queue_size=limits.max_queue_size,
        utilization_percent=round(100 * status.depth / limits.max_queue_size, 2),
        oldest_request_age_seconds=round(max(0.0, now - status.oldest_at), 3) if status.oldest_at else 0.0,
        estimated_wait_time_minutes=round(condition.estimated_wait_s / 60, 3) if status.depth else 0.0,
        batches_in_flight=status.slots_taken,
        breaker_open=backend.failures >= limits.failure_threshold and backend.not_before_s > now,
    )
    return json_answer(view)


async def _submit(request: Request, batcher: Batcher, team: str, key: str | None) -> Ticket:
    limits = services(request).runtime.settings.batching
    fields, body = await _read_request(request, batcher, limits.max_request_bytes)
    try:
        filename = _filename(fields.get("filename"), body)
        priority = _priority(fields.get("priority"))
    except BaseException:
        await batcher.reception.discard(body)
        raise
    most = min(limits.backpressure_threshold, limits.max_queue_size)
    return await batcher.submit(ParseSubmission(team, filename, priority, key, most, body))


async def _read_request(request: Request, batcher: Batcher, max_bytes: int) -> tuple[dict[str, Any], Body]:
    """Returns the fields and the image of a JSON, form or raw body."""
    kind = _kind(request)
    fields: dict[str, Any] = {}
    if request.scope["query_string"]:
        fields |= {name: request.query_params[name] for name in _FIELDS & request.query_params.keys()}
    if "quire.body" in request.scope and kind.encode() in _PLAIN:
        image: Bytes = request.scope.pop("quire.body")
        if kind == "application/json":
            given, image = read_complete(image, "image_data")
            fields |= given
        _refuse_unknown(fields)
        return fields, await batcher.reception.check_bytes(image)
    async with batcher.reception.receiver() as receiver:
        await _receive(request, kind, fields, receiver, max_bytes)
        _refuse_unknown(fields)
        return fields, await batcher.reception.check(receiver)


def _kind(request: Request) -> str:
    """Returns the body's media type. Raises MediaTypeError for a compressed body."""
    given = dict(request.scope["headers"])
    plain = _PLAIN.get(given.get(b"content-type", b""))
    return plain if plain is not None and b"content-encoding" not in given else media_type(request)


async def _receive(
    request: Request, kind: str, fields: dict[str, Any], receiver: BodyReceiver, max_bytes: int
) -> None:
    """Hands the image to the receiver piece by piece, as it arrives."""
    if kind == "application/json":
        _check_length(request, max_bytes * 4 // 3 + 4 + MAX_REST_BYTES, max_bytes)
        reader = LongJson("image_data")

        async def decoded(piece: bytes) -> None:
            await receiver.take(reader.feed(piece))

        await _read_body(request, decoded)
        given, rest = reader.end()
        await receiver.take(rest)
        fields |= given
    elif kind == "multipart/form-data":
        _check_length(request, max_bytes + FORM_OVERHEAD, max_bytes)
        async with aclosing(read_form(request)) as form:
            async for happening in form:
                match happening:
                    case FieldRead(name, value):
                        fields[name] = value
                    case FileStarts(filename):
                        fields.setdefault("filename", filename)
                    case FilePiece(data):
                        await receiver.take(data)
                    case FileEnds():
                        pass
    elif kind.startswith("image/") or kind == "application/octet-stream":
        _check_length(request, max_bytes, max_bytes)
        await _read_body(request, receiver.take)
    else:
        raise MediaTypeError("Send JSON with image_data, a form with a `file`, or the image itself.")


def _check_length(request: Request, most: int, max_bytes: int) -> None:
    check_length(request, most, too_large(max_bytes).public)


def _refuse_unknown(fields: dict[str, Any]) -> None:
    unknown = fields.keys() - _FIELDS
    if unknown:
        raise RequestError(f"{min(unknown)[:60]!r} is not a field of this request.")


async def _read_body(request: Request, sink: Callable[[bytes], Awaitable[None]]) -> None:
    """Passes each piece of the body to `sink`. Raises SlowRequestError, or ClientDisconnect if the caller left."""
    try:
        async with asyncio.timeout(_BODY_S):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                if message.get("body"):
                    await sink(message["body"])
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        raise SlowRequestError(f"The body was not complete within {_BODY_S:.0f} seconds.") from None


async def _hold(request: Request, batcher: Batcher, ticket: Ticket) -> Response:
    """Waits for the ticket's result, until the caller disconnects or RESPONSE_TIMEOUT is over."""
    gone = request.scope.get("quire.gone")
    watching = None
    if gone is None:
        gone = watching = asyncio.create_task(disconnected(request), name="parse-caller")
    try:
        settled = await batcher.result(ticket, gone)
    except ResponseTimeoutError as error:
        return _refusal(request, error, ticket.request_id)
    finally:
        if watching is not None:
            watching.cancel()
    if settled is None:
        return Response(status_code=400)  # the caller has disconnected
    return _response(settled)


def _response(settled: ParseOutcome) -> Response:
    if isinstance(settled, Failed):
        return _failure(
            settled.request_id, settled.error, _STATUS_BY_CODE.get(settled.error.get("code", ""), 500)
        )
    return Response(_parsed(settled), media_type="application/json")


def _parsed(parsed: ParseResult) -> bytes:
    opening = json.dumps(
        {
            "request_id": parsed.request_id,
            "filename": parsed.filename,
            "processing_time_seconds": round(parsed.seconds, 3),
            "timestamp": round(parsed.finished_at, 3),
        }
    )
    return opening[:-1].encode() + b"," + parsed.fragment + b"}"


def _refusal(request: Request, error: QuireError, parse_id: str = "") -> Response:
    error = services(request).runtime.parts.disk.for_caller(error)
    if isinstance(error, ClientRateLimitedError):
        status = 429
    elif isinstance(error, ResponseTimeoutError):
        status = 408
    else:
        status = status_of(error)
    shown = error.as_dict()
    if isinstance(error, QueueFullError):
        shown["queue_depth"] = error.depth
        shown["estimated_wait_minutes"] = round(error.wait_s / 60, 2)
    if status == 503 and "retry_after_seconds" not in shown:
        shown["retry_after_seconds"] = 1
    return _failure(parse_id or request_id(request), shown, status)


def _failure(shown_id: str, error: dict[str, Any], status: int) -> Response:
    """An error response: the shape of all errors, plus the names that callers of `/parse` know for the same values."""
    body = {
        **error,
        "message": error["error"],
        "type": _TYPES.get(error["code"], error["code"]),
        "request_id": shown_id,
        "status": "failed",
        "retry_suggested": bool(error.get("retryable")),
    }
    headers = {}
    wait_s = error.get("retry_after_seconds")
    if isinstance(wait_s, int | float):
        whole_s = max(1, math.ceil(wait_s))
        body["retry_after_seconds"] = body["estimated_retry_time_seconds"] = whole_s
        headers["Retry-After"] = str(whole_s)
    return JSONResponse(body, status, headers)


async def _team(request: Request, given: dict[bytes, bytes]) -> str:
    """As `team_of`. Without credentials the team depends only on host and origin, so it is remembered."""
    if not _CREDENTIALS.isdisjoint(given):
        return await team_of(request)
    known = services(request).callers
    names = (given.get(b"host"), given.get(b"origin"))
    team = known.get(names)
    if team is None:
        team = await team_of(request)
        if len(known) < _MAX_KNOWN_HOSTS:
            known[names] = team
    return team


def _client(request: Request) -> str:
    """Returns what identifies the client for its rate limit. A team is not one client: it may share a key."""
    if services(request).runtime.settings.batching.rate_limit_by == "key":
        key = given_key(request)
        if key is not None:
            return f"key:{key.decode('latin-1')}"
    return f"address:{client_address(request)}"


def _filename(given: Any, body: Body) -> str:
    if given in (None, ""):
        ending = "png" if body.head.startswith(b"\x89PNG") else "jpg"
        return f"upload_{body.request_id[:8]}.{ending}"
    if not isinstance(given, str) or len(given) > _MAX_NAME_CHARS or not given.isprintable():
        raise RequestError(f"filename: expected a text of at most {_MAX_NAME_CHARS} printable characters.")
    return given


def _priority(given: Any) -> Priority:
    if given in (None, ""):
        return Priority.NORMAL
    if isinstance(given, str) and given.upper() in Priority.__members__:
        return Priority[given.upper()]
    raise RequestError("priority: expected low, normal or high.")
