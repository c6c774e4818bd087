"""The one table from failures to HTTP statuses, and the one shape in which errors are answered."""

from __future__ import annotations

import logging
import math
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from quire import errors

_LOG = logging.getLogger(__name__)


class MediaTypeError(errors.RequestError):
    """The body is of a type, or packed in a way, that the endpoint does not take."""

    code = "unsupported_media_type"


class ForbiddenError(errors.RequestError):
    """The caller has no permission, whatever API key it sends."""

    code = "forbidden"


class ThrottledError(errors.RequestError):
    """The same client asked too often."""

    code = "too_many_attempts"
    retryable = True


class SlowRequestError(errors.RequestError):
    """No byte of the body arrived for too long."""

    code = "request_timeout"
    retryable = True


class WaitTimeoutError(errors.QuireError):
    """The document was not finished while the caller waited; its job goes on."""

    code = "wait_timeout"
    retryable = True


STATUSES: dict[type[errors.QuireError], int] = {
    errors.QuireError: 500,
    errors.SettingsError: 500,
    errors.RequestError: 400,
    errors.UnsupportedTypeError: 415,
    errors.TooLargeError: 413,
    errors.TooManyPagesError: 422,
    errors.LinkRefusedError: 400,
    errors.CredentialsError: 401,
    errors.MissingError: 404,
    errors.StateConflictError: 409,
    errors.NotReadyError: 409,
    errors.DocumentError: 422,
    errors.DamagedError: 422,
    errors.EmptyError: 422,
    errors.PasswordRequiredError: 422,
    errors.PasswordWrongError: 422,
    errors.PageError: 422,
    errors.PageCrashedError: 422,
    errors.PageTimeoutError: 422,
    errors.PageMemoryError: 422,
    errors.DownloadError: 502,
    errors.EmbeddingError: 502,
    errors.ExtractionError: 502,
    errors.OverloadedError: 503,
    errors.NotStartedError: 503,
    errors.CancelledError: 409,
    errors.PlaneError: 503,
    errors.CoordinationCommandError: 500,
    errors.CoordinationError: 503,
    errors.ObjectsError: 503,
    errors.DiskFullError: 503,
    errors.CatalogError: 503,
    errors.DataDirInUseError: 503,
    ForbiddenError: 403,
    MediaTypeError: 415,
    SlowRequestError: 408,
    ThrottledError: 429,
    WaitTimeoutError: 504,
}
_BY_CODE = {kind.code: status for kind, status in STATUSES.items()}

_UNAVAILABLE = "The service cannot reach a part that it needs. Try again shortly."
_UNEXPECTED = "An internal error happened. Search the log for the request id."


class ErrorBody(BaseModel):
    """Every error, of every endpoint."""

    model_config = ConfigDict(extra="allow")

    error: str = Field(description="What went wrong, in words for people.")
    code: str = Field(description="What went wrong, for programs.", examples=["not_found"])
    retryable: bool = Field(description="Whether the same request may succeed later.")
    retry_after_seconds: float | None = Field(None, description="When to try again, if that is known.")
    request_id: str = Field(description="Finds the request in the service's log.")


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the error answers of an endpoint, for OpenAPI."""
    return {status: {"model": ErrorBody, "description": _MEANINGS[status]} for status in sorted(statuses)}


_MEANINGS = {
    400: "The request is malformed; the text names the field.",
    401: "A key is needed, or the one given is not known.",
    403: "The internal token is missing or wrong.",
    404: "There is no such job, or it belongs to another team.",
    408: "No byte of the body arrived for too long.",
    409: "Not in the job's present state; with `not_ready` it is worth trying again.",
    413: "The document is larger than allowed.",
    415: "Neither the body's nor the document's type can be read.",
    422: "The document can't be read; the text says why.",
    502: "The document's link could not be fetched.",
    504: "The document was not finished in time (DOOR_WAIT); its job goes on, and the same request finds it.",
    503: "Too busy, or a part is out of reach; try again after `Retry-After` seconds.",
}


def request_id(request: Request) -> str:
    return str(getattr(request.state, "request_id", ""))


def status_of(error: errors.QuireError) -> int:
    """The status of the nearest class in the table."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def error_response(request: Request, error: errors.QuireError) -> Response:
    shown = error.as_dict()
    if isinstance(error, errors.PlaneError) and not isinstance(error, errors.DiskFullError):
        # Its text names addresses inside the service.
        _LOG.warning("a plane failed", extra={"code": error.code, "error": error.public})
        shown["error"] = _UNAVAILABLE
    response = stored_error_response(request, shown, status_of(error))
    if isinstance(error, errors.CredentialsError):
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def stored_error_response(
    request: Request, shown: dict[str, Any], status: int | None = None, **more: Any
) -> Response:
    """An error as jobs keep it, answered with the status of its code."""
    headers = {}
    body = {**shown, **more, "request_id": request_id(request)}
    wait_s = shown.get("retry_after_seconds")
    if isinstance(wait_s, int | float):
        headers["Retry-After"] = str(max(1, math.ceil(wait_s)))
    status = status or _BY_CODE.get(str(shown.get("code")), 500)
    if status == 503 and "Retry-After" not in headers:
        headers["Retry-After"] = "1"
    return JSONResponse(body, status, headers)


def unexpected_response(request: Request) -> Response:
    return stored_error_response(request, {"error": _UNEXPECTED, "code": "internal", "retryable": False}, 500)


def install(app: FastAPI) -> None:
    """Registers handlers that answer every exception of an endpoint in the one shape."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, errors.QuireError)  # noqa: S101 - registered for nothing else
        if status_of(error) == 500:
            _LOG.error("request failed", exc_info=error)
        return error_response(request, request.app.state.services.runtime.parts.disk.for_caller(error))

    async def routing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for nothing else
        code, text = _ROUTING.get(error.status_code, ("bad_request", "The request is malformed."))
        shown = {"error": text, "code": code, "retryable": False}
        response = stored_error_response(request, shown, error.status_code)
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        return response

    async def validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for nothing else
        return error_response(request, errors.RequestError(first_problem(error)))

    async def gone(_request: Request, _error: Exception) -> Response:
        return Response(status_code=400)  # the caller has disconnected and reads nothing

    app.add_exception_handler(errors.QuireError, ours)
    app.add_exception_handler(HTTPException, routing)
    app.add_exception_handler(RequestValidationError, validation)
    app.add_exception_handler(ClientDisconnect, gone)


_ROUTING = {
    404: ("not_found", "There is nothing at this address. The endpoints are listed at /docs."),
    405: ("method_not_allowed", "This address does not take this method; see the Allow header."),
}


def first_problem(error: RequestValidationError) -> str:
    """The field and what is wrong with it, never the value."""
    found = error.errors()
    if not found:
        return "The request is malformed."
    field = ".".join(str(part) for part in found[0]["loc"][1:]) or "request"
    return f"{field}: {found[0]['msg']}."
