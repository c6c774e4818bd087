"""What has to be told to the planes by and by: callers that left, callers that may come back, objects to delete."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from quire.batching.bodies import BodyMemory
from quire.errors import CoordinationError, ObjectsError
from quire.objects.store import ObjectStore
from quire.queue.parse import ParseQueue

_LOG = logging.getLogger(__name__)
_RETRY_S = 0.5


class Chores:
    """Anybody adds to them; `run` does them as soon as it can, and again where a plane was away."""

    def __init__(
        self, queue: ParseQueue, objects: ObjectStore, memory: BodyMemory, in_hand: Callable[[str], bool]
    ) -> None:
        self._queue = queue
        self._objects = objects
        self._memory = memory
        self._in_hand = in_hand
        self._left: set[str] = set()
        self._kept: set[str] = set()
        self._unneeded: set[str] = set()
        self._due = asyncio.Event()

    def caller_left(self, request_id: str) -> None:
        """Nobody here waits for this request any more."""
        self._left.add(request_id)
        self._due.set()

    def caller_told(self, request_id: str) -> None:
        """Nobody here waits, but the caller was told how to ask again."""
        self._kept.add(request_id)
        self._due.set()

    def delete(self, object_keys: Collection[str]) -> None:
        if object_keys:
            self._unneeded.update(object_keys)
            self._due.set()

    async def run(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                await self.do()
            except (CoordinationError, ObjectsError) as error:
                _LOG.warning("the batcher's chores put off", extra={"code": error.code})
                await asyncio.sleep(_RETRY_S)
                self._due.set()

    async def do(self) -> None:
        """All that is due now. Raises CoordinationError or ObjectsError; what was not done stays due."""
        if self._kept:
            kept = set(self._kept)
            await self._queue.leave(kept, keep=True)
            self._kept -= kept
        if self._left:
            left = set(self._left)
            self.delete(await self._queue.leave(left, keep=False))
            for one in left:
                if not self._in_hand(one):
                    self._memory.drop(one)
            self._left -= left
        for key in list(self._unneeded):
            await self._objects.delete(key)
            self._unneeded.discard(key)
