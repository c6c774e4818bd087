"""The API keys of the catalog, as requests are checked against them.

A key is looked up at most once in a few seconds, so a revoked key is refused after that time at the latest. While the
catalog is unavailable, keys that were seen before are honoured until then, and all others get 503.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from contextlib import suppress

from quire.bootstrap import Runtime
from quire.coordination.session_records import SessionRecords
from quire.domain.access_key import AccessKey, digest_of, id_of
from quire.errors import CatalogError

_GOOD_FOR_S = 5.0
_MOST_REMEMBERED = 10_000
_USED_EVERY_S = 60.0


class KeyRing:
    """Belongs to one application."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._clock = runtime.parts.clock
        self._records = SessionRecords(runtime.connection, self._clock)
        self._seen: OrderedDict[str, tuple[float, AccessKey | None]] = OrderedDict()
        self._used: dict[str, float] = {}

    async def find(self, given: str) -> AccessKey | None:
        """Returns the key if it is known and valid. Raises CatalogError when the catalog is out of reach."""
        key_id = id_of(given)
        if key_id is None or self._is_empty():
            return None
        found = await self._look_up(key_id)
        if found is None or not hmac.compare_digest(found.digest, digest_of(given)):
            return None
        now = self._clock.now()
        if not found.valid_at(now):
            return None
        await self._note_use(found, now)
        return found

    async def wait_s(self, key: AccessKey) -> float:
        """Counts a request of the key; 0 if it is allowed, else the seconds until the next one is."""
        if not key.requests_per_minute:
            return 0.0
        return await self._records.attempt(f"key:{key.id}", key.requests_per_minute)

    def forget(self, key_id: str) -> None:
        """Looks the key up again at its next use: it was revoked by this process."""
        self._seen.pop(key_id, None)

    def _is_empty(self) -> bool:
        """Whether there is no catalog yet: opening it would make one."""
        settings = self._runtime.settings
        if self._runtime.catalog is None:
            return True
        return not settings.catalog.database_url and not settings.catalog_file.exists()

    async def _look_up(self, key_id: str) -> AccessKey | None:
        now = self._clock.monotonic()
        seen = self._seen.get(key_id)
        if seen is not None and now - seen[0] < _GOOD_FOR_S:
            return seen[1]
        shared = self._runtime.catalog
        assert shared is not None  # noqa: S101 - see _is_empty
        found = await (await shared.open_once()).keys.get(key_id)
        self._seen[key_id] = (now, found)
        self._seen.move_to_end(key_id)
        while len(self._seen) > _MOST_REMEMBERED:
            self._seen.popitem(last=False)
        return found

    async def _note_use(self, key: AccessKey, now: float) -> None:
        """Writes the time of use once a minute, not with every request."""
        if now - self._used.get(key.id, 0.0) < _USED_EVERY_S:
            return
        self._used[key.id] = now
        shared = self._runtime.catalog
        assert shared is not None  # noqa: S101 - see _is_empty
        with suppress(CatalogError):  # the key is valid; the time of its use is not worth a refusal
            await (await shared.open_once()).keys.used(key.id, now)
