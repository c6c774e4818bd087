"""Responses: a model as JSON, a stream that is always closed, a file name that is safe in a header."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from urllib.parse import quote

from fastapi import Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.types import Send

from quire.errors import MissingError
from quire.pipeline.open_streams import closing

NO_SNIFF = {"X-Content-Type-Options": "nosniff"}
INERT = {**NO_SNIFF, "Content-Security-Policy": "default-src 'none'; sandbox"}
"""For HTML that was made from a document: a browser that shows it loads and runs nothing."""


def json_answer(model: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The model as it is, without the second validation that FastAPI would make."""
    return Response(model.model_dump_json(), status, headers, media_type="application/json")


async def started(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same stream once its first piece is there; what goes wrong before that is raised here.

    After the first byte of an answer an error can only cut it off.
    """
    try:
        first = await anext(stream)
    except StopAsyncIteration:
        first = b""
    return _joined(first, stream)


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async with closing(rest):
        yield first
        async for piece in rest:
            yield piece


class ClosingStream(StreamingResponse):
    """A streaming answer that ends its generator when the caller goes, not when the garbage collector runs."""

    async def stream_response(self, send: Send) -> None:
        async with closing(aiter(self.body_iterator)):
            await super().stream_response(send)


def disposition(kind: str, filename: str) -> str:
    """`attachment; filename=…` for any name: plain for old clients, exact for the others."""
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%' else "_" for c in filename)
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"


async def of_current_result(answer: Callable[[], Awaitable[Response]]) -> Response:
    """The answer about a result. A retry that has just ended may have replaced it: the job then names the new one."""
    try:
        return await answer()
    except MissingError:
        return await answer()
