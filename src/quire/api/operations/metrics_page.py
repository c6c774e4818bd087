"""The metrics of this process as text, with the state of the fleet read at each scrape.

A scrape never fails because a plane is unavailable: its figures stay as they were, and `quire_plane_up` is 0.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from quire.bootstrap import Runtime
from quire.coordination.ai_admission import ModelState
from quire.domain.job import UnitKind
from quire.errors import QuireError

if TYPE_CHECKING:
    from quire.telemetry.process_meters import ProcessMeters

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PLANE_S = 3.0


class MetricsPage:
    def __init__(self, runtime: Runtime, meters: ProcessMeters) -> None:
        self._runtime = runtime
        self._meters = meters

    async def render(self) -> bytes:
        """Reads the state of the fleet and returns all metrics of this process."""
        probes = [
            self._plane("coordination", self._runtime.connection.ping),
            self._plane("objects", self._runtime.parts.objects.check),
        ]
        catalog = self._runtime.catalog.opened if self._runtime.catalog else None
        if catalog is not None:
            probes.append(self._plane("catalog", catalog.ping))
        coordination, *_ = await asyncio.gather(*probes)
        if coordination:
            await self._plane("fleet", self._fleet)
        self._meters.loop_lag.set(self._runtime.loop_lag.longest_s())
        return self._meters.render()

    async def _plane(self, name: str, probe: Callable[[], Awaitable[object]]) -> bool:
        began = time.perf_counter()
        ok = True
        try:
            async with asyncio.timeout(_PLANE_S):
                await probe()
        except (QuireError, TimeoutError):
            ok = False
        if name != "fleet":
            self._meters.fleet.up.labels(name).set(ok)
            self._meters.fleet.seconds.labels(name).set(time.perf_counter() - began)
        return ok

    async def _fleet(self) -> None:
        parts, fleet = self._runtime.parts, self._meters.fleet
        await asyncio.gather(*map(self._queue, UnitKind), self._models())
        fleet.redis_memory.set(await self._runtime.connection.used_memory_bytes())
        fleet.workers.set(await parts.workers.count_alive())
        fleet.workers_disk_full.set(len(await parts.workers.with_full_disk()))
        fleet.documents.set(await parts.jobs.count_unfinished())
        if self._runtime.batcher is not None:
            await self._runtime.batcher.condition()

    async def _queue(self, kind: UnitKind) -> None:
        queues, fleet = self._runtime.parts.queues, self._meters.fleet
        depth, oldest_s = await asyncio.gather(queues.depth(kind), queues.oldest_s(kind))
        for state, count in depth.items():
            fleet.queue_entries.labels(kind.value, state).set(count)
        fleet.oldest.labels(kind.value).set(oldest_s)

    async def _models(self) -> None:
        ai = self._runtime.parts.ai
        if ai is None:
            return
        states, waiting = await asyncio.gather(
            ai.dispatcher.admission.states(ai.dispatcher.candidates.all()), ai.waiting.length()
        )
        self._meters.dispatch.waiting.set(waiting)
        for state in states:
            self._model(state)

    def _model(self, state: ModelState) -> None:
        name, fleet = (state.target.provider, state.target.model), self._meters.fleet
        self._meters.dispatch.model_seen(
            *name, in_flight=state.in_flight, allowed=state.cap, is_open=state.state == "open"
        )
        fleet.requests_used.labels(*name).set(state.rpm_used)
        fleet.requests_allowed.labels(*name).set(state.rpm)
        fleet.tokens_used.labels(*name).set(state.tpm_used)
        fleet.tokens_allowed.labels(*name).set(state.tpm)
