from __future__ import annotations

from pathlib import Path

import pytest

from quire.clock import SystemClock
from quire.errors import SettingsError
from quire.providers import configured_providers
from quire.providers.configured_providers import ProviderModels
from quire.settings import AiLimit, AiPrice, load

SERVERS = """
ai:
  ai_servers:
    vllm:
      base_url: http://gpu:8000/v1
      api_key: ${VLLM_KEY}
      primary_model: qwen
    ollama: {base_url: "http://localhost:11434/v1", primary_model: "llama3.2:11b", fast_model: tiny}
  ai_limits:
    openai:gpt-4.1: {rpm: 500, tpm: 30000}
    ollama:llama3.2:11b: {rpm: 10}
  ai_prices:
    vllm:qwen: {input: 0.1, output: "0.4"}
  provider_chain: [vllm, ollama]
"""


def test_nothing_is_built_when_nothing_is_configured() -> None:
    assert configured_providers.build(load({}).ai, SystemClock()) == {}
    assert configured_providers.order(load({}).ai) == ("openai", "anthropic")


def test_defaults_are_current_models_and_the_sources_figures_when_nothing_is_set() -> None:
    ai = load({}).ai
    assert configured_providers.models(ai) == {
        "openai": ProviderModels("gpt-6.1-terra", "gpt-6-sol", "gpt-6-luna"),
        "anthropic": ProviderModels("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"),
        "dolphin": ProviderModels("dolphin", "dolphin", "dolphin"),
        "ocr": ProviderModels("local", "local", "local"),
    }
    assert (ai.request_timeout_s, ai.page_total_timeout_s) == (60, 120)
    assert (ai.breaker_base_backoff_s, ai.breaker_max_backoff_s, ai.max_inflight_per_model) == (30, 300, 16)
    assert (ai.send_all_pages, ai.context_radius, ai.max_context_bytes) == (False, 1, 3000)
    assert (ai.max_tokens_out, ai.cache_ttl_s, ai.max_cost_per_document_usd) == (8192, 7 * 86_400, 0)


def test_tables_are_read_when_a_file_has_them(tmp_path: Path) -> None:
    config = tmp_path / "quire.yaml"
    config.write_text(SERVERS)
    ai = load({"QUIRE_CONFIG": str(config), "VLLM_KEY": "k1", "OPENAI_API_KEY": "k2"}).ai
    assert [(one.name, one.api_key) for one in ai.servers] == [("vllm", "k1"), ("ollama", "")]
    assert configured_providers.models(ai)["vllm"] == ProviderModels("qwen", "qwen", "qwen")
    assert configured_providers.models(ai)["ollama"] == ProviderModels("llama3.2:11b", "llama3.2:11b", "tiny")
    assert ai.limits == (
        AiLimit("openai", "gpt-4.1", 500, 30_000),
        AiLimit("ollama", "llama3.2:11b", 10, 0),
    )
    assert ai.prices == (AiPrice("vllm", "qwen", 0.1, 0.4),)
    assert configured_providers.order(ai) == ("openai", "anthropic", "vllm", "ollama")
    assert set(configured_providers.build(ai, SystemClock())) == {"openai", "vllm", "ollama"}


def test_same_tables_are_read_when_the_environment_has_them_as_json() -> None:
    ai = load(
        {
            "AI_SERVERS": '{"vllm": {"base_url": "http://h/v1", "primary_model": "m"}}',
            "AI_LIMITS": '{"vllm:m": {"rpm": 5, "tpm": 0}}',
            "PROVIDER_CHAIN": "vllm, openai",
            "PRIMARY_ENGINE": "vllm",
        }
    ).ai
    assert configured_providers.order(ai) == ("vllm", "anthropic", "openai")
    assert ai.limits == (AiLimit("vllm", "m", 5, 0),)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AI_SERVERS", '{"openai": {"base_url": "http://h/v1", "primary_model": "m"}}'),
        ("AI_SERVERS", '{"vllm": {"base_url": "ftp://h/v1", "primary_model": "m"}}'),
        ("AI_SERVERS", '{"vllm": {"primary_model": "m"}}'),
        ("AI_SERVERS", '{"vllm": {"base_url": "http://h/v1"}}'),
        ("AI_SERVERS", '{"vllm": {"base_url": "http://h/v1", "primary_model": "m", "colour": "red"}}'),
        ("AI_SERVERS", '{"a": {"base_url": "http://h", "primary_model": "m"}, "a": {}}'),
        ("AI_SERVERS", "[]"),
        ("AI_SERVERS", "{"),
        ("AI_LIMITS", '{"openai": {"rpm": 1}}'),
        ("AI_LIMITS", '{"openai:m": {"rpm": -1}}'),
        ("AI_LIMITS", '{"openai:m": {"rpm": [1]}}'),
        ("AI_PRICES", '{"openai:m": {"input": 1}}'),
        ("OPENAI_API_KEY", "two words"),
        ("OPENAI_API_KEY", "clé"),
        ("PRIMARY_ENGINE", "no such!"),
        ("OPENAI_PRIMARY_MODEL", "a b"),
    ],
)
def test_start_stops_when_a_setting_is_malformed(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load({name: value})
    assert caught.value.public.startswith(f"{name} has ")


def test_order_is_refused_when_it_names_nobody() -> None:
    with pytest.raises(SettingsError, match="gemini"):
        configured_providers.order(load({"PROVIDER_CHAIN": "gemini"}).ai)


def test_time_of_a_call_is_the_providers_own_when_set() -> None:
    ai = load({"OPENAI_TIMEOUT": "5s", "REQUEST_TIMEOUT": "9s"}).ai
    assert [configured_providers.timeout_s(ai, name) for name in ("openai", "anthropic", "vllm")] == [5, 9, 9]


def test_tier_picks_the_model_when_asked() -> None:
    models = ProviderModels("p", "s", "f")
    assert [models.of(tier) for tier in ("primary", "secondary", "fast", "")] == ["p", "s", "f", "p"]
