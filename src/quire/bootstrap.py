"""The only place where parts are put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import quire
from quire.clock import Clock
from quire.coordination.ai_accounts import AiAccounts
from quire.coordination.ai_admission import Admission, Backoff
from quire.coordination.answer_index import AnswerIndex
from quire.coordination.connection import RedisConnection
from quire.coordination.data_format import check_format
from quire.coordination.embedded_server import EmbeddedServer
from quire.coordination.fleet_protocol import FleetProtocol
from quire.coordination.housekeeping_records import HousekeepingRecords
from quire.coordination.job_events import Events
from quire.coordination.job_store import JobStore
from quire.coordination.liveness import WorkerId, Workers
from quire.coordination.page_entries import EngineNames, PageEntries
from quire.coordination.server_address import ServerAccess
from quire.coordination.server_clock import ServerClock, synchronise
from quire.coordination.streams import Queues
from quire.coordination.waiting_pages import Waiting
from quire.dispatch.answer_cache import AnswerCache, answers_kept_s
from quire.dispatch.call_outcomes import CallCounter
from quire.dispatch.candidates import TIERS, Candidates
from quire.dispatch.dispatcher import Dispatcher, DispatchOptions
from quire.dispatch.ledger import Ceilings, Ledger
from quire.domain.job import UnitKind
from quire.domain.routing import Readers
from quire.errors import CoordinationError
from quire.objects.disk_guard import DiskGuard
from quire.objects.object_store import ObjectStore
from quire.pipeline.engine import Engine
from quire.pipeline.intake.sealing import Sealer
from quire.pipeline.job_reports import JobReports
from quire.pipeline.local_readers import reader_pool, reader_processes
from quire.pipeline.object_keys import content_url
from quire.pipeline.parts import Parts
from quire.pipeline.side_tasks import keep_running, start_all, start_kept
from quire.pipeline.stages.ai_pages import AiReading, Pictures
from quire.pipeline.stages.download_stage import clouds_of
from quire.pipeline.upkeep.batch_notifier import BatchNotifier
from quire.pipeline.upkeep.housekeeper import Housekeeper
from quire.pipeline.upkeep.reconciler import Reconciler, resume_embedded
from quire.pipeline.worker import STAGES, Worker, default_slots
from quire.providers import configured_providers
from quire.providers.price_list import PriceList
from quire.reading.ocr import page_ocr
from quire.reading.ocr.page_ocr import OcrOptions
from quire.reading.pool.child_pool import ChildPool
from quire.reading.pool.server_process import ServerProcess
from quire.settings import Settings
from quire.telemetry.loop_lag import LoopLag
from quire.telemetry.tracing import open_tracer

if TYPE_CHECKING:
    from quire.batching.batcher import Batcher
    from quire.pipeline.vault.embedder import Embedder
    from quire.pipeline.vault.shared_catalog import SharedCatalog
    from quire.pipeline.vault.vault import Vault
    from quire.telemetry.process_meters import ProcessMeters

_AI_KINDS = frozenset({UnitKind.PAGE, UnitKind.CLASSIFY, UnitKind.CLASSIFY_IMAGE})


@dataclass(frozen=True, slots=True)
class Runtime:
    """A running Quire: what entry points use."""

    settings: Settings
    connection: RedisConnection
    parts: Parts
    engine: Engine
    worker: Worker | None
    worker_id: str
    batcher: Batcher | None
    meters: ProcessMeters | None = None
    catalog: SharedCatalog | None = None
    vault: Vault | None = None
    loop_lag: LoopLag = field(default_factory=LoopLag)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by a long-running entry point once it serves: the SDKs of the AI providers are loaded from then on."""


@asynccontextmanager
async def runtime(
    settings: Settings,
    *,
    owner: str,
    kinds: Collection[UnitKind] | None = None,
    attach: bool = False,
    batching: bool = False,
    vault: bool = False,
    metrics: bool = False,
    clock: Clock | None = None,
    reader_code: Iterable[Path] = (),
    readers: ServerProcess | None = None,
) -> AsyncIterator[Runtime]:
    """Quire's parts, connected and running until the block ends.

    `kinds` are the units this process works on (None: none of them). With `attach` and no REDIS_URL it joins the
    embedded server of a process on the same data directory instead of starting one. With `batching` there is a
    batcher, which also sends batches if this process works at all. With `vault` there is the vault, whose catalog is
    opened when it is first needed; without, its units are left to others. With `metrics` (a long-running process)
    everything is counted, lost jobs are put back, and readers start with the first document (READER_IDLE_TIMEOUT).
    Readers may import from `reader_code` too; `readers` is their fork server, if it was started before.
    """
    clock = clock or ServerClock()
    async with AsyncExitStack() as stack:
        pool = reader_pool(settings, reader_code, may_wait=metrics, started=readers)
        stack.push_async_callback(pool.close)
        url, embedded = await _coordination(settings, owner, attach)
        if embedded is not None:
            stack.push_async_callback(embedded.stop)
        connection = RedisConnection.open(url, ServerAccess.of(settings.coordination))
        stack.push_async_callback(connection.close)
        parts = await _parts(settings, connection, clock, pool, stack)
        events, worker_id = Events(connection), parts.process_id
        fleet = await stack.enter_async_context(FleetProtocol(connection, clock, worker_id))
        if embedded is not None:
            await resume_embedded(parts, connection, embedded)
        batching = batching or configured_providers.DOLPHIN in configured_providers.order(settings.ai)
        meters = _meters(parts) if metrics else None
        batcher = _batcher(parts, connection, stack, meters, sends=kinds is not None) if batching else None
        parts = _with_ai(parts, connection, stack, batcher, meters.dispatch if meters else None)
        engine = Engine(parts, events)
        catalog = _catalog(parts, stack) if vault else None
        kept = _vault(parts, engine, connection, stack, catalog) if catalog else None
        worker = _worker(parts, worker_id, kinds, kept) if kinds else None
        records, ready, lag = HousekeepingRecords(connection, clock), asyncio.Event(), LoopLag()
        reconciler = Reconciler(parts, connection, fleet) if metrics else None
        housekeeper = Housekeeper(parts, records, worker_id, kept, reconciler)
        async with asyncio.TaskGroup() as group:
            side = start_kept(
                group, {"events": events.run, "housekeeper": housekeeper.run, "fleet": fleet.run}
            )
            if metrics:
                callbacks = BatchNotifier.of(engine, connection).run(housekeeper.is_leader)
                side += start_all(group, {"loop-lag": lag.run(), "batch-notifier": callbacks})
            if embedded is not None:
                side.append(group.create_task(embedded.watch(), name="embedded-server"))
            if batcher is not None:
                side.append(group.create_task(batcher.run(), name="batcher"))
            if parts.ai is not None and kinds and _AI_KINDS.intersection(kinds):
                side += start_all(group, parts.ai.side_tasks(ready, settings.ai.recovery_probe_s))
            if kept is not None and kinds is not None:
                side.append(group.create_task(_sweeping(kept, worker_id), name="vault-sweeper"))
            working = group.create_task(worker.run(), name="worker") if worker else None
            try:
                yield Runtime(
                    settings=settings,
                    connection=connection,
                    parts=parts,
                    engine=engine,
                    worker=worker,
                    worker_id=worker_id,
                    batcher=batcher,
                    meters=meters,
                    catalog=catalog,
                    vault=kept,
                    loop_lag=lag,
                    ready=ready,
                )
            finally:
                if worker is not None and working is not None:
                    await _drain(worker, working, settings.http.shutdown_timeout_s)
                if batcher is not None:
                    await batcher.drain(settings.http.shutdown_timeout_s)
                for task in side:
                    task.cancel()


async def _drain(worker: Worker, working: asyncio.Task[None], timeout_s: float) -> None:
    if not working.done():
        await worker.drain(timeout_s)
        await asyncio.wait({working}, timeout=5)
        working.cancel()


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


async def _parts(
    settings: Settings, connection: RedisConnection, clock: Clock, pool: ChildPool, stack: AsyncExitStack
) -> Parts:
    await check_format(connection)
    data_dir = settings.general.data_dir.absolute()
    objects = ObjectStore.open(settings.objects_location, data_dir / "scratch", clouds=clouds_of(settings))
    stack.push_async_callback(objects.close)
    await objects.prepare()
    entries = PageEntries(connection, _engine_names(settings), partial(content_url, objects))
    queues = Queues(connection, clock, entries.describe)
    # All groups, also those of queues that no process of ours reads: an external dispatcher may read one.
    await queues.ensure_groups(UnitKind)
    await synchronise(clock, connection)
    secret = settings.auth.secret_key
    jobs = JobStore(connection, queues, clock, settings.jobs.ttl_s, sla_s=settings.jobs.sla_max_age_s)
    tracer = open_tracer(settings.tracing, quire.__version__, stack)
    jobs.observer = reports = JobReports(jobs, tracer=tracer)
    return Parts(
        settings=settings,
        clock=clock,
        process_id=str(WorkerId.of_this_process()),
        jobs=jobs,
        reports=reports,
        queues=queues,
        workers=Workers(connection, clock, settings.worker.ttl_s),
        objects=objects,
        disk=DiskGuard.of(settings, clock),
        pool=pool,
        sealer=Sealer.from_secret(secret) if secret else Sealer.from_data_dir(data_dir),
        readers=Readers(ocr=_reads_scans(settings), ai_reads_all=settings.ai.send_all_pages),
        reader_processes=reader_processes(settings),
        tracer=tracer,
    )


def _engine_names(settings: Settings) -> EngineNames:
    models = configured_providers.models(settings.ai)
    order = [name for name in configured_providers.order(settings.ai) if name in models]
    tiers = {name: {tier: models[name].of(tier) for tier in TIERS} for name in order}
    return EngineNames(tuple(order), tiers)


def _reads_scans(settings: Settings) -> bool:
    """Raises SettingsError where OCR_LANGUAGES has a language that no installed reader supports."""
    if not settings.ocr.enabled or not page_ocr.available():
        return False
    page_ocr.check_languages(OcrOptions.of(settings.ocr))
    return True


def _with_ai(
    parts: Parts,
    connection: RedisConnection,
    stack: AsyncExitStack,
    batcher: Batcher | None,
    counting: CallCounter | None,
) -> Parts:
    """The parts as they are, where no provider of the order can be used."""
    settings, clock = parts.settings, parts.clock
    providers = configured_providers.build(settings.ai, clock)
    named = configured_providers.order(settings.ai)
    if configured_providers.DOLPHIN in named and batcher is not None:
        from quire.batching.dolphin_provider import DolphinProvider

        providers[configured_providers.DOLPHIN] = DolphinProvider(batcher)
    # Alone it would only be a longer way to what is there without AI.
    if configured_providers.OCR in named and parts.readers.ocr and providers:
        from quire.pipeline.stages.ocr_provider import OcrProvider

        options = OcrOptions.of(settings.ocr)
        providers[configured_providers.OCR] = OcrProvider(parts.pool, options)
    candidates = Candidates.from_settings(settings.ai, list(providers))
    if not candidates.providers:
        return parts
    ai = settings.ai
    waiting = Waiting(connection, parts.queues, clock)
    dispatcher = Dispatcher(
        candidates=candidates,
        providers=providers,
        admission=_admission(parts, connection, candidates.longest_timeout_s),
        ledger=Ledger(
            AiAccounts(connection),
            PriceList(ai.prices),
            clock,
            Ceilings(ai.max_cost_per_document_usd, ai.max_cost_per_team_usd),
        ),
        cache=AnswerCache(AnswerIndex(connection), parts.objects, parts.jobs, answers_kept_s(settings)),
        clock=clock,
        options=DispatchOptions(ai.page_total_timeout_s, ai.max_tokens_out, _wait_max_s(settings)),
        wake=waiting.wake,
        recovered=waiting.resume_recovering,
        counting=counting,
        tracer=parts.tracer,
    )
    stack.push_async_callback(dispatcher.close)
    reading = AiReading(dispatcher, waiting, Pictures())
    return replace(parts, ai=reading, readers=replace(parts.readers, ai=True))


def _wait_max_s(settings: Settings) -> float:
    """The strict policy (one attempt) never waits for a breaker."""
    return 0.0 if settings.jobs.max_attempts == 1 else settings.ai.wait_max_s


def _admission(parts: Parts, connection: RedisConnection, timeout_s: float) -> Admission:
    ai = parts.settings.ai
    backoff = Backoff(ai.breaker_base_backoff_s, ai.breaker_max_backoff_s)
    sticky = ai.budget_policy == "sticky"
    return Admission.for_timeout(connection, timeout_s, backoff, sticky=sticky, holder=parts.process_id)


def _meters(parts: Parts) -> ProcessMeters:
    # Imported here: it takes a tenth of a second, and `quire convert` has no use for it.
    from quire.telemetry.process_meters import ProcessMeters

    meters = ProcessMeters(quire.__version__)
    meters.count_readers(parts.pool.counts)
    parts.reports.meter = meters.pipeline
    return meters


def _worker(parts: Parts, worker_id: str, kinds: Collection[UnitKind], vault: Vault | None) -> Worker:
    slots = default_slots(
        parts.settings.worker.concurrency,
        parts.reader_processes,
        parts.settings.vault.classify_concurrency,
    )
    kinds = [kind for kind in kinds if kind is not UnitKind.EARLY or parts.ai is not None]
    if vault is None:
        return Worker(parts, worker_id, {kind: slots[kind] for kind in kinds if kind in STAGES})
    from quire.pipeline.vault.vault_stages import stages

    return Worker(parts, worker_id, {kind: slots[kind] for kind in kinds}, {**STAGES, **stages(vault)})


def _vault(
    parts: Parts, engine: Engine, connection: RedisConnection, stack: AsyncExitStack, catalog: SharedCatalog
) -> Vault:
    from quire.coordination.vault_steps import Steps  # here: `quire convert` has no use for it
    from quire.pipeline.vault.vault import Vault

    steps = Steps(connection, parts.queues, parts.jobs, parts.clock)
    vault = Vault(parts, engine, steps, catalog.open_once, _embedder(parts, connection, stack))
    stack.push_async_callback(vault.close)
    return vault


def _catalog(parts: Parts, stack: AsyncExitStack) -> SharedCatalog:
    from quire.pipeline.vault.shared_catalog import SharedCatalog

    shared = SharedCatalog(parts.settings, parts.clock)
    stack.push_async_callback(shared.close)
    return shared


def _embedder(parts: Parts, connection: RedisConnection, stack: AsyncExitStack) -> Embedder | None:
    settings, chosen = parts.settings, parts.settings.vault.embedding_provider
    if chosen == "off":
        return None
    if chosen == "local":
        from quire.embedding.local_embedder import LocalEmbedder

        return LocalEmbedder()
    from quire.dispatch.remote_embedder import RemoteEmbedder
    from quire.providers.openai_embeddings import OpenAIEmbeddings

    provider = OpenAIEmbeddings.from_settings(settings.ai, parts.clock)
    stack.push_async_callback(provider.close)
    ceilings = Ceilings(team_usd=settings.ai.max_cost_per_team_usd)  # a document's is for its pages
    ledger = Ledger(AiAccounts(connection), PriceList(settings.ai.prices), parts.clock, ceilings)
    stack.push_async_callback(ledger.close)
    admission = _admission(parts, connection, settings.vault.embedding_timeout_s)
    return RemoteEmbedder(provider, admission, ledger, settings)


async def _sweeping(vault: Vault, worker_id: str) -> None:
    from quire.pipeline.vault.vault_sweeper import VaultSweeper

    await keep_running("vault-sweeper", VaultSweeper(vault, worker_id).run)


def _batcher(
    parts: Parts,
    connection: RedisConnection,
    stack: AsyncExitStack,
    meters: ProcessMeters | None,
    *,
    sends: bool,
) -> Batcher:
    # Imported here: what it needs takes a tenth of a second, and `quire convert` has no use for it.
    from prometheus_client import CollectorRegistry

    from quire.batching.backend_protocol import Backend
    from quire.batching.batcher import Batcher, BatcherParts
    from quire.batching.local_backend import LocalBackend
    from quire.batching.remote_backend import BackendAddress, RemoteBackend
    from quire.coordination.parse_queue import ParseLimits, ParseQueue
    from quire.reading.ocr.picture_elements import ElementOptions
    from quire.telemetry.metrics import BatchingMetrics

    settings, options = parts.settings, parts.settings.batching
    backend: Backend
    if options.backend_url:
        backend = RemoteBackend(
            BackendAddress.of(options.backend_url, options.backend_path),
            options.backend_timeout_s,
            options.max_concurrent_batches,
        )
    else:
        elements = ElementOptions.of(settings.ocr, settings.limits.max_pixels)
        backend = LocalBackend(parts.pool, elements, settings.ocr.page_timeout_s)
    stack.push_async_callback(backend.close)
    limits = ParseLimits(
        ttl_s=options.ttl_s,
        slots=options.max_concurrent_batches,
        failures_to_open=options.failure_threshold,
        cooldown_s=options.cooldown_s,
        backoff_s=options.retry_delay_s,
        call_timeout_s=options.backend_timeout_s,
    )
    # An id of its own: the worker of this process may leave earlier, or not be there at all.
    queue = ParseQueue(connection, parts.clock, str(WorkerId.of_this_process()), limits)
    return Batcher(
        BatcherParts(
            queue=queue,
            workers=parts.workers,
            objects=parts.objects,
            disk=parts.disk,
            pool=parts.pool,
            backend=backend,
            clock=parts.clock,
            metrics=meters.batching if meters else BatchingMetrics(CollectorRegistry()),
            tracer=parts.tracer,
        ),
        options,
        max_pixels=settings.limits.max_pixels,
        forms_batches=sends,
    )
