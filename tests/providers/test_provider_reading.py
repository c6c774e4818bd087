from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
from collections.abc import Callable

import pytest

from quire.cli.doctor_ai import missing_models
from quire.cli.doctor_findings import FindingLevel
from quire.providers.configured_providers import ProviderModels
from quire.providers.provider_protocol import (
    Provider,
    ProviderAuthError,
    ProviderServerError,
    SeenLimits,
    StopReason,
)
from quire.simulator.simulated_answers import picture_mark
from quire.simulator.simulator_thread import RunningSimulator
from tests.providers.conftest import IMAGE, KEY, MODEL, PROMPT, TEXT, page
from tests.providers.recording import Recorded, recording_server
from tests.support.waiting import DEADLINE_S

IMAGE_TOKENS = {"openai": 1105, "server": 1105, "anthropic": 1568}


def tokens(text: str) -> int:
    return -(-len(text) // 4)


async def test_page_is_read_when_all_is_well(provider: Provider, kind: str) -> None:
    answer = await provider.read(page())
    assert answer.text == TEXT
    assert answer.stop is StopReason.DONE
    assert answer.usage.tokens_in == tokens(PROMPT) + tokens(TEXT) + IMAGE_TOKENS[kind]
    assert answer.usage.tokens_out == tokens(TEXT)
    assert answer.limits == SeenLimits()


async def test_picture_arrives_whole_when_there_is_no_text(provider: Provider) -> None:
    answer = await provider.read(page(""))
    assert f"[Picture {picture_mark(base64.b64encode(IMAGE).decode())}]" in answer.text


async def test_text_arrives_exactly_when_it_has_quotes_and_other_scripts(provider: Provider) -> None:
    odd = 'He said "no"\\n\n\tŽluťoučký kůň 漢字 🦉 \u2028 </script>'
    assert (await provider.read(page(odd))).text == odd


async def test_only_the_current_page_is_echoed_when_context_goes_along(provider: Provider) -> None:
    text = (
        "=== Page 1 (context) ===\nbefore\n=== Page 2 (current) ===\nmiddle\n=== Page 3 (context) ===\nafter"
    )
    assert (await provider.read(page(text))).text == "middle"


async def test_many_calls_go_out_together_when_many_are_made(
    provider: Provider, sim: RunningSimulator
) -> None:
    sim.play({"models": [{"model": MODEL, "latency": 0.3}]})
    answers = await asyncio.gather(*(provider.read(page(f"page {n}")) for n in range(40)))
    assert [one.text for one in answers] == [f"page {n}" for n in range(40)]
    assert sim.stats()["models"][MODEL]["in_flight_max"] > 20


async def test_limits_are_seen_when_the_headers_tell(provider: Provider, sim: RunningSimulator) -> None:
    sim.play({"models": [{"model": MODEL, "rpm": 600, "tpm": 90_000}]})
    answer = await provider.read(page())
    seen = answer.limits
    assert (seen.requests_per_minute, seen.tokens_per_minute) == (600, 90_000)
    assert seen.requests_left == 599
    assert seen.tokens_left is not None
    assert 90_000 - answer.usage.tokens_in - answer.usage.tokens_out <= seen.tokens_left < 90_000
    assert seen.requests_reset_s is not None
    assert 0 <= seen.requests_reset_s <= 2
    assert seen.tokens_reset_s is not None
    assert 0 <= seen.tokens_reset_s <= 4


async def test_check_passes_when_key_and_model_work(provider: Provider, sim: RunningSimulator) -> None:
    await provider.check(MODEL)
    assert sim.stats()["models"][MODEL]["calls"] == 1
    assert sim.stats()["models"][MODEL]["tokens_out"] < 20


async def test_check_says_why_when_the_key_is_wrong(provider: Provider, sim: RunningSimulator) -> None:
    sim.play({"api_keys": ["another"]})
    with pytest.raises(ProviderAuthError):
        await provider.check(MODEL)


async def test_request_has_what_the_protocol_wants_when_sent(
    make: Callable[..., Provider], kind: str
) -> None:
    async with recording_server() as (url, seen):
        with pytest.raises(ProviderServerError):  # it answers `{}`
            await make(kind, url).read(page())
    (one,) = seen
    assert one.headers["Authorization"] == f"Bearer {KEY}"
    assert one.headers["Content-Type"] == "application/json"
    encoded = base64.b64encode(IMAGE).decode()
    if kind == "anthropic":
        assert one.path == "/v1/messages"
        assert one.headers["anthropic-version"]
        assert one.data == {
            "model": MODEL,
            "max_tokens": 4096,
            "system": PROMPT,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/jpeg", "data": encoded},
                        },
                        {"type": "text", "text": TEXT},
                    ],
                }
            ],
        }
        return
    assert one.path == "/chat/completions"
    picture = {"url": f"data:image/jpeg;base64,{encoded}"}
    assert one.data == {
        "model": MODEL,
        ("max_tokens" if kind == "server" else "max_completion_tokens"): 4096,
        "messages": [
            {"role": "system", "content": PROMPT},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": TEXT},
                    {
                        "type": "image_url",
                        "image_url": picture | ({} if kind == "server" else {"detail": "high"}),
                    },
                ],
            },
        ],
    }


async def test_query_and_key_header_are_sent_when_the_address_is_azure_style(
    make: Callable[..., Provider],
) -> None:
    async with recording_server() as (url, seen):
        provider = make("server", f"{url}/openai/deployments/d?api-version=2024-10-21")
        with pytest.raises(ProviderServerError):
            await provider.read(page())
    assert seen[0].path == "/openai/deployments/d/chat/completions"
    assert seen[0].query == {"api-version": "2024-10-21"}
    assert seen[0].headers["api-key"] == KEY


async def test_environment_is_not_obeyed_when_the_sdks_would(
    make: Callable[..., Provider], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "OPENAI_ORG_ID": "org-foreign",
        "OPENAI_PROJECT_ID": "proj-foreign",
        "OPENAI_CUSTOM_HEADERS": "X-Foreign: 1\nAuthorization: Bearer foreign",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/foreign",
        "OPENAI_API_KEY": "foreign",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Foreign: 1\nAuthorization: Bearer foreign",
        "ANTHROPIC_AUTH_TOKEN": "foreign",
        "ANTHROPIC_API_KEY": "foreign",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/foreign",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with recording_server() as (url, seen):
        with pytest.raises(ProviderServerError):
            await make(kind, url).read(page())
    sent: Recorded = seen[0]
    assert not any("foreign" in f"{name}{value}".lower() for name, value in sent.headers.items())


async def test_redirect_is_not_followed_when_a_server_sends_one(
    make: Callable[..., Provider], kind: str, sim: RunningSimulator
) -> None:
    async with recording_server(redirect_to=sim.url) as (url, seen):
        with pytest.raises(ProviderServerError):
            await make(kind, url).read(page())
    assert len(seen) == 1
    assert sim.stats()["total"]["calls"] == 0


MADE_AND_CLOSED = """
import asyncio, sys
from quire.clock import SystemClock
from quire.providers.anthropic_provider import AnthropicOptions, AnthropicProvider
from quire.providers.openai_provider import OpenAIOptions, OpenAIProvider
asyncio.run(OpenAIProvider(OpenAIOptions(api_key="key"), SystemClock()).close())
asyncio.run(AnthropicProvider(AnthropicOptions(api_key="key"), SystemClock()).close())
print(sorted({"openai", "anthropic"} & set(sys.modules)))
"""


def test_nothing_is_loaded_when_a_provider_is_only_made_and_closed() -> None:
    """In a process of its own: in this one the SDKs are loaded."""
    done = subprocess.run(
        [sys.executable, "-c", MADE_AND_CLOSED],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


async def test_models_are_listed_when_the_provider_has_a_list(
    provider: Provider, sim: RunningSimulator
) -> None:
    sim.play({"models": [{"model": "one"}, {"model": "two-20260101"}]})
    assert set(await provider.models()) >= {"one", "two-20260101"}


async def test_doctor_warns_when_a_configured_model_is_not_listed(
    provider: Provider, sim: RunningSimulator
) -> None:
    sim.play({"models": [{"model": "one"}, {"model": "two-20260101"}]})
    assert await missing_models(provider, ProviderModels("one", "two", "two-latest")) == []
    found = await missing_models(provider, ProviderModels("one", "gone", "one"))
    assert [one.level for one in found] == [FindingLevel.WARN]
    assert "gone" in found[0].text
    assert "two-20260101" in found[0].advice
