"""Acceptance: bodies that come in at the same moment are made durable together, then counted as accepted.

One object and one script call for all that waited while the ones before were being written, so that the disk's
flush and the round trip are shared when many come, and a lone request waits for nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from quire.batching.body_memory import Body, BodyMemory
from quire.batching.object_shelves import Shelves
from quire.coordination.parse_queue import ParseQueue
from quire.coordination.parse_requests import Acceptance, NewRequest, Priority, RequestAccepted
from quire.errors import CoordinationError, ObjectsError
from quire.objects.object_store import ObjectStore

_LOG = logging.getLogger(__name__)
_AT_ONCE = 4
_GROUP_BYTES = 4 << 20
_GROUP_REQUESTS = 128
_WORTH_ANOTHER = 32


@dataclass(frozen=True, slots=True)
class Application:
    """A request that wants to be accepted."""

    team: str
    filename: str
    priority: Priority
    key: str | None
    most_waiting: int
    body: Body


Group = list[tuple[Application, asyncio.Future[Acceptance]]]


class ParseIntake:
    def __init__(
        self,
        queue: ParseQueue,
        objects: ObjectStore,
        shelves: Shelves,
        memory: BodyMemory,
        coming: Callable[[], None],
        *,
        forms_batches: bool,
    ) -> None:
        """`coming` is told of requests that will be in the queue when whatever is sent to it next gets there."""
        self._queue = queue
        self._objects = objects
        self._shelves = shelves
        self._memory = memory
        self._coming = coming
        self._forms_batches = forms_batches
        self._pending: Group = []
        self._writing: set[asyncio.Task[None]] = set()

    async def accept(self, application: Application) -> Acceptance:
        """Durable when it answers `Taken`; then the body is held in memory too, if it fits.

        Raises ObjectsError or CoordinationError when a plane is out of reach. Cancelling the caller does not
        stop what is being written; the request is then there without anybody waiting for it.
        """
        future: asyncio.Future[Acceptance] = asyncio.get_running_loop().create_future()
        self._pending.append((application, future))
        # A lone one waits for nobody; the more are being written, the more have to come together for another.
        if not self._writing or (len(self._writing) < _AT_ONCE and len(self._pending) >= _WORTH_ANOTHER):
            task = asyncio.create_task(self._write_pending(), name="parse-intake")
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)
        return await future

    async def close(self) -> None:
        """Returns when everything that came in has been answered."""
        while self._writing:
            await asyncio.wait(set(self._writing))

    async def _write_pending(self) -> None:
        while self._pending and (len(self._writing) == 1 or len(self._pending) >= _WORTH_ANOTHER):
            group = self._next_group()
            try:
                await self._write(group)
            except Exception as error:
                if not isinstance(error, CoordinationError | ObjectsError):
                    _LOG.exception("requests could not be accepted")
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
        # Not left to the callback: a request that comes before that runs would count on a writer that is over.
        current = asyncio.current_task()
        if current is not None:
            self._writing.discard(current)

    def _next_group(self) -> Group:
        """What goes into one object: bodies in memory up to a bound, or a single one that has its object already."""
        size = count = 0
        for application, _ in self._pending[:_GROUP_REQUESTS]:
            spilled = application.body.data is None
            if count and (spilled or size + application.body.size > _GROUP_BYTES):
                break
            size += application.body.size
            count += 1
            if spilled:
                break
        group, self._pending = self._pending[:count], self._pending[count:]
        return group

    async def _write(self, group: Group) -> None:
        bodies = [application.body for application, _ in group]
        key = bodies[0].object_key or await self._stored(bodies)
        for body in bodies:
            # Before anybody else knows of it: a batch may have been claimed with it before the call is answered.
            if body.data is not None:
                self._memory.hold(body.request_id, body.data)
        try:
            self._coming()
            answers = await self._queue.accept(key, _requests(group), forms_batches=self._forms_batches)
        except BaseException:
            for body in bodies:
                self._memory.drop(body.request_id)
            raise
        for (application, future), answer in zip(group, answers, strict=True):
            if not isinstance(answer, RequestAccepted):
                self._memory.drop(application.body.request_id)
            if not future.done():
                future.set_result(answer)
        if not any(isinstance(answer, RequestAccepted) for answer in answers):
            with suppress(ObjectsError):  # then it goes with its shelf
                await self._objects.delete(key)

    async def _stored(self, bodies: list[Body]) -> str:
        """The object that has them all, synced. Where there is none, their room in the memory is given back."""
        try:
            key = await self._shelves.place("bodies")
            await self._objects.put(key, b"".join(body.data or b"" for body in bodies))
        except BaseException:
            self._memory.release(sum(body.size for body in bodies))
            raise
        return key


def _requests(group: Group) -> list[NewRequest]:
    """The bodies lie in their object one after the other."""
    requests, offset = [], 0
    for application, _ in group:
        body = application.body
        requests.append(
            NewRequest(
                id=body.request_id,
                team=application.team,
                filename=application.filename,
                priority=application.priority,
                offset=offset,
                length=body.size,
                key=application.key,
                most_waiting=application.most_waiting,
            )
        )
        offset += body.size
    return requests
