"""Every metric of one process, in one registry: batches, AI calls, documents, readers, and the fleet at each scrape.

Counters count what this process did; add them over the processes. Gauges whose text says "of the fleet" are the same
in every process; take one of them, or the largest. Labels have few values: queues, models, codes and statuses, never
ids, teams or file names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily

from quire.telemetry.axiom_sink import AxiomHandler
from quire.telemetry.metrics import BatchingMetrics, DispatchMetrics

_DOCUMENT_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 180, 300, 600, 1800, 3600)
_MODEL = ["provider", "model"]


class PipelineMetrics:
    """Documents and pages that this process has accepted, read or ended."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.accepted = Counter(
            "quire_jobs_accepted_total", "Jobs accepted, by type.", ["type"], registry=registry
        )
        self.ended = Counter(
            "quire_jobs_ended_total", "Jobs ended, by type and status.", ["type", "status"], registry=registry
        )
        self.duration = Histogram(
            "quire_document_duration_seconds",
            "Time of a document from the start of its processing to its end, by status.",
            ["status"],
            buckets=_DOCUMENT_SECONDS,
            registry=registry,
        )
        self.cost = Counter(
            "quire_documents_cost_usd_total",
            "US dollars spent on documents that have ended.",
            registry=registry,
        )
        self.pages = Counter(
            "quire_pages_total",
            "Pages read, by source; `failed` could not be read.",
            ["source"],
            registry=registry,
        )
        self.fallbacks = Counter(
            "quire_page_fallbacks_total",
            "Pages that got their local text because a better reader failed or time was up, by reason.",
            ["reason"],
            registry=registry,
        )
        self.retries = Counter(
            "quire_unit_retries_total",
            "Units that failed and were queued again.",
            ["queue"],
            registry=registry,
        )

    def job_accepted(self, kind: str) -> None:
        self.accepted.labels(kind).inc()

    def job_ended(self, kind: str, status: str, *, seconds: float | None, usd: float) -> None:
        self.ended.labels(kind, status).inc()
        self.cost.inc(max(0.0, usd))
        if kind == "main" and seconds is not None:
            self.duration.labels(status).observe(seconds)

    def pages_read(self, source: str, count: int) -> None:
        self.pages.labels(source).inc(count)

    def pages_fell_back(self, reason: str, count: int) -> None:
        self.fallbacks.labels(reason).inc(count)

    def unit_retried(self, queue: str) -> None:
        self.retries.labels(queue).inc()


class FleetMetrics:
    """What is read from the planes at each scrape. A plane that can't be read leaves its last figures and `up` 0."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.queue_entries = Gauge(
            "quire_queue_entries",
            "Entries of a queue, of the fleet: waiting (claimed ones included), delayed, dead.",
            ["queue", "state"],
            registry=registry,
        )
        self.oldest = Gauge(
            "quire_queue_oldest_seconds",
            "Age of the oldest entry of a queue, of the fleet; 0 for an empty one.",
            ["queue"],
            registry=registry,
        )
        self.workers = Gauge(
            "quire_workers_alive", "Workers with a heartbeat, of the fleet.", registry=registry
        )
        self.workers_disk_full = Gauge(
            "quire_workers_disk_full",
            "Workers that take no units because their disks are full, of the fleet.",
            registry=registry,
        )
        self.documents = Gauge(
            "quire_documents_active", "Documents that have not ended, of the fleet.", registry=registry
        )
        self.requests_used = Gauge(
            "ai_requests_per_minute_used",
            "Requests in the meter of a model, of the fleet.",
            _MODEL,
            registry=registry,
        )
        self.requests_allowed = Gauge(
            "ai_requests_per_minute_allowed",
            "RPM limit of a model; 0 if none is known.",
            _MODEL,
            registry=registry,
        )
        self.tokens_used = Gauge(
            "ai_tokens_per_minute_used",
            "Tokens in the meter of a model, of the fleet.",
            _MODEL,
            registry=registry,
        )
        self.tokens_allowed = Gauge(
            "ai_tokens_per_minute_allowed",
            "TPM limit of a model; 0 if none is known.",
            _MODEL,
            registry=registry,
        )
        self.up = Gauge(
            "quire_plane_up", "1 if the plane answered this scrape.", ["plane"], registry=registry
        )
        self.seconds = Gauge(
            "quire_plane_seconds",
            "Time of one round trip to the plane at this scrape.",
            ["plane"],
            registry=registry,
        )
        self.redis_memory = Gauge(
            "quire_redis_memory_bytes", "Memory that the coordination server uses.", registry=registry
        )


class ProcessMeters:
    """The registry of a process and everything that is registered there."""

    def __init__(self, version: str) -> None:
        # They would double the page, and no rule uses them.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        Info("quire_build", "The version that runs.", registry=registry).info({"version": version})
        self.batching = BatchingMetrics(registry)
        self.dispatch = DispatchMetrics(registry)
        self.pipeline = PipelineMetrics(registry)
        self.fleet = FleetMetrics(registry)
        self.loop_lag = Gauge(
            "quire_event_loop_lag_seconds",
            "The longest time by which the event loop was late since the last scrape.",
            registry=registry,
        )
        registry.register(_LogLoss())

    def count_readers(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Exports the counts of the reader processes: `started`, `timeout`, `memory`, `crash`."""
        self._registry.register(_ReaderCounts(counts))

    def render(self) -> bytes:
        return generate_latest(self._registry)


class _ReaderCounts:
    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[CounterMetricFamily]:
        counts = dict(self._counts())
        started = CounterMetricFamily("quire_reader_children_started", "Reader processes started.")
        started.add_metric([], counts.pop("started"))
        failed = CounterMetricFamily(
            "quire_reader_tasks_failed", "Reading tasks that failed with their process.", labels=["reason"]
        )
        for reason, count in counts.items():
            failed.add_metric([reason], count)
        return [started, failed]


class _LogLoss:
    def collect(self) -> Iterable[CounterMetricFamily]:
        lines = CounterMetricFamily("quire_axiom_lines", "Log lines to Axiom.", labels=["outcome"])
        for handler in logging.getLogger().handlers:
            if isinstance(handler, AxiomHandler):
                lines.add_metric(["sent"], handler.sent)
                lines.add_metric(["lost"], handler.lost)
        return [lines]
