"""GET /documents/events: what happens in a team's vault, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from quire.api.answers import Stream
from quire.api.auth import Team
from quire.api.errors import documented
from quire.api.events import checked_event_id, written
from quire.api.services import VaultDep
from quire.api.waiting import until_stopping
from quire.pipeline.vault.vault import Vault
from quire.queue.events import Event
from quire.queue.steps import news_id

router = APIRouter(tags=["vault"])

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_SILENCE_S = 15.0


@router.get(
    "/documents/events",
    summary="Follow the vault live",
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "`hello`, then `document` events."},
        **documented(400, 401, 503),
    },
    response_class=Response,
)
async def events(
    request: Request,
    team: Team,
    vault: VaultDep,
    last_event_id: Annotated[str | None, Header(description="Go on after this event.")] = None,
) -> Response:
    """An event names the document and its status, nothing that is in it. Goes on until the caller leaves."""
    last_id = checked_event_id(last_event_id)
    stream = until_stopping(request, _news(vault, team, last_id))
    return Stream(
        written(await anext(stream, None), stream), media_type="text/event-stream", headers=_HEADERS
    )


async def _news(vault: Vault, team: str, last_id: str) -> AsyncIterator[Event | None]:
    events, name = vault.engine.events_source, news_id(team)
    async with events.waiter(name) as waiter:
        resumed = bool(last_id)
        last_id = last_id or await vault.steps.newest_news(team)
        found, missed = await events.after(name, last_id)
        # Whoever missed something has to look at everything anew.
        yield Event(last_id, "hello", {"resumed": resumed and not missed})
        while True:
            for event in found:
                last_id = event.id
                yield event
            if not found:
                yield None
            await waiter.wait(_SILENCE_S)
            found, _ = await events.after(name, last_id)
