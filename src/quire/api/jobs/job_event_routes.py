"""GET /jobs/{id}/events: a job's state changes as server-sent events."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from quire.api.http.auth import Team
from quire.api.http.caller_wait import until_stopping
from quire.api.http.error_responses import documented
from quire.api.http.responses import ClosingStream
from quire.api.http.services import EngineDep
from quire.coordination.job_events import JobEvent
from quire.errors import RequestError
from quire.pipeline.open_streams import closing

router = APIRouter(prefix="/jobs", tags=["jobs"])

_EVENT_ID = re.compile(r"([0-9]{1,20})(?:-([0-9]{1,20}))?")
_LARGEST_NUMBER = 2**64 - 1
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@router.get(
    "/{job_id}/events",
    summary="Follow a job live",
    responses={
        200: {
            "content": {"text/event-stream": {}},
            "description": "`status`, `download`, `pages` and `snapshot` events.",
        },
        204: {"description": "The job is over and the caller has seen its last event."},
        **documented(400, 401, 404, 503),
    },
    response_class=Response,
)
async def events(
    request: Request,
    job_id: str,
    team: Team,
    engine: EngineDep,
    last_event_id: Annotated[str | None, Header(description="Go on after this event.")] = None,
) -> Response:
    """Starts with a snapshot, or after `Last-Event-ID`; ends when the job is over."""
    last_id = checked_event_id(last_event_id)
    async with engine.events_source.starting:
        job = await engine.job(team, job_id)
        stream = until_stopping(request, engine.events(job, last_id))
        first = await anext(stream, None)
    if first is not None and first.type == "snapshot" and last_id and first.id == last_id:
        await stream.aclose()
        # The only status that stops a browser from reconnecting.
        return Response(status_code=204)
    return ClosingStream(written(first, stream), media_type="text/event-stream", headers=_HEADERS)


def checked_event_id(given: str | None) -> str:
    if not given:
        return ""
    found = _EVENT_ID.fullmatch(given)
    if not found or any(int(part) > _LARGEST_NUMBER for part in found.groups("0")):
        raise RequestError("Last-Event-ID: expected the id of an event of this job, such as 1699999999999-0.")
    return given


async def written(first: JobEvent | None, rest: AsyncIterator[JobEvent | None]) -> AsyncIterator[bytes]:
    async with closing(rest):
        yield b"retry: 2000\n\n"
        yield _text(first)
        async for event in rest:
            yield _text(event)


def _text(event: JobEvent | None) -> bytes:
    """One event as text; None becomes a comment, which keeps proxies from closing the connection."""
    if event is None:
        return b": keep-alive\n\n"
    number = f"id: {event.id}\n" if event.id else ""
    return f"{number}event: {event.type}\ndata: {json.dumps(event.data)}\n\n".encode()
