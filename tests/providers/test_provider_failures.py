from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from quire.errors import QuireError
from quire.providers import sdk_channel
from quire.providers.provider_protocol import (
    ContentBlockedError,
    ModelMissingError,
    Provider,
    ProviderAuthError,
    ProviderError,
    ProviderNetworkError,
    ProviderRateLimitedError,
    ProviderServerError,
    ProviderTimeoutError,
    QuotaError,
    RejectedError,
    SeenLimits,
    StopReason,
    TokenUsage,
)
from quire.simulator.simulator_thread import RunningSimulator
from tests.providers.conftest import MODEL, TEXT, page


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ({"fault": "rate_limit"}, ProviderRateLimitedError),
        ({"fault": "rate_limit", "retry_after_s": 7}, ProviderRateLimitedError),
        ({"fault": "quota"}, QuotaError),
        ({"fault": "overloaded"}, QuotaError),
        ({"fault": "overloaded", "status": 529}, QuotaError),
        ({"fault": "server_error"}, ProviderServerError),
        ({"fault": "server_error", "status": 502}, ProviderServerError),
        ({"fault": "server_error", "status": 504}, ProviderServerError),
        ({"fault": "server_error", "status": 408}, ProviderTimeoutError),
        ({"fault": "auth"}, ProviderAuthError),
        ({"fault": "auth", "status": 403}, ProviderAuthError),
        ({"fault": "rejected"}, RejectedError),
        ({"fault": "rejected", "status": 404}, ModelMissingError),
        ({"fault": "rejected", "status": 413}, RejectedError),
        ({"fault": "rejected", "status": 422}, RejectedError),
        ({"fault": "hang"}, ProviderTimeoutError),
        ({"fault": "drip", "interval_s": 0.05}, ProviderTimeoutError),
        ({"fault": "cut"}, ProviderNetworkError),
        ({"fault": "reset"}, ProviderNetworkError),
        ({"fault": "bad_json"}, ProviderServerError),
        ({"fault": "wrong_shape"}, ProviderServerError),
    ],
    ids=lambda value: "-".join(str(one) for one in value.values()) if isinstance(value, dict) else "",
)
async def test_error_has_its_class_when_the_provider_fails(
    provider: Provider, sim: RunningSimulator, rule: dict[str, object], error: type[ProviderError]
) -> None:
    sim.play({"rules": [rule]})
    with pytest.raises(ProviderError) as caught:
        await provider.read(page(timeout_s=0.5 if rule["fault"] in {"hang", "drip"} else 30))
    assert type(caught.value) is error
    assert caught.value.retry_after_s == rule.get("retry_after_s")
    assert sim.stats()["total"]["calls"] == 1  # never tried again by itself


@pytest.mark.parametrize(
    ("fault", "stop", "text"),
    [
        ("refusal", StopReason.REFUSAL, ""),
        ("empty", StopReason.DONE, ""),
        ("truncated", StopReason.LENGTH, TEXT[: len(TEXT) // 2]),
    ],
)
async def test_answer_says_how_it_ended_when_it_is_no_good(
    provider: Provider, sim: RunningSimulator, fault: str, stop: StopReason, text: str
) -> None:
    sim.play({"rules": [{"fault": fault}]})
    answer = await provider.read(page())
    assert (answer.stop, answer.text) == (stop, text)
    assert answer.usage.tokens_in > 0


async def test_answer_repeats_when_the_model_loops(provider: Provider, sim: RunningSimulator) -> None:
    sim.play({"rules": [{"fault": "loop"}]})
    answer = await provider.read(page())
    assert answer.text.count("and so on and so forth") > 100


@pytest.mark.parametrize("kind", ["openai", "server"], indirect=True)
async def test_blocked_page_is_paid_when_the_filter_stops_an_answer(
    provider: Provider, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "content_filter"}]})
    with pytest.raises(ContentBlockedError) as caught:
        await provider.read(page())
    assert caught.value.usage.tokens_in > 1000
    sim.play({"rules": [{"fault": "content_filter_error"}]})
    with pytest.raises(ContentBlockedError) as caught:
        await provider.read(page())
    assert caught.value.usage == TokenUsage()


@pytest.mark.parametrize("kind", ["anthropic"], indirect=True)
async def test_filter_is_a_refusal_when_the_provider_is_anthropic(
    provider: Provider, sim: RunningSimulator
) -> None:
    sim.play({"rules": [{"fault": "content_filter"}]})
    assert (await provider.read(page())).stop is StopReason.REFUSAL


async def test_wait_is_told_when_a_real_limit_is_exceeded(provider: Provider, sim: RunningSimulator) -> None:
    sim.play({"models": [{"model": MODEL, "rpm": 2, "tolerance_s": 0}]})
    await provider.read(page())
    await provider.read(page())
    with pytest.raises(ProviderRateLimitedError) as caught:
        await provider.read(page())
    assert caught.value.retry_after_s is not None
    assert 20 <= caught.value.retry_after_s <= 31  # half a minute for each of two
    assert caught.value.limits.requests_left == 0
    assert caught.value.limits.requests_per_minute == 2


async def test_network_error_is_raised_when_nobody_listens(make: Callable[..., Provider], kind: str) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(ProviderNetworkError):
            await make(kind, url).read(page())


async def test_network_error_is_raised_when_the_name_is_unknown(
    make: Callable[..., Provider], kind: str
) -> None:
    with pytest.raises(ProviderNetworkError):
        await make(kind, "http://nowhere.invalid/v1").read(page())


async def test_network_error_is_raised_when_the_server_speaks_no_tls(
    make: Callable[..., Provider], kind: str, sim: RunningSimulator
) -> None:
    with pytest.raises(ProviderNetworkError):
        await make(kind, sim.url.replace("http:", "https:")).read(page())


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, {"error": {"innererror": {"code": "ResponsibleAIPolicyViolation"}}}, ContentBlockedError),
        (400, {"code": "content_policy_violation"}, ContentBlockedError),
        (
            429,
            {"type": "error", "error": {"details": {"error_code": "enforced_spend_limit_reached"}}},
            QuotaError,
        ),
        (500, {"error": {"type": "overloaded_error"}}, QuotaError),
        (402, None, QuotaError),
        (429, "insufficient_quota is only a text here", ProviderRateLimitedError),
        (503, ["content_filter"], ProviderServerError),
        (500, {"error": {"code": 17, "type": None}}, ProviderServerError),
        (301, b"", ProviderServerError),
        (409, {}, ProviderServerError),
        (418, {}, RejectedError),
    ],
)
def test_error_comes_from_codes_when_a_body_is_odd(
    status: int, body: object, error: type[QuireError]
) -> None:
    found = sdk_channel.by_status("who", status, body, headers={}, limits=SeenLimits(), now=0)
    assert type(found) is error


def test_wait_comes_from_the_limits_when_there_is_no_retry_after() -> None:
    limits = SeenLimits(requests_left=0, requests_reset_s=4.5, tokens_left=10, tokens_reset_s=60)
    found = sdk_channel.by_status("who", 429, {}, headers={}, limits=limits, now=0)
    assert found.retry_after_s == 4.5
