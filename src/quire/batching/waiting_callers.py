"""The callers that wait in this process; delivers results to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quire.coordination.parse_queue import ParseQueue
from quire.coordination.parse_requests import RequestState
from quire.errors import CoordinationError, MissingError, QuireError
from quire.objects.object_store import ObjectStore

_LOG = logging.getLogger(__name__)
_REFRESHED_AT_ONCE = 256
_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class ParseResult:
    """A result: `fragment` is the JSON text of `results` and `metadata` in the response."""

    request_id: str
    filename: str
    seconds: float
    finished_at: float
    fragment: bytes


@dataclass(frozen=True, slots=True)
class Failed:
    request_id: str
    error: dict[str, Any]


ParseOutcome = ParseResult | Failed


@dataclass(slots=True)
class _Waiting:
    team: str
    futures: list[asyncio.Future[ParseOutcome | None]]
    accepted: bool = False  # before that there is no record in Redis


def lost_request() -> CoordinationError:
    """The error for a caller whose request the coordination server no longer has."""
    return CoordinationError(
        "The coordination server has lost the request before it was read. Send it again.",
        retry_after_s=_AGAIN_S,
    )


class Waiters:
    def __init__(self, queue: ParseQueue, objects: ObjectStore) -> None:
        self._queue = queue
        self._objects = objects
        self._waiting: dict[str, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._waiting

    def ids(self) -> list[str]:
        return list(self._waiting)

    def join(self, team: str, request_id: str) -> asyncio.Future[ParseOutcome | None]:
        """Adds a caller; the future gets its result."""
        future: asyncio.Future[ParseOutcome | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(request_id, _Waiting(team, [])).futures.append(future)
        return future

    def accepted(self, request_id: str) -> None:
        """Notes that the request has a record in Redis."""
        waiting = self._waiting.get(request_id)
        if waiting is not None:
            waiting.accepted = True

    def leave(self, request_id: str, future: asyncio.Future[ParseOutcome | None]) -> bool:
        """Removes a caller; True if it was the request's last one and has got no result."""
        waiting = self._waiting.get(request_id)
        if waiting is None or future not in waiting.futures:
            return False
        waiting.futures.remove(future)
        if waiting.futures:
            return False
        del self._waiting[request_id]
        return not future.done() or future.cancelled() or future.result() is None

    def deliver(self, settled: ParseOutcome) -> None:
        """Gives the result to all callers of its request."""
        waiting = self._waiting.pop(settled.request_id, None)
        for future in waiting.futures if waiting else ():
            if not future.done():
                future.set_result(settled)

    async def refresh(self, ids: Sequence[str]) -> None:
        """Reads the status of these requests and delivers those that another replica has finished."""
        known = ((one, self._waiting.get(one)) for one in ids)
        wanted = [(one, found.team) for one, found in known if found is not None and found.accepted]
        for at in range(0, len(wanted), _REFRESHED_AT_ONCE):
            some = wanted[at : at + _REFRESHED_AT_ONCE]
            found = await asyncio.gather(*(self._queue.attach(team, one, wait=False) for one, team in some))
            for (request_id, _), seen in zip(some, found, strict=True):
                if seen is None:
                    # Its record is kept longer than any caller waits: the server has lost its data.
                    self.deliver(Failed(request_id, lost_request().as_dict()))
            await self._deliver_seen([seen for seen in found if seen is not None and seen.over])

    async def outcome_of(self, seen: RequestState) -> ParseOutcome:
        """Returns the result of a finished request. Raises ObjectsError, or MissingError if it has expired."""
        if seen.state == "e":
            return Failed(seen.id, seen.error or QuireError("The image could not be read.").as_dict())
        pieces = [
            piece
            async for piece in self._objects.stream(
                seen.object_key, start=seen.offset, end=seen.offset + seen.length
            )
        ]
        return ParseResult(seen.id, seen.filename, seen.seconds, seen.finished_at, b"".join(pieces))

    async def _deliver_seen(self, over: list[RequestState]) -> None:
        outcomes = await asyncio.gather(*(self.outcome_of(one) for one in over), return_exceptions=True)
        for seen, outcome in zip(over, outcomes, strict=True):
            if isinstance(outcome, QuireError):
                # Its callers go on waiting: the next refresh tries again.
                _LOG.warning(
                    "a result could not be fetched", extra={"parse_id": seen.id, "code": outcome.code}
                )
                if isinstance(outcome, MissingError):
                    self.deliver(Failed(seen.id, outcome.as_dict()))
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                self.deliver(outcome)
