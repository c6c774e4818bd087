"""Accepts requests: writes their bodies to the object plane, then adds them to the queue.

Requests that arrive while earlier ones are being written share one object and one script call, so that many
requests share the flush and the round trip, and a single request does not wait for others.
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
_MAX_WRITERS = 4
_GROUP_BYTES = 4 << 20
_GROUP_REQUESTS = 128
_MIN_FOR_ANOTHER_WRITER = 32


@dataclass(frozen=True, slots=True)
class ParseSubmission:
    """A request that has not been accepted yet."""

    team: str
    filename: str
    priority: Priority
    key: str | None
    max_waiting: int
    body: Body


Group = list[tuple[ParseSubmission, asyncio.Future[Acceptance]]]


class ParseIntake:
    def __init__(
        self,
        queue: ParseQueue,
        objects: ObjectStore,
        shelves: Shelves,
        memory: BodyMemory,
        on_incoming: Callable[[], None],
        *,
        forms_batches: bool,
    ) -> None:
        """`on_incoming` is called just before requests are added to the queue."""
        self._queue = queue
        self._objects = objects
        self._shelves = shelves
        self._memory = memory
        self._on_incoming = on_incoming
        self._forms_batches = forms_batches
        self._pending: Group = []
        self._writing: set[asyncio.Task[None]] = set()

    async def accept(self, submission: ParseSubmission) -> Acceptance:
        """Adds the request to the queue. After `RequestAccepted` it is durable, and held in memory too if it fits.

        Raises ObjectsError or CoordinationError. Cancelling the caller does not stop a write that has begun; the
        request is then in the queue without a caller.
        """
        future: asyncio.Future[Acceptance] = asyncio.get_running_loop().create_future()
        self._pending.append((submission, future))
        # A single request is written at once; another writer starts only for many requests.
        if not self._writing or (
            len(self._writing) < _MAX_WRITERS and len(self._pending) >= _MIN_FOR_ANOTHER_WRITER
        ):
            task = asyncio.create_task(self._write_pending(), name="parse-intake")
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)
        return await future

    async def close(self) -> None:
        """Returns when every submitted request has its answer."""
        while self._writing:
            await asyncio.wait(set(self._writing))

    async def _write_pending(self) -> None:
        while self._pending and (len(self._writing) == 1 or len(self._pending) >= _MIN_FOR_ANOTHER_WRITER):
            group = self._next_group()
            try:
                await self._write(group)
            except Exception as error:
                if not isinstance(error, CoordinationError | ObjectsError):
                    _LOG.exception("requests could not be accepted")
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
        # Not left to the callback: a request submitted before the callback runs would rely on a writer that has ended.
        current = asyncio.current_task()
        if current is not None:
            self._writing.discard(current)

    def _next_group(self) -> Group:
        """Returns the requests for one object: bodies in memory up to a limit, or one that already has its object."""
        size = count = 0
        for submission, _ in self._pending[:_GROUP_REQUESTS]:
            spilled = submission.body.data is None
            if count and (spilled or size + submission.body.size > _GROUP_BYTES):
                break
            size += submission.body.size
            count += 1
            if spilled:
                break
        group, self._pending = self._pending[:count], self._pending[count:]
        return group

    async def _write(self, group: Group) -> None:
        bodies = [submission.body for submission, _ in group]
        key = bodies[0].object_key or await self._stored(bodies)
        for body in bodies:
            # Before the call: a batch may claim the request before the call returns.
            if body.data is not None:
                self._memory.hold(body.request_id, body.data)
        try:
            self._on_incoming()
            answers = await self._queue.accept(key, _requests(group), forms_batches=self._forms_batches)
        except BaseException:
            for body in bodies:
                self._memory.drop(body.request_id)
            raise
        for (submission, future), answer in zip(group, answers, strict=True):
            if not isinstance(answer, RequestAccepted):
                self._memory.drop(submission.body.request_id)
            if not future.done():
                future.set_result(answer)
        if not any(isinstance(answer, RequestAccepted) for answer in answers):
            with suppress(ObjectsError):  # then it is deleted with its shelf
                await self._objects.delete(key)

    async def _stored(self, bodies: list[Body]) -> str:
        """Writes the bodies to one object and returns its key. On failure their memory is released."""
        try:
            key = await self._shelves.new_key("bodies")
            await self._objects.put(key, b"".join(body.data or b"" for body in bodies))
        except BaseException:
            self._memory.release(sum(body.size for body in bodies))
            raise
        return key


def _requests(group: Group) -> list[NewRequest]:
    """The bodies are stored in their object one after the other."""
    requests, offset = [], 0
    for submission, _ in group:
        body = submission.body
        requests.append(
            NewRequest(
                id=body.request_id,
                team=submission.team,
                filename=submission.filename,
                priority=submission.priority,
                offset=offset,
                length=body.size,
                key=submission.key,
                max_waiting=submission.max_waiting,
            )
        )
        offset += body.size
    return requests
