"""Names of settings that other systems use: mapped to ours, or explained. None of them is ignored in silence.

The names are those of the source documents that Quire unites: environment variables, and the sections of the batching
service's YAML file (`server`, `queue`, `batch_formation`, `modal`, `redis`, `response`, `monitoring`).
"""

from __future__ import annotations

from collections.abc import Mapping

ALIASES: Mapping[str, str] = {"MODAL_API_ENDPOINT": "BATCH_BACKEND_URL"}
"""Environment variables that set one of our settings."""

REFUSED: Mapping[str, str] = {
    "RESULT_STORE": "Results are kept in the object plane: set OBJECT_STORE (s3://bucket/prefix) instead. "
    "PostgreSQL holds the vault: set DATABASE_URL.",
}
"""Environment variables that would change where data is kept: the start stops."""

EXPLAINED: Mapping[str, str] = {
    "QUEUE_POLL_INTERVAL": "workers wait for entries with blocking reads, so there is no interval to set",
    "IMAGE_INCLUDE_BASE64": "pages are rendered by the worker and never travel through Redis, so there is nothing "
    "to include",
}
"""Environment variables without a counterpart: the start goes on with a warning."""

FILE_SECTIONS = frozenset({"server", "queue", "batch_formation", "modal", "redis", "response", "monitoring"})
"""Sections of the batching service's file that are not sections of ours."""

FILE_NAMES: Mapping[str, str] = {
    "server.port": "PORT",
    "server.max_request_size": "MAX_REQUEST_SIZE",
    "server.rate_limit_per_client": "RATE_LIMIT_PER_CLIENT",
    "server.graceful_shutdown_timeout": "SHUTDOWN_TIMEOUT",
    "server.backpressure_threshold": "BACKPRESSURE_THRESHOLD",
    "queue.redis_url": "REDIS_URL",
    "queue.max_size": "MAX_QUEUE_SIZE",
    "queue.ttl": "PARSE_TTL",
    "queue.max_retry_count": "MAX_RETRY_COUNT",
    "queue.max_batch_size": "MAX_BATCH_SIZE",
    "batch_formation.max_batch_size": "MAX_BATCH_SIZE",
    "modal.base_url": "BATCH_BACKEND_URL",
    "modal.api_endpoint": "BATCH_BACKEND_URL",
    "modal.timeout": "BATCH_BACKEND_TIMEOUT",
    "modal.retry_delay": "RETRY_DELAY",
    "modal.max_concurrent_batches": "MAX_CONCURRENT_BATCHES",
    "modal.circuit_breaker.failure_threshold": "BATCH_FAILURE_THRESHOLD",
    "modal.circuit_breaker.cooldown_period": "BATCH_COOLDOWN",
    "modal.circuit_breaker.health_check_interval": "BATCH_HEALTH_INTERVAL",
    "redis.url": "REDIS_URL",
    "response.timeout": "RESPONSE_TIMEOUT",
    "monitoring.log_level": "LOG_LEVEL",
}
"""Entries of that file, by their path, that set one of our settings."""

FILE_EXPLAINED: Mapping[str, str] = {
    "server.max_connections": "connections are bounded by the process's limit of open files (ulimit -n)",
    "server.read_timeout": "the front door closes callers that send too slowly",
    "server.write_timeout": "the front door closes callers that read too slowly",
    "queue.redis_cluster_urls": "set REDIS_URL to redis+cluster://host:port,host:port; other nodes are found from them",
    "queue.queue_key": "names of keys are fixed (docs/batching.md)",
    "queue.processing_key": "names of keys are fixed (docs/batching.md)",
    "queue.recovery_interval": "batches of dead replicas are found by their heartbeat within seconds",
    "batch_formation.min_batch_size": "a batch is formed as soon as a slot is free, with one image if only one waits",
    "batch_formation.check_interval": "arrivals wake the batch former, so there is no interval to set",
    "modal.max_retries": "set MAX_RETRY_COUNT: how often an image may be sent",
    "modal.connection_pool.max_idle_connections": "there is one connection for each batch under way and one ahead",
    "modal.connection_pool.idle_connection_timeout": "idle connections to the backend are kept and reconnected",
    "redis.max_retries": "lost connections are retried with backoff",
    "redis.pool_size": "commands share a few connections in pipelines",
    "response.cleanup_interval": "expired results are deleted by the upkeep of each replica",
    "monitoring.enable_metrics": "GET /metrics is always there",
    "monitoring.prometheus_port": "metrics are served at GET /metrics on PORT",
}
"""Entries of that file without a counterpart: the start goes on with a warning."""


def near_misses(names: Mapping[str, str], known: Mapping[str, object]) -> list[tuple[str, str]]:
    """Environment variables that are spelled like a setting but are none, each with the setting that was meant.

    A variable counts only if it shares all but one of a setting's words or differs by a letter or two, because other
    programs' variables are in the same environment.
    """
    import difflib  # only for the few names that come close

    by_word: dict[str, list[str]] = {}
    for name in known:
        for word in name.split("_"):
            by_word.setdefault(word, []).append(name)
    found = []
    for given in sorted(names):
        if given in known or given in ALIASES or given in REFUSED or given in EXPLAINED:
            continue
        if "_" not in given or given != given.upper() or not names[given].strip():
            continue
        close = {name for word in given.split("_") for name in by_word.get(word, ())}
        best = difflib.get_close_matches(given, close, n=1, cutoff=0.88)
        if best:
            found.append((given, best[0]))
    return found
