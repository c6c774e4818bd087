"""The vault's documents over HTTP: list, state, reprocess, delete, and GET /documents/events as server-sent events."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response

from quire.api.http.auth import Team
from quire.api.http.caller_wait import until_stopping
from quire.api.http.error_responses import MediaTypeError, documented
from quire.api.http.request_bodies import media_type, read_json
from quire.api.http.responses import ClosingStream, json_answer
from quire.api.http.services import VaultDep
from quire.api.jobs.job_event_routes import checked_event_id, written
from quire.api.vault.document_views import (
    BulkView,
    CountsView,
    DocumentsView,
    DocumentView,
    OutcomeView,
    ReprocessView,
    Viewer,
)
from quire.api.vault.filter_params import Filters, read_query
from quire.coordination.job_events import JobEvent
from quire.coordination.vault_steps import vault_events_id
from quire.domain.vault_document import DocumentFilters, DocumentState, DocumentStatus, VaultDocument
from quire.errors import MissingError, RequestError
from quire.pipeline.vault.vault import Vault

events_router = APIRouter(tags=["vault"])

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_HEARTBEAT_S = 15.0


@events_router.get(
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
    """An event has the document's id and status, no content. The stream ends when the caller disconnects."""
    last_id = checked_event_id(last_event_id)
    async with vault.engine.events_source.starting:
        stream = until_stopping(request, _changes(vault, team, last_id))
        first = await anext(stream, None)
    return ClosingStream(written(first, stream), media_type="text/event-stream", headers=_HEADERS)


async def _changes(vault: Vault, team: str, last_id: str) -> AsyncIterator[JobEvent | None]:
    events, name = vault.engine.events_source, vault_events_id(team)
    async with events.waiter(name) as waiter:
        resumed = bool(last_id)
        last_id = last_id or await vault.steps.latest_event_id(team)
        found, missed = await events.after(name, last_id)
        # A client that missed events has to fetch everything again.
        yield JobEvent(last_id, "hello", {"resumed": resumed and not missed})
        while True:
            for event in found:
                last_id = event.id
                yield event
            if not found:
                yield None
            await waiter.wait(_HEARTBEAT_S)
            found, _ = await events.after(name, last_id)


router = APIRouter(tags=["vault"])

MOST_AT_ONCE = 500
_LONGEST_PASSWORD = 1_024
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RETRIABLE = (DocumentState.FAILED, DocumentState.STALE, DocumentState.NEEDS_CLASSIFICATION)


def viewer(vault: Vault) -> Viewer:
    return Viewer(vault.parts.clock.now(), vault.parts.settings.vault.stale_after_s)


def checked_id(document_id: str) -> str:
    """Returns the id. Raises MissingError if it can't be a document's id."""
    if not _ID.fullmatch(document_id):
        raise MissingError(f"There is no document {document_id[:60]!r}.")
    return document_id


async def document_of(vault: Vault, team: str, document_id: str) -> VaultDocument:
    """Returns the document. Raises MissingError, also for another team's document."""
    row = await vault.find(team, checked_id(document_id))
    if row is None:
        raise MissingError(f"There is no document {document_id!r}.")
    return row


async def shown(vault: Vault, rows: list[VaultDocument]) -> list[DocumentView]:
    """Returns views of the documents; pending ones have their progress."""
    view = viewer(vault)

    async def one(row: VaultDocument) -> DocumentView:
        progress = None
        if row.status is DocumentStatus.PENDING:
            job = await vault.conversion(row)
            progress = job.progress if job is not None else 0
        return view.document(row, progress)

    return list(await asyncio.gather(*map(one, rows)))


@router.get(
    "/documents",
    summary="Your vault, the newest first",
    response_model=DocumentsView,
    responses=documented(400, 401, 503),
)
async def documents(
    team: Team,
    vault: VaultDep,
    filters: Filters,
    *,
    q: Annotated[str | None, Query(description="All these words, unranked.", max_length=1_000)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[
        str | None, Query(description="`next_cursor` of the page before.", max_length=2_000)
    ] = None,
) -> Response:
    catalog = await vault.catalog()
    narrowed = replace(filters, text=read_query("q", q) or None)
    page = await catalog.list(team, narrowed, cursor=cursor or None, limit=limit)
    rows = await shown(vault, list(page.documents))
    return json_answer(DocumentsView(documents=rows, next_cursor=page.next_cursor))


@router.get(
    "/documents/counts",
    summary="How many documents are in each state",
    response_model=CountsView,
    responses=documented(401, 503),
)
async def counts(team: Team, vault: VaultDep) -> Response:
    catalog = await vault.catalog()
    found = await catalog.counts(team)
    numbers = {state.value: found.get(state, 0) for state in DocumentState}
    return json_answer(CountsView(counts=numbers, total=sum(numbers.values())))


@router.post(
    "/documents/reprocess",
    summary="Try many documents again",
    status_code=202,
    response_model=BulkView,
    responses=documented(400, 401, 413, 415, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"example": {"status": "needs_classification"}}},
        }
    },
)
async def reprocess_many(request: Request, team: Team, vault: VaultDep) -> Response:
    """`document_ids`, or `status` (`failed`, `stale`, `needs_classification`) for all documents in that state."""
    given = await _body(request, {"document_ids", "status"})
    if ("document_ids" in given) == ("status" in given):
        raise RequestError("Give either `document_ids` or `status`.")
    more = False
    if "status" in given:
        catalog = await vault.catalog()
        filters = DocumentFilters(state=_state(given["status"]))
        ids: list[str] = []
        cursor = None
        while len(ids) < MOST_AT_ONCE:
            page = await catalog.list(team, filters, cursor=cursor, limit=min(200, MOST_AT_ONCE - len(ids)))
            ids += [row.id for row in page.documents]
            cursor = page.next_cursor
            if cursor is None:
                break
        more = cursor is not None
    else:
        ids = _ids(given["document_ids"])
    results = []
    for document_id in ids:
        try:
            outcome = (await vault.reprocess(team, checked_id(document_id))).outcome
        except MissingError:
            outcome = "missing"
        results.append(OutcomeView(document_id=document_id, outcome=outcome))
    started = sum(one.outcome == "started" for one in results)
    return json_answer(BulkView(started=started, results=results, more=more), 202)


@router.get(
    "/documents/{document_id}",
    summary="One document",
    response_model=DocumentView,
    responses=documented(401, 404, 503),
)
async def document(document_id: str, team: Team, vault: VaultDep) -> Response:
    row = await document_of(vault, team, document_id)
    return json_answer((await shown(vault, [row]))[0])


@router.post(
    "/documents/{document_id}/reprocess",
    summary="Try a document again",
    status_code=202,
    response_model=ReprocessView,
    responses={
        200: {"model": ReprocessView, "description": "Nothing to do: the type is not supported."},
        **documented(400, 401, 404, 413, 415, 503),
    },
)
async def reprocess(document_id: str, request: Request, team: Team, vault: VaultDep) -> Response:
    """Concurrent requests start one attempt; while it runs, `outcome` is `running`."""
    given = await _body(request, {"password"})
    password = given.get("password")
    if password is not None and (not isinstance(password, str) or len(password) > _LONGEST_PASSWORD):
        raise RequestError(f"password: expected a text of at most {_LONGEST_PASSWORD} characters.")
    again = await vault.reprocess(team, checked_id(document_id), password or None)
    view = viewer(vault).reprocessed(again.document, again.outcome)
    return json_answer(view, 200 if again.outcome == "skipped" else 202)


@router.delete(
    "/documents/{document_id}",
    summary="Delete a document and every trace of it",
    status_code=204,
    response_class=Response,
    responses=documented(401, 404, 503),
)
async def delete(document_id: str, team: Team, vault: VaultDep) -> Response:
    await vault.delete(team, checked_id(document_id))
    return Response(status_code=204)


async def _body(request: Request, known: set[str]) -> dict[str, Any]:
    """Returns the fields of a JSON body; an empty dict without a body."""
    if request.headers.get("content-length", "") in ("", "0") and "transfer-encoding" not in request.headers:
        return {}
    if media_type(request) != "application/json":
        raise MediaTypeError("Send application/json, or no body.")
    given = await read_json(request)
    for name in given:
        if name not in known:
            raise RequestError(
                f"{name[:60]!r} is not a field of this request. There are: {', '.join(sorted(known))}."
            )
    return given


def _state(given: Any) -> DocumentState:
    try:
        state = DocumentState(given)
    except ValueError:
        state = None
    if state not in _RETRIABLE:
        raise RequestError(f"status: expected one of {', '.join(_RETRIABLE)}.")
    return state


def _ids(given: Any) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise RequestError("document_ids: expected a list of ids.")
    if not 0 < len(given) <= MOST_AT_ONCE:
        raise RequestError(f"document_ids: expected 1 to {MOST_AT_ONCE} of them.")
    return list(dict.fromkeys(given))
