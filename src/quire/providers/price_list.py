"""The price of a call in US dollars."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from quire.providers.provider_protocol import TokenUsage
from quire.settings.setting_tables import AiPrice

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Cost:
    """`known` is False where the model's price is unknown; it then counts as 0."""

    usd: float
    known: bool


class PriceList:
    """The prices of the settings, then those of the wheel `genai-prices`; never from the network.

    The list is loaded at the first use (0.2 s). Only providers that it has by name are looked up there: the price
    of a model on a private server is only known from AI_PRICES.
    """

    def __init__(self, prices: Sequence[AiPrice] = ()) -> None:
        self._own = {(one.provider, one.model): one for one in prices}
        self._unknown: set[tuple[str, str]] = set()

    def preload(self) -> None:
        """Imports the list. Blocks for a moment."""
        try:
            import genai_prices
        except ImportError:
            return
        with suppress(LookupError):
            genai_prices.calc_price(genai_prices.Usage(input_tokens=1), model_ref="-", provider_id="openai")

    def cost(self, provider: str, model: str, usage: TokenUsage) -> Cost:
        own = self._own.get((provider, model))
        if own is not None:
            usd = (usage.tokens_in * own.usd_in + usage.tokens_out * own.usd_out) / _MILLION
            return Cost(usd, known=True)
        if (provider, model) in self._unknown:
            return Cost(0.0, known=False)
        try:
            import genai_prices

            found = genai_prices.calc_price(
                genai_prices.Usage(input_tokens=usage.tokens_in, output_tokens=usage.tokens_out),
                model_ref=model,
                provider_id=provider,
            )
        except (ImportError, LookupError, ValueError):  # not installed, or not in the list
            self._unknown.add((provider, model))
            return Cost(0.0, known=False)
        return Cost(float(found.total_price), known=True)
