"""The breaker of the batch backend: permits calls, records their outcomes, and probes with an image of its own.

Its state is in Redis and shared by all replicas. While nothing succeeds, the number of calls is bounded: after the
first failure no more calls are made at the same time than may fail until the breaker opens; while it is open there is
one probe for each cooldown.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import zlib
from collections.abc import Callable

from quire.batching.backend_protocol import Backend, BatchAnswer, SendPermit, SentImage
from quire.batching.parse_errors import BackendDownError, BackendFailedError
from quire.clock import Clock
from quire.coordination.parse_queue import ParseQueue
from quire.coordination.parse_requests import BackendState, Permission
from quire.errors import CoordinationError

_LOG = logging.getLogger(__name__)
_BUSY_POLL_S = 0.05
_PROBE_ID = "0" * 16
_PROBE_SIDE = 64


class BackendBreaker:
    def __init__(self, queue: ParseQueue, backend: Backend, clock: Clock, failures_to_open: int) -> None:
        self._queue = queue
        self._backend = backend
        self._clock = clock
        self._failures_to_open = failures_to_open
        self.on_change: Callable[[BackendState], None] = lambda _: None
        """Called with every new state."""
        self._seen_open = False

    def is_open(self, state: BackendState) -> bool:
        return state.failures >= self._failures_to_open

    async def permits(self, batch_id: str) -> bool:
        """Whether a batch that has failed may make another call. Waits while other calls could open the breaker."""
        while True:
            try:
                permission = await self._queue.may_call(batch_id)
            except CoordinationError as error:
                _LOG.warning("the breaker could not be asked", extra={"code": error.code})
                return False
            if permission is not Permission.BUSY:
                return permission is Permission.GO
            await asyncio.sleep(_BUSY_POLL_S)

    async def record(
        self, what: str, *, batch_id: str = "", images: int = 0, seconds: float = 0.0
    ) -> BackendState | None:
        """Records the outcome of a call; None if Redis is unavailable."""
        try:
            state = await self._queue.observe(what, images, seconds, batch_id)
        except CoordinationError as error:
            _LOG.warning("the outcome of a backend call was not recorded", extra={"code": error.code})
            return None
        self._log_change(state)
        self.on_change(state)
        return state

    def _log_change(self, state: BackendState) -> None:
        if state.opened:
            _LOG.warning("breaker opened", extra={"provider": "batch backend", "failures": state.failures})
        elif self._seen_open and not self.is_open(state):
            _LOG.info("breaker closed", extra={"provider": "batch backend"})
        self._seen_open = self.is_open(state)

    async def probe(self, batch_id: str = "") -> bool:
        """Sends the probe image and records the outcome. True if the backend has read it."""
        image = SentImage(_PROBE_ID, "probe.png", PROBE_IMAGE)
        _LOG.info("breaker half-open", extra={"provider": "batch backend"})
        outcome, reason = "ok", ""
        try:
            answer = await self._backend.parse([image], SendPermit.immediate())
            if not has_results(answer):
                outcome, reason = "failed", "no result"
        except (BackendDownError, BackendFailedError) as error:
            outcome, reason = "down" if isinstance(error, BackendDownError) else "failed", str(error)
        await self.record(outcome, batch_id=batch_id)
        if outcome == "ok":
            _LOG.info("batch backend read the probe image")
        else:
            _LOG.warning("batch backend did not read the probe image", extra={"reason": reason})
        return outcome == "ok"


def has_results(answer: BatchAnswer) -> bool:
    """Whether the backend has read, or finally rejected, at least one image."""
    return any(not one.error or one.final for one in answer.images.values())


def _probe_image() -> bytes:
    """Returns a small PNG: a black bar on white."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    side = _PROBE_SIDE
    white, bar = b"\xff" * side, b"\xff" * 8 + b"\x00" * (side - 16) + b"\xff" * 8
    rows = b"".join(b"\x00" + (bar if side // 3 < row < side * 2 // 3 else white) for row in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


PROBE_IMAGE = _probe_image()
