"""The settings of the vault: classification, embeddings, stale documents."""

from __future__ import annotations

from dataclasses import dataclass

from quire.settings import setting_kinds, setting_tables
from quire.settings.setting_kinds import setting


@dataclass(frozen=True)
class VaultSettings:
    """The vault: classification, embeddings, stale documents."""

    local_classifier: bool = setting(
        "LOCAL_CLASSIFIER",
        "true",
        setting_kinds.boolean(),
        "Whether documents are classified on this machine where no AI is configured.",
    )
    classify_tier: str = setting(
        "CLASSIFY_TIER",
        "fast",
        setting_kinds.choice("primary", "secondary", "fast"),
        "The tier of models that classify documents.",
    )
    classify_timeout_s: float = setting(
        "CLASSIFY_TIMEOUT",
        "90s",
        setting_kinds.duration("100ms", "1h"),
        "The time that all calls of one classification of a text have together.",
    )
    classify_image_timeout_s: float = setting(
        "CLASSIFY_IMAGE_TIMEOUT",
        "90s",
        setting_kinds.duration("100ms", "1h"),
        "The time that all calls of one classification of an image have together.",
    )
    classify_download_timeout_s: float = setting(
        "CLASSIFY_DOWNLOAD_TIMEOUT",
        "60s",
        setting_kinds.duration("100ms", "1h"),
        "The time to fetch an image from the object store before it is classified.",
    )
    classify_call_timeout_s: float = setting(
        "CLASSIFY_CALL_TIMEOUT",
        "30s",
        setting_kinds.duration("100ms", "1h"),
        "The time of one call of a classification; a model that hangs costs no more than this.",
    )
    classify_wait_s: float = setting(
        "CLASSIFY_WAIT",
        "2s",
        setting_kinds.duration("0", "1h"),
        "A document whose text is read completes after this time even if its classification has not ended.",
    )
    classify_max_attempts: int = setting(
        "CLASSIFY_MAX_ATTEMPTS",
        "12",
        setting_kinds.integer(1, 1_000),
        "How many rounds of calls one attempt at a document may use for its classification.",
    )
    classify_retry_for_s: float = setting(
        "CLASSIFY_RETRY_FOR",
        "24h",
        setting_kinds.duration("1s", "30d"),
        "How long a classification waits for a model that is unavailable.",
    )
    classify_concurrency: int = setting(
        "CLASSIFY_CONCURRENCY",
        "10",
        setting_kinds.integer(1, 1_000),
        "How many classifications of texts, and how many of images, a worker runs at once.",
    )
    jobs_per_second: int = setting(
        "VAULT_JOBS_PER_SECOND",
        "20",
        setting_kinds.integer(0, 100_000),
        "How many classification and embedding jobs all workers together start in a second; 0 means no limit.",
    )
    classify_quota_delay_s: float = setting(
        "CLASSIFY_QUOTA_DELAY",
        "60s",
        setting_kinds.duration("0", "1h"),
        "The wait before a classification is tried again after a quota was used up or a model overloaded.",
    )
    classify_rate_limit_delay_s: float = setting(
        "CLASSIFY_RATE_LIMIT_DELAY",
        "30s",
        setting_kinds.duration("0", "1h"),
        "The same after too many requests.",
    )
    classify_retry_delay_s: float = setting(
        "CLASSIFY_RETRY_DELAY",
        "5s",
        setting_kinds.duration("0", "1h"),
        "The same after a timeout, a lost connection, a server error or an invalid answer.",
    )
    timeout_s: float = setting(
        "VAULT_TIMEOUT",
        "10m",
        setting_kinds.duration("1s", "7d"),
        "The time of one round of classification, the wait for a free model included.",
    )
    stale_after_s: float = setting(
        "VAULT_STALE_AFTER",
        "10m",
        setting_kinds.duration("100ms", "7d"),
        "A document that is pending for longer is stale: the dashboard offers a retry and the sweeper resumes it.",
    )
    sweep_interval_s: float = setting(
        "VAULT_SWEEP_INTERVAL",
        "30s",
        setting_kinds.duration("50ms", "1d"),
        "The interval at which the sweeper checks for stale documents and missing embeddings.",
    )
    max_revivals: int = setting(
        "VAULT_MAX_REVIVALS",
        "3",
        setting_kinds.integer(0, 100),
        "How often the sweeper resumes a stale document without a running job before the document fails.",
    )
    embedding_provider: str = setting(
        "EMBEDDING_PROVIDER",
        "local",
        setting_kinds.choice("local", "openai", "off"),
        "What computes the vectors for similarity: the model bundled with Quire (local), OpenAI, or nothing (off).",
    )
    embedding_model: str = setting(
        "EMBEDDING_MODEL",
        "text-embedding-3-small",
        setting_tables.model(),
        "OpenAI's embedding model. After a change everything is embedded again in the background.",
    )
    embedding_dimensions: int = setting(
        "EMBEDDING_DIMENSIONS",
        "256",
        setting_kinds.integer(8, 4_096),
        "The length of OpenAI's vectors; longer ones cost space and little else.",
    )
    embedding_chunks: int = setting(
        "EMBEDDING_CHUNKS",
        "2000",
        setting_kinds.integer(0, 4_000),
        "How many chunks of a document get a vector of their own, from its beginning; 0 means none. With OpenAI's "
        "default model 2,000 chunks cost up to two US cents.",
    )
    embedding_timeout_s: float = setting(
        "EMBEDDING_TIMEOUT", "30s", setting_kinds.duration("100ms", "10m"), "The time of one embedding."
    )
