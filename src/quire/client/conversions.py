"""Conversions: a document goes in, is followed, and its Markdown comes out.

Also parses the server-sent events of a job.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from quire.client import service_calls
from quire.client.direct_upload import direct_source
from quire.client.exceptions import (
    JobFailedError,
    RefusedError,
    TookTooLongError,
    UnreachableError,
    UnreadableError,
)
from quire.client.records import OVER, Conversion, Event, PageDone, Result, read, rows
from quire.client.service_calls import ServiceCall, Source
from quire.client.transport import Retrying, Transport

_LONGEST_EVENT = 8 << 20


class EventReader:
    """Takes bytes, gives events. Holds only the event that is not whole yet."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[Event]:
        """The events that are whole now. Raises UnreadableError for what no service of ours sends."""
        *blocks, self._rest = (self._rest + piece).replace(b"\r\n", b"\n").split(b"\n\n")
        if len(self._rest) > _LONGEST_EVENT:
            raise UnreadableError("The service sent an event without an end.")
        return [event for block in blocks if (event := _event(block)) is not None]


def _event(block: bytes) -> Event | None:
    """None for a comment, which only keeps the connection alive."""
    fields: dict[str, str] = {}
    for line in block.decode("utf-8", "replace").split("\n"):
        name, _, value = line.partition(":")
        if name:
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value
    if "data" not in fields:
        return None
    try:
        data = json.loads(fields["data"])
    except ValueError as error:
        raise UnreadableError("The service sent an event that can't be understood.") from error
    if not isinstance(data, dict):
        raise UnreadableError("The service sent an event that can't be understood.")
    return Event(fields.get("id", ""), fields.get("event", "message"), data)


OnPage = Callable[[PageDone], Awaitable[None] | None]
"""Called once for each page when it is done, also for pages that were done before the call."""

_HELD_S = 30.0
_PAGES_AT_ONCE = 1_000


class Conversions:
    """What `AsyncQuire` does with conversions; it has the words for users."""

    def __init__(self, transport: Transport, retrying: Retrying) -> None:
        self._transport = transport
        self._retrying = retrying

    async def hand_in(
        self, source: Source, name: str | None, fields: dict[str, Any], key: str | None, held_s: float
    ) -> Conversion:
        """With `held_s` the service may answer with the result at once, if it is ready by then."""
        wait = {"wait": held_s} if held_s > 0 else {}
        source = await direct_source(self._transport, source, name) or source
        call = service_calls.submitting("/convert", source, name, fields, key, **wait)
        try:
            answer = await self._transport.ask(call)
        except RefusedError as error:
            if error.body.get("job_id"):  # taken in, and failed while we were held
                raise JobFailedError(str(error.body["job_id"]), error.body) from error
            raise
        found = answer.json()
        if not isinstance(found, dict):
            raise UnreadableError("What answered is not Quire. Check the address.")
        if "result" in found:
            whole = result_of(found)
            return Conversion(whole.job_id, "completed", False, whole.markdown, whole.metadata)
        return read(Conversion, found)

    async def finished(
        self, accepted: Conversion, timeout_s: float | None, on_page: OnPage | None
    ) -> Conversion:
        """Raises JobFailedError, or TookTooLongError if it is not over in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._followed(accepted.job_id, on_page)
                found = await self.result(accepted.job_id)
        except TimeoutError:
            raise TookTooLongError(accepted.job_id, timeout_s or 0.0) from None
        return Conversion(accepted.job_id, "completed", accepted.deduplicated, found.markdown, found.metadata)

    async def result(self, job_id: str) -> Result:
        return result_of(
            (await self._transport.ask(service_calls.get("jobs", job_id, "result", format="json"))).json()
        )

    async def events(self, job_id: str, last_id: str) -> AsyncGenerator[Event, None]:
        """Up to the job's end; taken up where it was after a lost connection or a restart of the service."""
        broken = 0
        while True:
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
            call = ServiceCall("GET", service_calls.path("jobs", job_id, "events"), headers=headers)
            error = UnreachableError("The service keeps ending the events of a job that is not over.")
            async with self._transport.stream(call) as stream:
                if stream.status == 204:
                    return
                reader = EventReader()
                try:
                    async with aclosing(stream.pieces()) as pieces:
                        async for piece in pieces:
                            for event in reader.feed(piece):
                                broken, last_id = 0, event.id or last_id
                                yield event
                                if event.data.get("status") in OVER:
                                    return
                except UnreachableError as lost:
                    error = lost
            broken += 1
            wait_s = self._retrying.wait_s(broken, error)
            if wait_s is None:
                raise error
            await asyncio.sleep(wait_s)

    async def _followed(self, job_id: str, on_page: OnPage | None) -> None:
        told: set[int] = set()
        last: dict[str, Any] = {}
        async with aclosing(self.events(job_id, "")) as events:
            async for event in events:
                last |= event.data
                if on_page is None:
                    continue
                if event.type == "snapshot":
                    await self._tell_all(job_id, told, on_page)
                for page in event.data.get("pages") or ():
                    await _tell(_done(job_id, page, "number"), told, on_page)
        if last.get("status") in ("failed", "cancelled"):
            error = last.get("error") or (
                await self._transport.ask(service_calls.get("jobs", job_id))
            ).json().get("error")
            raise JobFailedError(job_id, error or {"error": "The job was cancelled.", "code": "cancelled"})
        if on_page is not None and len(told) < (last.get("total_pages") or 0):
            await self._tell_all(job_id, told, on_page)

    async def _tell_all(self, job_id: str, told: set[int], on_page: OnPage) -> None:
        """For what happened before we listened."""
        offset = 0
        while True:
            call = service_calls.get("jobs", job_id, "pages", offset=offset, limit=_PAGES_AT_ONCE)
            pages = rows((await self._transport.ask(call)).json(), "pages")
            for page in pages:
                await _tell(_done(job_id, page, "page_number"), told, on_page)
            offset += len(pages)
            if len(pages) < _PAGES_AT_ONCE:
                return


def _done(job_id: str, page: dict[str, Any], number: str) -> PageDone:
    """A page of an event, which leaves out what there is nothing to say of, or of `/jobs/{id}/pages`."""
    return PageDone(
        page[number],
        f"{job_id}-p{page[number]}",
        page.get("status", ""),
        page.get("source"),
        page.get("grade"),
        page.get("confidence"),
        page.get("words_missing", 0),
        page.get("ungrounded", 0),
        page.get("ungrounded_numbers", 0),
    )


async def _tell(page: PageDone, told: set[int], on_page: OnPage) -> None:
    if page.status not in ("completed", "failed") or page.number in told:
        return
    told.add(page.number)
    heard = on_page(page)
    if inspect.isawaitable(heard):
        await heard


def result_of(found: Any) -> Result:
    """Raises UnreadableError."""
    try:
        inner = found["result"]
        return Result(found["job_id"], inner["markdown"], inner["metadata"])
    except (KeyError, TypeError) as error:
        raise UnreadableError(
            "The service's answer is not a result. Check the versions of both sides."
        ) from error


def held_s(timeout_s: float | None) -> float:
    """How long the service may hold the first call: short documents need no second one."""
    return min(_HELD_S, timeout_s) if timeout_s is not None else _HELD_S
