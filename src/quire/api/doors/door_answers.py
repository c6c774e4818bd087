"""Answers of doors: errors in the shape of the other system, and JSON objects whose long texts are streamed."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from quire.api.http.error_responses import (
    documented,
    error_response,
    first_problem,
    stored_error_response,
)
from quire.api.http.responses import NO_SNIFF, ClosingStream, started
from quire.errors import QuireError, RequestError
from quire.pipeline.document_formats import compact_json
from quire.pipeline.open_streams import closing

_PIECE_CHARS = 64 << 10
_KEPT_HEADERS = ("retry-after", "www-authenticate")


DOOR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": found["description"]}
    for status, found in documented(400, 401, 404, 408, 413, 415, 422, 503, 504).items()
}
"""The error answers of a door, for OpenAPI; their bodies have the shape of the other system."""


class FailedDocumentError(QuireError):
    """A document whose job failed. `stored` is the error as the job keeps it."""

    code = "document_failed"

    def __init__(self, stored: dict[str, Any]) -> None:
        super().__init__(str(stored.get("error", "The document could not be read.")))
        self.stored = stored

    def as_dict(self) -> dict[str, Any]:
        return self.stored


@dataclass(frozen=True, slots=True)
class DoorError:
    """An error of Quire, to be written in another system's shape."""

    status: int
    text: str
    code: str


class DoorRoute(APIRoute, ABC):
    """A route whose errors have the shape that `shaped` gives them. Subclasses are one for each door."""

    @staticmethod
    @abstractmethod
    def shaped(error: DoorError) -> Response:
        """The error in the other system's shape."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except RequestValidationError as error:
                return self._reshaped(error_response(request, RequestError(first_problem(error))))
            except FailedDocumentError as error:
                return self._reshaped(stored_error_response(request, error.stored))
            except QuireError as error:
                return self._reshaped(error_response(request, error))

        return answer

    def _reshaped(self, ours: Response) -> Response:
        found = json.loads(bytes(ours.body))
        response = self.shaped(DoorError(ours.status_code, found["error"], found["code"]))
        for name in _KEPT_HEADERS:
            if name in ours.headers:
                response.headers[name] = ours.headers[name]
        return response


@dataclass(frozen=True, slots=True)
class LongText:
    """A text of a JSON value that is written as it is read."""

    pieces: AsyncIterator[str]


@dataclass(frozen=True, slots=True)
class LongValue:
    """A part of a JSON value that is already JSON."""

    pieces: AsyncIterator[bytes]


async def json_list(values: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """A JSON list, written as its values are read; `[]` if there are none."""
    before = "["
    async with closing(values):
        async for value in values:
            yield (before + compact_json(value)).encode("utf-8", "replace")
            before = ","
    yield b"[]" if before == "[" else b"]"


async def json_stream(value: Any, headers: Mapping[str, str] | None = None) -> Response:
    """The value as JSON; LongText and LongValue in it are streamed. What fails before the first piece is raised."""
    body = await started(_joined(_written(value)))
    return ClosingStream(body, media_type="application/json", headers={**NO_SNIFF, **(headers or {})})


async def text_stream(pieces: AsyncIterator[str], media_type: str, **headers: str) -> Response:
    """A text as it is read."""
    body = await started(_joined(pieces))
    return ClosingStream(body, media_type=f"{media_type}; charset=utf-8", headers={**NO_SNIFF, **headers})


async def _written(value: Any) -> AsyncIterator[str]:
    if isinstance(value, LongText):
        yield '"'
        async with closing(value.pieces):
            async for piece in value.pieces:
                yield compact_json(piece)[1:-1]
        yield '"'
    elif isinstance(value, LongValue):
        async with closing(value.pieces):
            async for raw in value.pieces:
                yield raw.decode()
    elif isinstance(value, dict):
        between = "{"
        for name, held in value.items():
            yield f"{between}{compact_json(name)}:"
            async for piece in _written(held):
                yield piece
            between = ","
        yield "}" if value else "{}"
    elif isinstance(value, list):
        between = "["
        for held in value:
            yield between
            async for piece in _written(held):
                yield piece
            between = ","
        yield "]" if value else "[]"
    else:
        yield compact_json(value)


async def _joined(pieces: AsyncIterator[str]) -> AsyncIterator[bytes]:
    """Pieces of a size that is worth sending."""
    held: list[str] = []
    size = 0
    async with closing(pieces):
        async for piece in pieces:
            held.append(piece)
            size += len(piece)
            if size >= _PIECE_CHARS:
                yield "".join(held).encode("utf-8", "replace")
                held, size = [], 0
    yield "".join(held).encode("utf-8", "replace")
