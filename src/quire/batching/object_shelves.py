"""Keys for the objects of parse requests, grouped by time into shelves (key prefixes) that expire as a whole.

A shelf is registered in Redis before its first object is written. An orphan object of a killed process is therefore
deleted with its shelf.
"""

from __future__ import annotations

import secrets

from quire.clock import Clock
from quire.coordination.parse_queue import ParseQueue
from quire.objects.object_store import ObjectStore

_SHELVES_PER_TTL = 6
_MIN_SPAN_S = 10.0
_KNOWN = 8


class Shelves:
    def __init__(self, queue: ParseQueue, objects: ObjectStore, clock: Clock, ttl_s: float) -> None:
        self._queue = queue
        self._objects = objects
        self._clock = clock
        self._ttl_s = ttl_s
        self._span_s = max(_MIN_SPAN_S, ttl_s / _SHELVES_PER_TTL)
        self._known: dict[str, None] = {}

    async def new_key(self, kind: str) -> str:
        """Returns a key for a new object of this kind. Raises CoordinationError if its shelf can't be registered."""
        shelf = int(self._clock.now() // self._span_s)
        prefix = f"parse/{kind}/{shelf}"
        if prefix not in self._known:
            # An object is written within one span of getting its key, and is needed for a TTL after that.
            await self._queue.register_shelf(prefix, (shelf + 2) * self._span_s + self._ttl_s)
            self._known[prefix] = None
            if len(self._known) > _KNOWN:
                del self._known[next(iter(self._known))]
        return f"{prefix}/{secrets.token_hex(12)}"

    async def delete_expired(self) -> int:
        """Deletes the objects of expired shelves and returns their number. Any replica may call it at any time."""
        removed = 0
        for prefix in await self._queue.expired_shelves():
            removed += await self._objects.delete_prefix(prefix)
            await self._queue.forget_shelf(prefix)
        return removed
