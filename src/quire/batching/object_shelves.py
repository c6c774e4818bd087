"""Where objects of requests are put: on shelves that are emptied, whole, when nothing on them can be wanted any more.

A shelf is named in Redis before the first object is put on it. So whatever a killed process leaves behind between
writing an object and saying so, it goes with its shelf.
"""

from __future__ import annotations

import secrets

from quire.clock import Clock
from quire.coordination.parse_queue import ParseQueue
from quire.objects.object_store import ObjectStore

_SHELVES_A_TTL = 6
_LEAST_SPAN_S = 10.0
_KNOWN = 8


class Shelves:
    def __init__(self, queue: ParseQueue, objects: ObjectStore, clock: Clock, ttl_s: float) -> None:
        self._queue = queue
        self._objects = objects
        self._clock = clock
        self._ttl_s = ttl_s
        self._span_s = max(_LEAST_SPAN_S, ttl_s / _SHELVES_A_TTL)
        self._known: dict[str, None] = {}

    async def place(self, kind: str) -> str:
        """A key for a new object of this kind. Raises CoordinationError if its shelf can't be made known."""
        shelf = int(self._clock.now() // self._span_s)
        prefix = f"parse/{kind}/{shelf}"
        if prefix not in self._known:
            # An object is written within a span of getting its place, and wanted for a TTL from then.
            await self._queue.expect_shelf(prefix, (shelf + 2) * self._span_s + self._ttl_s)
            self._known[prefix] = None
            if len(self._known) > _KNOWN:
                del self._known[next(iter(self._known))]
        return f"{prefix}/{secrets.token_hex(12)}"

    async def empty(self) -> int:
        """Deletes what is on shelves whose time has come; how many objects that was. Any replica may, at any time."""
        removed = 0
        for prefix in await self._queue.expired_shelves():
            removed += await self._objects.delete_prefix(prefix)
            await self._queue.forget_shelf(prefix)
        return removed
