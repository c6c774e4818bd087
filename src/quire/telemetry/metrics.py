"""Metrics for Prometheus. The registry is passed in; nothing is registered for the whole process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_LATENCIES = (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 900)


class BatchingMetrics:
    """What the batcher counts. Rates are for whoever asks: of `batches_formed_total`, of the calls by outcome."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.queue_depth = Gauge(
            "queue_depth_current", "Requests that wait for a batch, of all replicas.", registry=registry
        )
        self.batches_formed = Counter(
            "batches_formed_total", "Batches formed by this replica.", registry=registry
        )
        self.formation_rate = Gauge(
            "batch_formation_rate", "Batches formed by this replica in the last minute.", registry=registry
        )
        self.batch_size = Histogram(
            "batch_size", "Images in a batch.", buckets=(1, 2, 4, 8, 16, 24, 32, 64, 128), registry=registry
        )
        self.backend_duration = Histogram(
            "modal_request_duration_seconds",
            "Time the batch backend takes for one call.",
            buckets=_LATENCIES,
            registry=registry,
        )
        self.backend_calls = Counter(
            "modal_requests_total", "Calls of the batch backend.", ["outcome"], registry=registry
        )
        self.success_rate = Gauge(
            "modal_success_rate",
            "Share of this replica's calls of the backend that succeeded.",
            registry=registry,
        )
        self.latency = Histogram(
            "request_latency_seconds",
            "Time from a request's acceptance to its answer.",
            buckets=_LATENCIES,
            registry=registry,
        )
        self.active_connections = Gauge(
            "active_connections", "Callers that wait in this replica.", registry=registry
        )
        self.odd_results = Counter(
            "batch_results_odd_total",
            "Results that could not be used or were not asked for.",
            ["what"],
            registry=registry,
        )
        self._ok = 0
        self._calls = 0

    def call_ended(self, outcome: str, seconds: float) -> None:
        self._calls += 1
        self._ok += outcome == "ok"
        self.backend_calls.labels(outcome).inc()
        self.backend_duration.observe(seconds)
        self.success_rate.set(self._ok / self._calls)

    def render(self) -> bytes:
        return generate_latest(self._registry)
