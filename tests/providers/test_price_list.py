from __future__ import annotations

import pytest

from quire.providers.price_list import Cost, PriceList
from quire.providers.provider_protocol import TokenUsage
from quire.settings import AiPrice

USAGE = TokenUsage(tokens_in=1_000_000, tokens_out=100_000)


@pytest.mark.parametrize(
    ("provider", "model", "usd"),
    [("openai", "gpt-4.1", 2.8), ("openai", "gpt-4o", 3.5), ("anthropic", "claude-3-5-sonnet-20241022", 4.5)],
)
def test_cost_is_known_when_the_list_has_the_model(provider: str, model: str, usd: float) -> None:
    cost = PriceList().cost(provider, model, USAGE)
    assert cost.known
    assert cost.usd == pytest.approx(usd)


@pytest.mark.parametrize(("provider", "model"), [("openai", "no-such-model"), ("vllm", "gpt-4.1")])
def test_cost_is_flagged_when_nobody_knows_the_price(provider: str, model: str) -> None:
    prices = PriceList()
    assert prices.cost(provider, model, USAGE) == Cost(0.0, known=False)
    assert prices.cost(provider, model, USAGE) == Cost(0.0, known=False)


def test_own_price_counts_when_the_settings_have_one() -> None:
    prices = PriceList([AiPrice("vllm", "qwen", 0.5, 2.0), AiPrice("openai", "gpt-4.1", 1.0, 1.0)])
    assert prices.cost("vllm", "qwen", USAGE).usd == pytest.approx(0.7)
    assert prices.cost("openai", "gpt-4.1", USAGE).usd == pytest.approx(1.1)


def test_nothing_is_owed_when_nothing_was_used() -> None:
    assert PriceList().cost("openai", "gpt-4.1", TokenUsage()) == Cost(0.0, known=True)
