"""The only place where parts are put together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from quire.clock import Clock, SystemClock
from quire.domain.jobs import UnitKind
from quire.domain.routing import Readers
from quire.errors import CoordinationError
from quire.objects.store import ObjectStore
from quire.pipeline.engine import Engine
from quire.pipeline.housekeeping import Housekeeper
from quire.pipeline.parts import Parts
from quire.pipeline.sealing import Sealer
from quire.pipeline.worker import Worker, default_slots
from quire.queue.connection import Connection
from quire.queue.embedded import EmbeddedServer
from quire.queue.events import Events
from quire.queue.house import House
from quire.queue.jobs import JobStore
from quire.queue.streams import Queues
from quire.queue.workers import WorkerId, Workers
from quire.reading import ocr
from quire.reading.pool import ChildPool, PoolOptions
from quire.settings import Settings


@dataclass(frozen=True, slots=True)
class Runtime:
    """A running Quire: what entry points use."""

    settings: Settings
    connection: Connection
    parts: Parts
    engine: Engine
    worker: Worker | None
    worker_id: str


@asynccontextmanager
async def runtime(
    settings: Settings,
    *,
    owner: str,
    kinds: Collection[UnitKind] | None = None,
    attach: bool = False,
    clock: Clock | None = None,
) -> AsyncIterator[Runtime]:
    """Quire's parts, connected and running until the block ends.

    `kinds` are the units this process works on (None: none of them). With `attach` and no REDIS_URL it joins the
    embedded server of a process on the same data directory instead of starting one. A side task that dies ends
    the block with its error.
    """
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        url, embedded = await _coordination(settings, owner, attach)
        if embedded is not None:
            stack.push_async_callback(embedded.stop)
        connection = Connection.open(url)
        stack.push_async_callback(connection.close)
        await connection.ping()
        parts = await _parts(settings, connection, clock, stack)
        events = Events(connection)
        worker_id = str(WorkerId.of_this_process())
        worker = _worker(parts, worker_id, kinds) if kinds else None
        housekeeper = Housekeeper(parts, House(connection, clock), worker_id)
        async with asyncio.TaskGroup() as group:
            side = [
                group.create_task(events.run(), name="events"),
                group.create_task(housekeeper.run(), name="housekeeper"),
            ]
            if embedded is not None:
                side.append(group.create_task(embedded.watch(), name="embedded-server"))
            working = group.create_task(worker.run(), name="worker") if worker else None
            try:
                yield Runtime(settings, connection, parts, Engine(parts, events), worker, worker_id)
            finally:
                if worker is not None and working is not None and not working.done():
                    await worker.drain(settings.http.shutdown_timeout_s)
                    await asyncio.wait({working}, timeout=5)
                    working.cancel()
                for task in side:
                    task.cancel()


async def _coordination(settings: Settings, owner: str, attach: bool) -> tuple[str, EmbeddedServer | None]:
    if settings.coordination.redis_url:
        return settings.coordination.redis_url, None
    data_dir = settings.general.data_dir.absolute()
    if attach:
        url = EmbeddedServer.attach_url(data_dir)
        if url is None:
            raise CoordinationError(
                f"No Quire is running on the data directory {data_dir}. Start `quire serve` first, "
                "or set REDIS_URL to the server that both should use."
            )
        return url, None
    embedded = EmbeddedServer(data_dir, owner=owner)
    return await embedded.start(), embedded


async def _parts(settings: Settings, connection: Connection, clock: Clock, stack: AsyncExitStack) -> Parts:
    data_dir = settings.general.data_dir.absolute()
    queues = Queues(connection, clock)
    processes = settings.reading.processes or os.cpu_count() or 1
    objects = ObjectStore.open(settings.objects_location, data_dir / "scratch")
    stack.push_async_callback(objects.close)
    pool = ChildPool(PoolOptions(processes=processes, memory_bytes=settings.reading.memory_bytes))
    stack.push_async_callback(pool.close)
    pool.warm()
    secret = settings.auth.secret_key
    return Parts(
        settings=settings,
        clock=clock,
        jobs=JobStore(connection, queues, clock, settings.jobs.ttl_s),
        queues=queues,
        workers=Workers(connection, clock, settings.worker.ttl_s),
        objects=objects,
        pool=pool,
        sealer=Sealer.from_secret(secret) if secret else Sealer.from_data_dir(data_dir),
        readers=Readers(ocr=settings.ocr.enabled and ocr.available(), ai=False),
        reader_processes=processes,
        ocr_turns=asyncio.Semaphore(processes),
    )


def _worker(parts: Parts, worker_id: str, kinds: Collection[UnitKind]) -> Worker:
    slots = default_slots(parts.settings.worker.concurrency, parts.reader_processes)
    return Worker(parts, worker_id, {kind: slots[kind] for kind in kinds})
