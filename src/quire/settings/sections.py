"""Every setting, declared once: its name, its default, its kind and one sentence about it.

Reading, `quire config` and docs/settings.md all come from these declarations.
"""
# ruff: noqa: RUF009 - `setting` is `dataclasses.field` with a description; its values are immutable

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from quire.errors import SettingsError
from quire.settings import setting_kinds
from quire.settings.ai_settings import AiSettings
from quire.settings.batching_settings import BatchingSettings
from quire.settings.bucket_settings import AwsSettings, CloudsSettings
from quire.settings.connection_settings import ConnectionsSettings
from quire.settings.door_settings import DoorsSettings
from quire.settings.extraction_settings import ExtractionSettings
from quire.settings.reading_settings import (
    ImagesSettings,
    LimitsSettings,
    OcrSettings,
    PageClassSettings,
    ReadingSettings,
)
from quire.settings.retention_settings import RetentionSettings
from quire.settings.setting_kinds import ApiKey, Declaration, setting
from quire.settings.telemetry_settings import LoggingSettings, MetricsSettings, TracingSettings
from quire.settings.vault_settings import VaultSettings

DEFAULT_ORIGIN = "default"


@dataclass(frozen=True)
class SettingView:
    """One setting in a form that is safe to show."""

    name: str
    value_shown: str
    origin: str
    description: str
    section: str


@dataclass(frozen=True)
class GeneralSettings:
    """Where Quire keeps its things."""

    config_file: Path | None = setting(
        "QUIRE_CONFIG", "", setting_kinds.optional_path(), "The YAML or TOML file with further settings."
    )
    data_dir: Path = setting(
        "DATA_DIR",
        "./quire-data",
        setting_kinds.path(),
        "The folder that holds everything Quire keeps on this machine.",
    )
    min_free_disk_bytes: int = setting(
        "MIN_FREE_DISK",
        "1GB",
        setting_kinds.size("0B", "1000TB", bare_unit="MB"),
        "With less free space than this at DATA_DIR, `/health` is `degraded`; with less than a sixteenth of it, a "
        "process takes no work, uploads or images until there is twice as much.",
    )


@dataclass(frozen=True)
class HttpSettings:
    """The HTTP service (`quire serve`)."""

    host: str = setting("HOST", "127.0.0.1", setting_kinds.host(), "The address that the service listens on.")
    port: int = setting("PORT", "8080", setting_kinds.integer(0, 65_535), "The port; 0 takes any free one.")
    trusted_proxies: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = setting(
        "TRUSTED_PROXIES",
        "",
        setting_kinds.networks(),
        "Proxies whose X-Forwarded-For header names the client, for limits by client address.",
    )
    run_dispatcher: bool = setting(
        "RUN_DISPATCHER", "true", setting_kinds.boolean(), "Whether `quire serve` also runs workers."
    )
    shutdown_timeout_s: float = setting(
        "SHUTDOWN_TIMEOUT",
        "30s",
        setting_kinds.duration("0", "1h"),
        "How long work in hand may go on after SIGTERM before it is handed back.",
    )
    shutdown_delay_s: float = setting(
        "SHUTDOWN_DELAY",
        "0s",
        setting_kinds.duration("0", "1h"),
        "How long `quire serve` still answers requests after SIGTERM, while `/health/ready` answers 503: a load "
        "balancer sends them elsewhere meanwhile.",
    )


@dataclass(frozen=True)
class CoordinationSettings:
    """Queues and job state."""

    redis_url: str = setting(
        "REDIS_URL",
        "",
        setting_kinds.server_url(
            *("redis", "rediss", "unix"),
            *("redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"),
        ),
        "The Redis or Valkey server; when empty, one is run inside the data directory. Several sentinels or nodes have "
        "commas between: `redis+sentinel://a:26379,b:26379/name/0`, `redis+cluster://a:6379,b:6379`.",
    )
    redis_ca_file: Path | None = setting(
        "REDIS_CA_FILE",
        "",
        setting_kinds.optional_path(),
        "The certificate authority of a server that is reached over TLS (`rediss…`); when empty, those of the system.",
    )
    sentinel_username: str = setting(
        "REDIS_SENTINEL_USERNAME",
        "",
        setting_kinds.text(),
        "The user at the sentinels; the user in REDIS_URL is the one at the servers they watch.",
    )
    sentinel_password: str = setting(
        "REDIS_SENTINEL_PASSWORD",
        "",
        setting_kinds.secret(),
        "The password of that user, or of the sentinels.",
    )


@dataclass(frozen=True)
class CatalogSettings:
    """Documents, tags and search."""

    database_url: str = setting(
        "DATABASE_URL",
        "",
        setting_kinds.url("postgresql", "postgres", has_many_hosts=True),
        "The PostgreSQL server, with pgvector; when empty, an SQLite file inside the data directory. A primary and its "
        "replicas have commas between: `postgresql://quire@a,b:5433/quire`; the one that takes writes is used. Options "
        "are `sslmode`, `sslrootcert`, `sslcert`, `sslkey`, `connect_timeout` (10 seconds for each server), "
        "`target_session_attrs`, `application_name`, `host` and `port`.",
    )


@dataclass(frozen=True)
class ObjectsSettings:
    """Originals and results."""

    store: str = setting(
        "OBJECT_STORE",
        "",
        setting_kinds.url("s3", "gs", "az", "file", or_path=True),
        "The bucket and prefix, or a folder; when empty, `objects` inside the data directory.",
    )


@dataclass(frozen=True)
class JobsSettings:
    """Jobs: how long they may take, how often they are tried, how long they are kept."""

    ttl_s: float = setting(
        "JOB_TTL",
        "7d",
        setting_kinds.duration("1m", "3650d"),
        "How long a finished job and its result are kept.",
    )
    max_attempts: int = setting(
        "JOB_MAX_ATTEMPTS",
        "3",
        setting_kinds.integer(1, 100),
        "Attempts at one unit of work; 1 means no retries.",
    )
    sla_max_age_s: float = setting(
        "JOB_SLA_MAX_AGE",
        "0",
        setting_kinds.duration("0", "30d"),
        "A job that no worker has started after this time fails with a reason; 0 switches this off.",
    )
    retry_base_delay_s: float = setting(
        "RETRY_BASE_DELAY", "2s", setting_kinds.duration("0", "1h"), "The wait before the second attempt."
    )
    retry_jitter_s: float = setting(
        "RETRY_JITTER", "200ms", setting_kinds.duration("0", "1h"), "The most that chance adds to a wait."
    )
    retry_backoff_factor: float = setting(
        "RETRY_BACKOFF_FACTOR",
        "2.0",
        setting_kinds.number(1, 100),
        "What each further wait is multiplied by.",
    )
    processing_timeout_s: float = setting(
        "DOCUMENT_PROCESSING_TIMEOUT",
        "3m",
        setting_kinds.duration("1s", "30d"),
        "The time a document has, counted from when its processing starts.",
    )
    timeout_per_page_s: float = setting(
        "DOCUMENT_TIMEOUT_PER_PAGE",
        "2s",
        setting_kinds.duration("0", "1h"),
        "The time a document has for each of its pages, where that is longer.",
    )
    pages_in_queue_per_document: int = setting(
        "PAGES_IN_QUEUE_PER_DOCUMENT",
        "128",
        setting_kinds.integer(1, 5_000),
        "Pages of one document in the queue at a time, so that a long one doesn't starve the others.",
    )


@dataclass(frozen=True)
class WorkerSettings:
    """Workers, inside `quire serve` or as `quire worker`."""

    concurrency: int = setting(
        "WORKER_CONCURRENCY",
        "8",
        setting_kinds.integer(1, 1_024),
        "Units of work that one worker has in hand.",
    )
    ttl_s: float = setting(
        "WORKER_TTL",
        "10s",
        setting_kinds.duration("500ms", "1h"),
        "A worker silent for so long counts as dead and its work goes to others.",
    )


@dataclass(frozen=True)
class AuthSettings:
    """Who may use the service."""

    api_keys: tuple[ApiKey, ...] = setting(
        "API_KEYS", "", setting_kinds.api_keys(), "The keys of the API as `team:key`, comma-separated."
    )
    web_username: str = setting(
        "WEB_USERNAME", "admin", setting_kinds.text(), "The user name of the dashboard."
    )
    web_password: str = setting("WEB_PASSWORD", "", setting_kinds.secret(), "The password of the dashboard.")
    web_team: str = setting(
        "WEB_TEAM",
        "",
        setting_kinds.text(),
        "The team that the dashboard's user belongs to; when empty, the first one of API_KEYS.",
    )
    web_session_ttl_s: float = setting(
        "WEB_SESSION_TTL",
        "12h",
        setting_kinds.duration("1m", "30d"),
        "How long a dashboard session lasts; using the dashboard extends it.",
    )
    secret_key: str = setting(
        "SECRET_KEY",
        "",
        setting_kinds.secret(),
        "The key that seals document passwords; when empty, one is made and kept in the data directory.",
    )
    internal_token: str = setting(
        "INTERNAL_TOKEN",
        "",
        setting_kinds.secret(),
        "The token of an external dispatcher that reports pages to `/internal/…`; when empty, they are closed.",
    )


@dataclass(frozen=True)
class CallbacksSettings:
    """Calls to `callback_url` when a job ends."""

    secret: str = setting(
        "CALLBACK_SECRET", "", setting_kinds.secret(), "The key that callbacks are signed with."
    )
    max_attempts: int = setting(
        "CALLBACK_MAX_ATTEMPTS", "5", setting_kinds.integer(1, 100), "Attempts at one callback."
    )


@dataclass(frozen=True)
class DownloadsSettings:
    """Sources and callbacks given as links."""

    allow_private_urls: bool = setting(
        "ALLOW_PRIVATE_URLS",
        "false",
        setting_kinds.boolean(),
        "Whether links may lead into private networks.",
    )
    timeout_s: float = setting(
        "DOWNLOAD_TIMEOUT", "60s", setting_kinds.duration("100ms", "1d"), "The time a download has."
    )
    max_redirects: int = setting(
        "DOWNLOAD_MAX_REDIRECTS",
        "5",
        setting_kinds.integer(0, 50),
        "Redirects followed before a link is given up.",
    )
    files_base: Path | None = setting(
        "FILES_BASE",
        "",
        setting_kinds.local_folder(),
        "The folder that `file://` sources must be under; when empty, such sources are refused.",
    )


@dataclass(frozen=True)
class ClientSettings:
    """Commands that talk to a running service (`quire jobs`, `quire dlq`)."""

    url: str = setting(
        "QUIRE_URL",
        "http://127.0.0.1:8080",
        setting_kinds.url("http", "https"),
        "The address of the service.",
    )
    api_key: str = setting("QUIRE_API_KEY", "", setting_kinds.secret(), "The key to use with it.")


@dataclass(frozen=True)
class Settings:
    """All settings. `Settings()` has the defaults; `load` reads the real ones."""

    general: GeneralSettings = field(default_factory=GeneralSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    connections: ConnectionsSettings = field(default_factory=ConnectionsSettings)
    coordination: CoordinationSettings = field(default_factory=CoordinationSettings)
    objects: ObjectsSettings = field(default_factory=ObjectsSettings)
    catalog: CatalogSettings = field(default_factory=CatalogSettings)
    aws: AwsSettings = field(default_factory=AwsSettings)
    clouds: CloudsSettings = field(default_factory=CloudsSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    limits: LimitsSettings = field(default_factory=LimitsSettings)
    reading: ReadingSettings = field(default_factory=ReadingSettings)
    page_class: PageClassSettings = field(default_factory=PageClassSettings)
    ocr: OcrSettings = field(default_factory=OcrSettings)
    images: ImagesSettings = field(default_factory=ImagesSettings)
    ai: AiSettings = field(default_factory=AiSettings)
    jobs: JobsSettings = field(default_factory=JobsSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    auth: AuthSettings = field(default_factory=AuthSettings)
    callbacks: CallbacksSettings = field(default_factory=CallbacksSettings)
    downloads: DownloadsSettings = field(default_factory=DownloadsSettings)
    batching: BatchingSettings = field(default_factory=BatchingSettings)
    doors: DoorsSettings = field(default_factory=DoorsSettings)
    vault: VaultSettings = field(default_factory=VaultSettings)
    extraction: ExtractionSettings = field(default_factory=ExtractionSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    client: ClientSettings = field(default_factory=ClientSettings)
    origins: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    notes: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Warnings about names that were given and have no effect."""

    @property
    def objects_location(self) -> str:
        """`OBJECT_STORE`, or the default folder inside the data directory."""
        return self.objects.store or str(self.general.data_dir / "objects")

    @property
    def catalog_file(self) -> Path:
        """The SQLite file that is used without `DATABASE_URL`."""
        return self.general.data_dir.absolute() / "catalog.db"

    def describe(self) -> list[SettingView]:
        """Every setting with its value and where that came from; secrets only as "set" or "not set"."""
        views = []
        for one in declarations().values():
            value = getattr(getattr(self, one.section), one.attribute)
            shown = ("set" if value else "not set") if one.kind.secret else one.kind.write(value)
            origin = self.origins.get(one.name, DEFAULT_ORIGIN)
            views.append(SettingView(one.name, shown, origin, one.description, one.section))
        return views

    def check_metrics_exposure(self) -> None:
        """Raises SettingsError where a worker's metrics could be read from outside without a key."""
        if not _is_loopback(self.metrics.host) and not self.auth.api_keys:
            raise SettingsError(
                f"METRICS_HOST is {self.metrics.host}, which others can reach: set API_KEYS first, "
                "or listen on 127.0.0.1."
            )

    def check_exposure(self) -> None:
        """Raises SettingsError where the service could be reached from outside without keys or a password."""
        if _is_loopback(self.http.host):
            return
        values = {"API_KEYS": self.auth.api_keys, "WEB_PASSWORD": self.auth.web_password}
        missing = [name for name, value in values.items() if not value]
        if missing:
            raise SettingsError(
                f"HOST is {self.http.host}, which others can reach: set {' and '.join(missing)} first, "
                "or listen on 127.0.0.1."
            )


def sections() -> Iterator[tuple[str, type[Any]]]:
    """The name and the class of each section, in order."""
    for one in fields(Settings):
        if isinstance(one.default_factory, type) and one.name != "origins":
            yield one.name, one.default_factory


def declarations() -> Mapping[str, Declaration]:
    """Every setting by its name, in order."""
    found: dict[str, Declaration] = {}
    for section, holder in sections():
        for one in fields(holder):
            plain: Declaration = one.metadata["declaration"]
            found[plain.name] = Declaration(
                plain.name, plain.default, plain.kind, plain.description, section, one.name
            )
    return MappingProxyType(found)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
