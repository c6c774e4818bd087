"""The only place where parts are put together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quire.clock import Clock, SystemClock
from quire.dispatch.cache import AnswerCache
from quire.dispatch.candidates import Candidates
from quire.dispatch.cost import Ledger
from quire.dispatch.dispatcher import Dispatcher, DispatchOptions
from quire.domain.jobs import UnitKind
from quire.domain.routing import Readers
from quire.errors import CoordinationError
from quire.objects.store import ObjectStore
from quire.pipeline.ai import AiReading, Pictures
from quire.pipeline.engine import Engine
from quire.pipeline.housekeeping import Housekeeper
from quire.pipeline.parts import Parts
from quire.pipeline.sealing import Sealer
from quire.pipeline.worker import Worker, default_slots
from quire.providers import known
from quire.providers.prices import PriceList
from quire.queue.admission import Admission, Backoff
from quire.queue.connection import Connection
from quire.queue.embedded import EmbeddedServer
from quire.queue.events import Events
from quire.queue.house import House
from quire.queue.jobs import JobStore
from quire.queue.streams import Queues
from quire.queue.waiting import Waiting
from quire.queue.workers import WorkerId, Workers
from quire.reading import ocr
from quire.reading.pool import ChildPool, PoolOptions
from quire.settings import Settings

if TYPE_CHECKING:
    from quire.batching.batcher import Batcher


@dataclass(frozen=True, slots=True)
class Runtime:
    """A running Quire: what entry points use."""

    settings: Settings
    connection: Connection
    parts: Parts
    engine: Engine
    worker: Worker | None
    worker_id: str
    batcher: Batcher | None


@asynccontextmanager
async def runtime(
    settings: Settings,
    *,
    owner: str,
    kinds: Collection[UnitKind] | None = None,
    attach: bool = False,
    batching: bool = False,
    clock: Clock | None = None,
) -> AsyncIterator[Runtime]:
    """Quire's parts, connected and running until the block ends.

    `kinds` are the units this process works on (None: none of them). With `attach` and no REDIS_URL it joins the
    embedded server of a process on the same data directory instead of starting one. With `batching` there is a
    batcher, which also sends batches if this process works at all. A side task that dies ends the block with its
    error.
    """
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        pool = _pool(settings)
        stack.push_async_callback(pool.close)
        pool.warm()  # first of all: the readers load while everything else starts
        url, embedded = await _coordination(settings, owner, attach)
        if embedded is not None:
            stack.push_async_callback(embedded.stop)
        connection = Connection.open(url)
        stack.push_async_callback(connection.close)
        await connection.ping()
        parts = await _parts(settings, connection, clock, pool, stack)
        events = Events(connection)
        worker_id = str(WorkerId.of_this_process())
        worker = _worker(parts, worker_id, kinds) if kinds else None
        housekeeper = Housekeeper(parts, House(connection, clock), worker_id)
        batcher = _batcher(parts, connection, stack, sends=kinds is not None) if batching else None
        async with asyncio.TaskGroup() as group:
            side = [
                group.create_task(events.run(), name="events"),
                group.create_task(housekeeper.run(), name="housekeeper"),
            ]
            if embedded is not None:
                side.append(group.create_task(embedded.watch(), name="embedded-server"))
            if batcher is not None:
                side.append(group.create_task(batcher.run(), name="batcher"))
            working = group.create_task(worker.run(), name="worker") if worker else None
            try:
                yield Runtime(settings, connection, parts, Engine(parts, events), worker, worker_id, batcher)
            finally:
                if worker is not None and working is not None and not working.done():
                    await worker.drain(settings.http.shutdown_timeout_s)
                    await asyncio.wait({working}, timeout=5)
                    working.cancel()
                if batcher is not None:
                    await batcher.drain(settings.http.shutdown_timeout_s)
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


def _processes(settings: Settings) -> int:
    return settings.reading.processes or os.cpu_count() or 1


def _pool(settings: Settings) -> ChildPool:
    return ChildPool(PoolOptions(processes=_processes(settings), memory_bytes=settings.reading.memory_bytes))


async def _parts(
    settings: Settings, connection: Connection, clock: Clock, pool: ChildPool, stack: AsyncExitStack
) -> Parts:
    data_dir = settings.general.data_dir.absolute()
    queues = Queues(connection, clock)
    processes = _processes(settings)
    location = settings.objects_location
    credentials = settings.aws.credentials() if location.startswith("s3://") else None
    objects = ObjectStore.open(location, data_dir / "scratch", credentials=credentials)
    stack.push_async_callback(objects.close)
    secret = settings.auth.secret_key
    jobs = JobStore(connection, queues, clock, settings.jobs.ttl_s)
    ai = _ai(settings, connection, clock, jobs, objects)
    if ai is not None:
        stack.push_async_callback(ai.dispatcher.close)
    return Parts(
        settings=settings,
        clock=clock,
        jobs=jobs,
        queues=queues,
        workers=Workers(connection, clock, settings.worker.ttl_s),
        objects=objects,
        pool=pool,
        sealer=Sealer.from_secret(secret) if secret else Sealer.from_data_dir(data_dir),
        readers=Readers(
            ocr=settings.ocr.enabled and ocr.available(),
            ai=ai is not None,
            ai_reads_all=settings.ai.send_all_pages,
        ),
        reader_processes=processes,
        ocr_turns=asyncio.Semaphore(processes),
        ai=ai,
    )


def _ai(
    settings: Settings, connection: Connection, clock: Clock, jobs: JobStore, objects: ObjectStore
) -> AiReading | None:
    """None where no provider of the order has a key or an address."""
    providers = known.build(settings.ai, clock)
    candidates = Candidates.from_settings(settings.ai, list(providers))
    if not candidates.providers:
        return None
    ai = settings.ai
    waiting = Waiting(connection, Queues(connection, clock), clock)
    dispatcher = Dispatcher(
        candidates=candidates,
        providers=providers,
        admission=Admission.for_timeout(
            connection,
            candidates.longest_timeout_s,
            Backoff(ai.breaker_base_backoff_s, ai.breaker_max_backoff_s),
        ),
        ledger=Ledger(connection, PriceList(ai.prices), clock, ai.max_cost_per_document_usd),
        cache=AnswerCache(connection, objects, jobs, ai.cache_ttl_s),
        clock=clock,
        options=DispatchOptions(ai.page_total_timeout_s, ai.max_tokens_out),
        wake=waiting.wake,
    )
    return AiReading(dispatcher, waiting, Pictures())


def _worker(parts: Parts, worker_id: str, kinds: Collection[UnitKind]) -> Worker:
    slots = default_slots(parts.settings.worker.concurrency, parts.reader_processes)
    return Worker(parts, worker_id, {kind: slots[kind] for kind in kinds})


def _batcher(parts: Parts, connection: Connection, stack: AsyncExitStack, *, sends: bool) -> Batcher:
    # Imported here: what it needs takes a tenth of a second, and `quire convert` has no use for it.
    from prometheus_client import CollectorRegistry

    from quire.batching.backend import Backend
    from quire.batching.batcher import Batcher, BatcherParts
    from quire.batching.local import LocalBackend
    from quire.batching.remote import RemoteBackend
    from quire.queue.parse import ParseLimits, ParseQueue
    from quire.reading.elements import ElementOptions
    from quire.telemetry.metrics import BatchingMetrics

    settings = parts.settings
    options = settings.batching
    backend: Backend
    if options.backend_url:
        backend = RemoteBackend(
            options.backend_url, options.backend_timeout_s, options.max_concurrent_batches
        )
    else:
        elements = ElementOptions(settings.ocr.languages, settings.limits.max_pixels)
        backend = LocalBackend(parts.pool, elements, settings.ocr.page_timeout_s)
    stack.push_async_callback(backend.close)
    limits = ParseLimits(
        ttl_s=options.ttl_s,
        slots=options.max_concurrent_batches,
        failures_to_open=options.failure_threshold,
        cooldown_s=options.cooldown_s,
        backoff_s=options.retry_delay_s,
    )
    # An id of its own: the worker of this process may leave earlier, or not be there at all.
    queue = ParseQueue(connection, parts.clock, str(WorkerId.of_this_process()), limits)
    return Batcher(
        BatcherParts(
            queue=queue,
            workers=parts.workers,
            objects=parts.objects,
            pool=parts.pool,
            backend=backend,
            clock=parts.clock,
            metrics=BatchingMetrics(CollectorRegistry()),
        ),
        options,
        max_pixels=settings.limits.max_pixels,
        forms_batches=sends,
    )
