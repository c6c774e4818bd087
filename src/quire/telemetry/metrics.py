"""Metrics for Prometheus. The registry is passed in; nothing is registered for the whole process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_LATENCIES = (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 900)


class BatchingMetrics:
    """What the batcher counts. Rates are computed by the scraper from the counters."""

    def __init__(self, registry: CollectorRegistry) -> None:
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
        self.wait = Histogram(
            "batch_wait_seconds",
            "Time from a request's acceptance to the sending of its batch.",
            buckets=_LATENCIES,
            registry=registry,
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


class DispatchMetrics:
    """The AI calls of this process, and the state of the models at the last scrape."""

    def __init__(self, registry: CollectorRegistry) -> None:
        who = ["provider", "model"]
        self.calls = Counter(
            "ai_calls_total", "Calls of AI models, by how they ended.", [*who, "outcome"], registry=registry
        )
        self.duration = Histogram(
            "ai_call_duration_seconds", "Time of one call.", who, buckets=_LATENCIES, registry=registry
        )
        self.tokens = Counter("ai_tokens_total", "Tokens used.", [*who, "direction"], registry=registry)
        self.cost = Counter("ai_cost_usd_total", "US dollars spent.", who, registry=registry)
        self.failovers = Counter(
            "ai_failovers_total",
            "Calls of another than the page's first candidate, by the model that was called.",
            who,
            registry=registry,
        )
        self.from_cache = Counter(
            "ai_pages_from_cache_total", "Pages whose answer was there already.", registry=registry
        )
        self.parked = Counter("ai_pages_parked_total", "Pages that found no free model.", registry=registry)
        self.waiting = Gauge(
            "ai_pages_waiting", "Pages that wait for a free model, of all replicas.", registry=registry
        )
        self.in_flight = Gauge("ai_in_flight", "Calls that are out, of all replicas.", who, registry=registry)
        self.in_flight_allowed = Gauge(
            "ai_in_flight_allowed", "Calls that may be out at a time, as adapted.", who, registry=registry
        )
        self.breaker_open = Gauge(
            "ai_breaker_open", "1 while the model is left alone, else 0.", who, registry=registry
        )

    def call_ended(
        self,
        provider: str,
        model: str,
        outcome: str,
        *,
        seconds: float,
        tokens: tuple[int, int],
        usd: float,
        failover: bool,
    ) -> None:
        """`outcome` is `ok`, the code of an error, or why the answer did not count."""
        if failover:
            self.failovers.labels(provider, model).inc()
        self.calls.labels(provider, model, outcome).inc()
        self.duration.labels(provider, model).observe(seconds)
        self.tokens.labels(provider, model, "in").inc(tokens[0])
        self.tokens.labels(provider, model, "out").inc(tokens[1])
        self.cost.labels(provider, model).inc(usd)

    def page_from_cache(self) -> None:
        self.from_cache.inc()

    def page_parked(self) -> None:
        self.parked.inc()

    def model_seen(self, provider: str, model: str, *, in_flight: int, allowed: int, is_open: bool) -> None:
        self.in_flight.labels(provider, model).set(in_flight)
        self.in_flight_allowed.labels(provider, model).set(allowed)
        self.breaker_open.labels(provider, model).set(is_open)
