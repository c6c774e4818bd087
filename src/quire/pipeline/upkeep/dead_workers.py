"""When the consumers of all queues are compared with the workers that are alive."""

from __future__ import annotations

from quire.clock import Clock
from quire.coordination.liveness import Workers

_SCAN_EVERY_S = 10.0
_WORKERS_A_SECOND = 20
"""With more than 200 workers the scans that no missing heartbeat causes become rarer: 15 s for 300 workers."""


class DeadWorkers:
    """A scan is due when a heartbeat is missing that was not missing at the last scan, and every few seconds."""

    def __init__(self, workers: Workers, clock: Clock) -> None:
        self._workers = workers
        self._clock = clock
        self._missing: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        self._scan_at = clock.monotonic()

    async def is_scan_due(self) -> bool:
        """Raises CoordinationError."""
        heartbeats = await self._workers.heartbeats()
        self._missing = self._workers.without_heartbeat(heartbeats)
        now = self._clock.monotonic()
        if now >= self._scan_at:
            self._scan_at = now + max(_SCAN_EVERY_S, len(heartbeats) / _WORKERS_A_SECOND)
            return True
        return any(self._seen.get(name) != at for name, at in self._missing.items())

    def scanned(self) -> None:
        """The entries of all workers whose heartbeat was missing have been requeued."""
        self._seen = self._missing
