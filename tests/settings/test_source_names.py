"""Names of the source documents: mapped, refused or explained, never ignored in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from quire.errors import SettingsError
from quire.settings import load
from quire.settings.sections import declarations
from quire.settings.source_names import ALIASES, EXPLAINED, FILE_EXPLAINED, FILE_NAMES
from tests.support.environment import ROOT

CONFIGS = ROOT / "configs"
FLEET = {
    "API_KEYS": "red:0123456789abcdef",
    "WEB_PASSWORD": "long enough",
    "SECRET_KEY": "0123456789abcdef0123456789abcdef",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "OBJECT_STORE": "s3://bucket/prefix",
    "DATABASE_URL": "postgresql://127.0.0.1:1/quire",
}
BATCHING_SERVICE = """
server:
  port: ${PORT:-8081}
  max_connections: 3000
  read_timeout: 300s
  write_timeout: 300s
  max_request_size: 52428800
  rate_limit_per_client: 11
  graceful_shutdown_timeout: 31s
  backpressure_threshold: 2400
queue:
  redis_url: "redis://redis-cluster:6379"
  redis_cluster_urls:
    - "redis://redis-1:6379"
    - "redis://redis-2:6379"
  max_size: 9000
  ttl: 5h
  queue_key: "dolphin:requests"
  processing_key: "dolphin:processing"
  max_retry_count: 2
  recovery_interval: 5m
batch_formation:
  max_batch_size: 16
  min_batch_size: 1
  check_interval: 50ms
modal:
  base_url: "https://parser.example.org"
  timeout: 121s
  max_retries: 3
  retry_delay: 3s
  max_concurrent_batches: 3
  circuit_breaker:
    failure_threshold: 4
    cooldown_period: 29s
    health_check_interval: 9s
  connection_pool:
    max_idle_connections: 10
    idle_connection_timeout: 90s
response:
  timeout: 14m
  cleanup_interval: 5m
monitoring:
  enable_metrics: true
  prometheus_port: 9090
  log_level: "warn"
"""


def test_mapped_names_are_settings() -> None:
    assert {*ALIASES.values(), *FILE_NAMES.values()} <= set(declarations())
    assert not {*ALIASES, *EXPLAINED} & set(declarations())


def test_file_of_the_batching_service_sets_ours_when_given_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "batching.yaml"
    file.write_text(BATCHING_SERVICE)
    settings = load({"QUIRE_CONFIG": str(file)})
    batching = settings.batching
    assert settings.http.port == 8081
    assert settings.http.shutdown_timeout_s == 31
    assert settings.coordination.redis_url == "redis://redis-cluster:6379"
    assert batching.max_request_bytes == 50 << 20
    assert batching.rate_limit_per_client == 11
    assert batching.backpressure_threshold == 2400
    assert (batching.max_queue_size, batching.ttl_s, batching.max_retry_count) == (9000, 5 * 3600, 2)
    assert (batching.max_batch_size, batching.max_concurrent_batches) == (16, 3)
    assert batching.backend_url == "https://parser.example.org"
    assert (batching.backend_timeout_s, batching.retry_delay_s) == (121, 3)
    assert (batching.failure_threshold, batching.cooldown_s, batching.health_check_interval_s) == (4, 29, 9)
    assert batching.response_timeout_s == 14 * 60
    assert settings.logging.level == "warn"
    told = " ".join(settings.notes)
    assert [name for name in FILE_EXPLAINED if name.startswith("redis.") is False and name not in told] == []


def test_shorter_file_of_the_batching_service_is_understood_too(tmp_path: Path) -> None:
    file = tmp_path / "production.yaml"
    file.write_text(
        "modal:\n  api_endpoint: ${MODAL_API_ENDPOINT}\nredis:\n  url: ${REDIS_URL}\n  pool_size: 10\n"
        "queue:\n  max_size: 10000\n  max_batch_size: 8\n"
    )
    environ = {"MODAL_API_ENDPOINT": "https://p.example.org/x", "REDIS_URL": "redis://r:1"}
    settings = load({**environ, "QUIRE_CONFIG": str(file)})
    assert settings.batching.backend_url == "https://p.example.org/x"
    assert settings.batching.max_batch_size == 8
    assert any("redis.pool_size" in note for note in settings.notes)


def test_entry_that_means_nothing_stops_the_start_when_in_such_a_file(tmp_path: Path) -> None:
    file = tmp_path / "typo.yaml"
    file.write_text("modal:\n  tiemout: 3s\n")
    with pytest.raises(SettingsError, match=r"modal\.tiemout in .* is not a setting"):
        load({"QUIRE_CONFIG": str(file)})


def test_alias_sets_our_setting_and_says_so_when_in_the_environment() -> None:
    settings = load({"MODAL_API_ENDPOINT": "https://parser.example.org/parse"})
    assert settings.batching.backend_url == "https://parser.example.org/parse"
    shown = next(view for view in settings.describe() if view.name == "BATCH_BACKEND_URL")
    assert shown.origin == "environment (MODAL_API_ENDPOINT)"


def test_start_stops_when_alias_and_setting_differ() -> None:
    with pytest.raises(SettingsError, match="the same setting"):
        load({"MODAL_API_ENDPOINT": "https://a.example.org", "BATCH_BACKEND_URL": "https://b.example.org"})


@pytest.mark.parametrize("value", ["postgres", "s3"])
def test_start_stops_with_what_to_use_when_a_name_would_move_data(value: str) -> None:
    with pytest.raises(SettingsError, match=r"RESULT_STORE is not a setting.*OBJECT_STORE"):
        load({"RESULT_STORE": value})


def test_name_without_counterpart_is_explained_when_given() -> None:
    (note,) = load({"QUEUE_POLL_INTERVAL": "100ms"}).notes
    assert note.startswith("QUEUE_POLL_INTERVAL has no effect: workers wait for entries with blocking reads")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("MAX_CONCURENT_BATCHES", "MAX_CONCURRENT_BATCHES"),
        ("OPEN_AI_API_KEY", "OPENAI_API_KEY"),
        ("JOB_MAX_ATTEMPT", "JOB_MAX_ATTEMPTS"),
        ("IMAGE_JPG_QUALITY", "IMAGE_JPEG_QUALITY"),
        ("DOCUMENT_PROCESSING_TIMEOUTS", "DOCUMENT_PROCESSING_TIMEOUT"),
    ],
)
def test_close_spelling_is_named_in_a_warning_with_the_right_name(given: str, meant: str) -> None:
    assert load({given: "1"}).notes == (
        f"{given} in the environment is not a setting; did you mean {meant}?",
    )


@pytest.mark.parametrize(
    "given",
    ["LS_COLORS", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "REDIS_PORT", "LC_ALL", "PIP_INDEX", "JOB_NAME"],
)
def test_variables_of_other_programs_are_left_alone(given: str) -> None:
    assert load({given: "x"}).notes == ()


@pytest.mark.parametrize("name", ["local.yaml", "production.yaml"])
def test_shipped_configuration_loads(name: str) -> None:
    settings = load({**FLEET, "QUIRE_CONFIG": str(CONFIGS / name)})
    assert settings.notes == ()
    assert settings.batching.max_batch_size == 32
    if name == "production.yaml":
        settings.check_exposure()
        assert not settings.http.run_dispatcher


def test_production_configuration_names_what_is_missing_when_secrets_are_not_set() -> None:
    with pytest.raises(SettingsError, match="SECRET_KEY"):
        load({"QUIRE_CONFIG": str(CONFIGS / "production.yaml")})
