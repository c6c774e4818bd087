"""A job's events: stored in its stream; one subscription for each process wakes the waiters."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from redis.asyncio.client import PubSub

from quire.coordination.connection import RedisConnection, end_if_cancelled, pairs
from quire.coordination.keys import JobKeys
from quire.errors import CoordinationCommandError, CoordinationError

_LOG = logging.getLogger(__name__)
_WAKE_ANYWAY_S = 5.0
_WOKEN_AT_ONCE = 25
_WAKE_PAUSE_S = 0.002
_STARTED_AT_ONCE = 25
_PAGES = "pages"
"""The message of an event about pages; the message of the others is their type too."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    id: str
    type: str
    data: dict[str, Any]


class Events:
    """Wakes waiters through one subscription; events are read from the stream, so none is missed."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._waiters: dict[str, set[asyncio.Event]] = {}
        self._ignore_pages: set[asyncio.Event] = set()
        self._reads: dict[tuple[str, str], asyncio.Task[tuple[list[JobEvent], bool]]] = {}
        self._changed = asyncio.Event()
        self.starting = asyncio.Semaphore(_STARTED_AT_ONCE)
        """Held while a follower reads its first event: thousands at once would fill every turn of the loop."""

    async def run(self) -> None:
        """The subscription; runs until cancelled and comes back after a lost connection."""
        while True:
            try:
                async with self._connection.subscription() as pubsub:
                    await self._listen(pubsub)
            except (CoordinationError, CoordinationCommandError) as error:
                cause = type(error.__cause__).__name__
                _LOG.warning("event subscription lost", extra={"error_class": cause})
                self._wake_all()
                await asyncio.sleep(0.2)

    async def after(self, job_id: str, last_id: str) -> tuple[list[JobEvent], bool]:
        """Events after last_id, and whether some between may have been trimmed away.

        Callers that ask for the same in the same moment share one read: hundreds may follow one job.
        """
        asked = (job_id, last_id)
        read = self._reads.get(asked)
        if read is None:
            read = self._reads[asked] = asyncio.create_task(self._read(job_id, last_id), name="event-read")
            read.add_done_callback(_retrieved)
        return await asyncio.shield(read)

    async def _read(self, job_id: str, last_id: str) -> tuple[list[JobEvent], bool]:
        await asyncio.sleep(0)
        # From here on it may miss an event that a later caller was woken for.
        del self._reads[(job_id, last_id)]
        key = JobKeys.of(job_id).events
        rows, first = await self._connection.commands(
            [
                ("XRANGE", key, f"({last_id}" if last_id else "-", "+", "COUNT", 500),
                ("XRANGE", key, "-", "+", "COUNT", 1),
            ]
        )
        events = [_event(entry_id, fields) for entry_id, fields in rows]
        missed = bool(last_id) and bool(first) and _order(first[0][0]) > _order(last_id)
        return events, missed or (bool(last_id) and not first)

    @asynccontextmanager
    async def waiter(self, job_id: str, *, ignores_pages: bool = False) -> AsyncIterator[Waiter]:
        """`ignores_pages`: events of single pages don't wake it."""
        channel = JobKeys.of(job_id).events
        flag = asyncio.Event()
        known = self._waiters.setdefault(channel, set())
        known.add(flag)
        if ignores_pages:
            self._ignore_pages.add(flag)
        self._changed.set()
        try:
            yield Waiter(flag)
        finally:
            known.discard(flag)
            self._ignore_pages.discard(flag)
            if not known:
                self._waiters.pop(channel, None)
                self._changed.set()

    async def _listen(self, pubsub: PubSub) -> None:
        subscribed: set[str] = set()
        while True:
            # Cleared before the waiters are read: one that joins while we subscribe is seen in the next iteration.
            self._changed.clear()
            wanted = set(self._waiters)
            if wanted - subscribed:
                await pubsub.subscribe(*(wanted - subscribed))
            if subscribed - wanted:
                await pubsub.unsubscribe(*(subscribed - wanted))
            end_if_cancelled()
            self._wake(wanted - subscribed)
            subscribed = wanted
            if not subscribed:
                await self._changed.wait()
                continue
            await self._next_message(pubsub)

    async def _next_message(self, pubsub: PubSub) -> None:
        message = asyncio.create_task(_message(pubsub), name="event-message")
        changed = asyncio.create_task(self._changed.wait(), name="event-waiters-changed")
        try:
            await asyncio.wait({message, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            message.cancel()
            changed.cancel()
            # Only their cancellation is absorbed here; one of this task itself must propagate, or it never stops.
            await asyncio.wait({message, changed})
        if not message.cancelled():
            found = message.result()
            if found and found["type"] == "message":
                ignored = self._ignore_pages if found["data"] == _PAGES else set()
                self._wake({found["channel"]}, ignored)

    def _wake(self, channels: set[str], ignored: Collection[asyncio.Event] = ()) -> None:
        """Some in each turn of the event loop, so that other requests are served between thousands of waiters."""
        flags = [
            flag for channel in channels for flag in self._waiters.get(channel, ()) if flag not in ignored
        ]
        _set_some(flags)

    def _wake_all(self) -> None:
        self._wake(set(self._waiters))


def _set_some(flags: list[asyncio.Event], due: float | None = None) -> None:
    """Sets the first flags now and the others later; where the loop is late, it gets as much time for other work."""
    for flag in flags[:_WOKEN_AT_ONCE]:
        flag.set()
    if len(flags) > _WOKEN_AT_ONCE:
        loop = asyncio.get_running_loop()
        late_s = 0.0 if due is None else max(0.0, loop.time() - due)
        at = loop.time() + _WAKE_PAUSE_S + late_s
        loop.call_at(at, _set_some, flags[_WOKEN_AT_ONCE:], at)


def _retrieved(read: asyncio.Task[Any]) -> None:
    """The callers of a shared read may all have left; its error must not cause a warning then."""
    if not read.cancelled():
        read.exception()


class Waiter:
    def __init__(self, flag: asyncio.Event) -> None:
        self._flag = flag

    async def wait(self, timeout_s: float) -> None:
        """Returns when an event may have arrived, and after a few seconds at the latest."""
        with suppress(TimeoutError):
            # Not all at the same moment, although they may have come together.
            spread_s = _WAKE_ANYWAY_S * random.uniform(0.7, 1.3)  # noqa: S311 - no secret
            async with asyncio.timeout(min(timeout_s, spread_s)):
                await self._flag.wait()
        self._flag.clear()


async def _message(pubsub: PubSub) -> Any:
    return await pubsub.get_message(ignore_subscribe_messages=True, timeout=_WAKE_ANYWAY_S)


def _event(entry_id: str, flat: Any) -> JobEvent:
    fields = pairs(flat)
    return JobEvent(entry_id, fields["t"], json.loads(fields["d"]))


def _order(entry_id: str) -> tuple[int, int]:
    milliseconds, _, sequence = entry_id.partition("-")
    return int(milliseconds), int(sequence or 0)
