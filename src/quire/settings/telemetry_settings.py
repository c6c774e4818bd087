"""The settings of logs, metrics and traces."""
# ruff: noqa: RUF009 - `setting` is `dataclasses.field` with a description; its values are immutable

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from quire.settings import setting_kinds
from quire.settings.setting_kinds import setting


@dataclass(frozen=True)
class LoggingSettings:
    """Logs."""

    level: str = setting(
        "LOG_LEVEL",
        "info",
        setting_kinds.choice("debug", "info", "warn", "error"),
        "The least important level logged.",
    )
    pretty: str = setting(
        "LOG_PRETTY",
        "auto",
        setting_kinds.choice("auto", "true", "false"),
        "Readable lines instead of JSON; `auto` means on a terminal.",
    )
    file: Path | None = setting(
        "LOG_FILE", "", setting_kinds.optional_path(), "A file that gets the log as well, as JSON lines."
    )
    max_size_bytes: int = setting(
        "LOG_MAX_SIZE_MB",
        "100MB",
        setting_kinds.size("1KB", "1TB", bare_unit="MB"),
        "The size at which the log file is rotated. Processes on one host may share the file.",
    )
    max_backups: int = setting(
        "LOG_MAX_BACKUPS", "10", setting_kinds.integer(1, 1_000), "How many rotated log files are kept."
    )
    max_age_days: int = setting(
        "LOG_MAX_AGE_DAYS",
        "30",
        setting_kinds.integer(0, 3_650),
        "After how many days a rotated log file is deleted; 0 never.",
    )
    compress: bool = setting(
        "LOG_COMPRESS", "true", setting_kinds.boolean(), "Whether rotated log files are compressed (gzip)."
    )
    send_to_axiom: bool = setting(
        "SEND_LOGS_TO_AXIOM",
        "false",
        setting_kinds.boolean(),
        "Whether log lines from `info` up are also sent to Axiom; needs the extra `axiom`.",
    )
    axiom_api_key: str = setting("AXIOM_API_KEY", "", setting_kinds.secret(), "The API token of Axiom.")
    axiom_org_id: str = setting(
        "AXIOM_ORG_ID", "", setting_kinds.text(), "The organisation at Axiom, for personal tokens."
    )
    axiom_dataset: str = setting(
        "AXIOM_DATASET",
        "dev",
        setting_kinds.text(),
        "The environment; lines go to the dataset `<environment>_aidispatcher`.",
    )
    axiom_url: str = setting(
        "AXIOM_URL", "https://api.axiom.co", setting_kinds.url("https", "http"), "The address of Axiom's API."
    )


@dataclass(frozen=True)
class MetricsSettings:
    """Metrics of `quire worker`; `quire serve` has them at `GET /metrics` of its own port."""

    host: str = setting(
        "METRICS_HOST", "127.0.0.1", setting_kinds.host(), "The address on which a worker serves its metrics."
    )
    port: int = setting(
        "METRICS_PORT",
        "0",
        setting_kinds.integer(0, 65_535),
        "The port on which a worker serves its metrics, one for each worker of a host; 0 serves none.",
    )


@dataclass(frozen=True)
class TracingSettings:
    """Traces by OpenTelemetry; need the extra `otel`."""

    endpoint: str = setting(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "",
        setting_kinds.url("http", "https"),
        "The collector that gets traces as OTLP over HTTP, as in `http://127.0.0.1:4318`; when empty, there are none.",
    )
    headers: str = setting(
        "OTEL_EXPORTER_OTLP_HEADERS",
        "",
        setting_kinds.secret(),
        "Headers for the collector, as in `name=value,name=value`.",
    )
    service_name: str = setting(
        "OTEL_SERVICE_NAME", "quire", setting_kinds.text(), "The name of this service in traces."
    )
    sampled: float = setting(
        "OTEL_TRACES_SAMPLER_ARG",
        "1",
        setting_kinds.number(0, 1),
        "The share of traces that is recorded, for requests whose caller has not decided it.",
    )
