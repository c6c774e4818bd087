"""The settings of batching: queue, batches and backend."""

from __future__ import annotations

from dataclasses import dataclass

from quire.settings import setting_kinds
from quire.settings.setting_kinds import setting


@dataclass(frozen=True)
class BatchingSettings:
    """`POST /parse`: the images of many waiting callers, sent to a backend in full batches."""

    backend_url: str = setting(
        "BATCH_BACKEND_URL",
        "",
        setting_kinds.url("http", "https"),
        "The batch backend: a base address with `/parse-batch` and `/health`, or the complete address of the batch "
        "endpoint; when empty, pages are read on this machine.",
    )
    backend_path: str = setting(
        "BATCH_BACKEND_PATH",
        "/parse-batch",
        setting_kinds.text(),
        "Appended to BATCH_BACKEND_URL unless that names it already; `-` uses the URL exactly as it is.",
    )
    max_batch_size: int = setting(
        "MAX_BATCH_SIZE", "32", setting_kinds.integer(1, 1_024), "The maximum number of images in one batch."
    )
    max_concurrent_batches: int = setting(
        "MAX_CONCURRENT_BATCHES",
        "4",
        setting_kinds.integer(1, 1_024),
        "Batches at the backend at the same time, of all replicas together.",
    )
    max_queue_size: int = setting(
        "MAX_QUEUE_SIZE",
        "10000",
        setting_kinds.integer(1, 1_000_000),
        "The maximum number of requests in the queue.",
    )
    backpressure_threshold: int = setting(
        "BACKPRESSURE_THRESHOLD",
        "2500",
        setting_kinds.integer(1, 1_000_000),
        "At this queue depth new callers get 503 and an estimate of the wait.",
    )
    rate_limit_per_client: int = setting(
        "RATE_LIMIT_PER_CLIENT",
        "10",
        setting_kinds.integer(0, 1_000_000),
        "Requests a minute for each client (RATE_LIMIT_BY); 0 means no limit.",
    )
    rate_limit_by: str = setting(
        "RATE_LIMIT_BY",
        "address",
        setting_kinds.choice("address", "key"),
        "What identifies a client: its address (behind TRUSTED_PROXIES the forwarded one), or its API key, where "
        "each client has its own.",
    )
    max_request_bytes: int = setting(
        "MAX_REQUEST_SIZE",
        "50MB",
        setting_kinds.size("1KB", "1GB", bare_unit="B"),
        "The largest image accepted, decoded.",
    )
    response_timeout_s: float = setting(
        "RESPONSE_TIMEOUT",
        "15m",
        setting_kinds.duration("100ms", "1d"),
        "How long a caller is held before it gets 408.",
    )
    ttl_s: float = setting(
        "PARSE_TTL", "6h", setting_kinds.duration("1m", "30d"), "How long a request and its result are kept."
    )
    memory_bytes: int = setting(
        "PARSE_MEMORY",
        "256MB",
        setting_kinds.size("1MB", "1TB", bare_unit="MB"),
        "Memory for request bodies until they are sent; other bodies are read back from the object store.",
    )
    backend_timeout_s: float = setting(
        "BATCH_BACKEND_TIMEOUT",
        "120s",
        setting_kinds.duration("100ms", "1h"),
        "The time limit for one call of the backend.",
    )
    max_retry_count: int = setting(
        "MAX_RETRY_COUNT",
        "3",
        setting_kinds.integer(1, 20),
        "Attempts for a single image before its caller gets an error.",
    )
    retry_delay_s: float = setting(
        "RETRY_DELAY",
        "2s",
        setting_kinds.duration("0", "1m"),
        "The wait after the backend failed; it doubles up to 10 s.",
    )
    failure_threshold: int = setting(
        "BATCH_FAILURE_THRESHOLD",
        "5",
        setting_kinds.integer(1, 1_000),
        "Failures in a row that open the backend's breaker.",
    )
    cooldown_s: float = setting(
        "BATCH_COOLDOWN", "30s", setting_kinds.duration("100ms", "1h"), "How long the breaker stays open."
    )
    health_check_interval_s: float = setting(
        "BATCH_HEALTH_INTERVAL",
        "10s",
        setting_kinds.duration("100ms", "1h"),
        "How often the backend's `/health` is checked while the breaker is open or `/health` is requested; "
        "every second while images wait.",
    )
