"""What a call costs in US dollars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.providers.provider_protocol import TokenUsage
from quire.settings.setting_tables import AiPrice

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Cost:
    """`known` is False where nobody knows the model's price; it then counts as nothing."""

    usd: float
    known: bool


class PriceList:
    """The prices of the settings, then those of the list in the wheel `genai-prices`, never of the network.

    The list is loaded at the first question (0.2 s). Only providers that it knows by name are looked up there:
    a model on a server of one's own costs what its owner says.
    """

    def __init__(self, prices: Sequence[AiPrice] = ()) -> None:
        self._own = {(one.provider, one.model): one for one in prices}
        self._unknown: set[tuple[str, str]] = set()

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
