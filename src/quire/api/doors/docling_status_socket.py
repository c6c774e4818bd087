"""`WS /v1/status/ws/{task_id}` of docling-serve: the status of a task, sent when it changes and when it is asked for.

docling's own client asks again after every message, so a question about an unchanged task is answered after a moment.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse

from quire.api.doors.docling_routes import task_view
from quire.api.http.auth import given_key, team_with_key
from quire.api.http.error_responses import status_of
from quire.api.http.request_log import log_request
from quire.api.http.services import Services, services
from quire.domain.document_batch import DocumentBatch
from quire.errors import MissingError, PlaneError, QuireError
from quire.pipeline.document_batches import DocumentBatches

router = APIRouter()

_PATH = "/v1/status/ws/{task_id}"
_ENDED = ("success", "failure")
_SAME_AGAIN_S = 1.0
_LONGEST_SILENCE_S = 60.0
_BUSY = "Server is busy, please try again shortly."
_NOT_FOUND = "Task not found."  # docling's client branches on this text


@router.websocket(_PATH)
async def docling_status_socket(
    socket: WebSocket, task_id: str, api_key: Annotated[str, Query()] = ""
) -> None:
    """The key comes in a header, or as `api_key` in the query, as docling-serve takes it."""
    held = services(socket)
    clock = held.runtime.parts.clock
    began = clock.monotonic()
    status = 101
    try:
        given = given_key(socket) or api_key.encode("utf-8", "replace") or None
        team = await team_with_key(socket, given)
        await socket.accept()
        with suppress(
            WebSocketDisconnect, RuntimeError
        ):  # RuntimeError: the caller left while we were sending
            await _follow(socket, held, team, task_id)
    except QuireError as error:
        status = status_of(error)
        await socket.send_denial_response(JSONResponse({"detail": error.public}, status))
    finally:
        log_request("GET", _PATH, status, clock.monotonic() - began)


async def _follow(socket: WebSocket, held: Services, team: str, task_id: str) -> None:
    follower = _TaskFollower(socket, held)
    try:
        batch = await follower.batches.find(team, task_id)
        await follower.send("connection", await follower.status(batch))
        async with _listening(socket) as heard:
            await follower.run(batch, heard)
    except MissingError:
        await _fail(socket, _NOT_FOUND)
    except PlaneError:
        await _fail(socket, _BUSY)
    await socket.close()


class _Heard:
    """What came from the caller: `asks` is set by every message, `left` when it is gone."""

    def __init__(self) -> None:
        self.asks = asyncio.Event()
        self.left = asyncio.Event()


class _TaskFollower:
    def __init__(self, socket: WebSocket, held: Services) -> None:
        self._socket = socket
        self._services = held
        self.batches = DocumentBatches(held.runtime.parts)

    async def status(self, batch: DocumentBatch) -> dict[str, Any]:
        return await task_view(self._services, batch, await self.batches.progress(batch))

    async def send(self, message: str, task: dict[str, Any]) -> None:
        await self._socket.send_text(json.dumps({"message": message, "task": task, "error": None}))

    async def run(self, batch: DocumentBatch, heard: _Heard) -> None:
        """Sends updates until the task has ended, the caller has left, or the service stops."""
        task = await self.status(batch)
        await self.send("update", task)
        while task["task_status"] not in _ENDED and not (heard.left.is_set() or self._stops):
            before, was_asked = task, heard.asks.is_set()
            heard.asks.clear()
            await self._next_news(batch, heard, _SAME_AGAIN_S if was_asked else _LONGEST_SILENCE_S)
            task = await self.status(batch)
            if not heard.left.is_set() and (was_asked or task != before):
                await self.send("update", task)

    @property
    def _stops(self) -> bool:
        return self._services.stopping.is_set()

    async def _next_news(self, batch: DocumentBatch, heard: _Heard, longest_s: float) -> None:
        """Returns when a document may have changed, the caller asks or leaves, or the service stops."""
        progress = await self.batches.progress(batch)
        running = [one.item.job_id for one in progress.items if one.status in ("queued", "processing")]
        job_id = running[0] if running else batch.job_ids[0]
        async with self._services.runtime.engine.events_source.waiter(str(job_id)) as waiter:
            waits = [waiter.wait(longest_s), heard.left.wait(), self._services.stopping.wait()]
            if longest_s > _SAME_AGAIN_S:
                waits.append(heard.asks.wait())
            tasks = [asyncio.ensure_future(one) for one in waits]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in tasks:
                    one.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _listening(socket: WebSocket) -> AsyncIterator[_Heard]:
    heard = _Heard()

    async def listen() -> None:
        try:
            while True:
                message = await socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                heard.asks.set()
        finally:
            heard.left.set()

    listening = asyncio.create_task(listen(), name="docling-status-socket")
    try:
        yield heard
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _fail(socket: WebSocket, text: str) -> None:
    await socket.send_text(json.dumps({"message": "error", "task": None, "error": text}))
