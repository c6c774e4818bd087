"""The checks of the AI providers in `quire doctor`: key, address, and the models that the provider has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from quire.cli.doctor_findings import Finding, FindingLevel
from quire.clock import SystemClock
from quire.providers.configured_providers import ProviderModels
from quire.providers.provider_protocol import Provider, ProviderError
from quire.settings import Settings

_MODELS_SHOWN = 12
_PROVIDER_ADVICE = {
    "auth": "Check the key and whether it may use this model.",
    "ai_quota": "Check the provider's billing page, or wait if it is overloaded.",
    "rate_limit": "Other programs use the same account now; set AI_LIMITS to the part that Quire may use.",
    "timeout": "Check the address and the network, or raise REQUEST_TIMEOUT.",
    "network": "Check the base URL, the network and any firewall.",
    "server": "The provider has an outage, or the base URL belongs to another service.",
    "validation": "Check the name of the model and the base URL.",
}


async def check_ai(settings: Settings) -> list[Finding]:
    """Makes one cheap call to each provider, with its primary model."""
    from quire.providers import configured_providers

    order, providers = (
        configured_providers.order(settings.ai),
        configured_providers.build(settings.ai, SystemClock()),
    )
    used = [name for name in order if name in providers]
    if not used:
        return [
            Finding(
                "ai",
                FindingLevel.OK,
                "No provider is configured: pages with pictures are read locally.",
                "Set OPENAI_API_KEY, ANTHROPIC_API_KEY or AI_SERVERS to have them read by AI.",
            )
        ]
    models = configured_providers.models(settings.ai)
    try:
        found = await asyncio.gather(*(_provider(providers[name], models[name]) for name in used))
        return [one for some in found for one in some]
    finally:
        await asyncio.gather(*(one.close() for one in providers.values()))


async def _provider(provider: Provider, models: ProviderModels) -> list[Finding]:
    name = f"ai {provider.name}"
    missing = await missing_models(provider, models)
    try:
        await provider.check(models.primary)
    except ProviderError as error:
        return [
            Finding(name, FindingLevel.FAIL, error.public, _PROVIDER_ADVICE.get(error.code, "")),
            *missing,
        ]
    return [Finding(name, FindingLevel.OK, f"{models.primary} answers"), *missing]


async def missing_models(provider: Provider, models: ProviderModels) -> list[Finding]:
    """Findings for configured models that the provider does not list. A server without a list is not judged."""
    try:
        listed = await provider.models()
    except ProviderError:
        return []
    wanted = dict.fromkeys((models.primary, models.secondary, models.fast))
    missing = [one for one in wanted if listed and not _is_listed(one, listed)]
    if not missing:
        return []
    text = f"The provider does not list {', '.join(missing)}."
    shown = ", ".join(sorted(listed)[:_MODELS_SHOWN])
    return [
        Finding(
            f"ai {provider.name}",
            FindingLevel.WARN,
            text,
            f"Set another model; it lists, for example: {shown}.",
        )
    ]


def _is_listed(model: str, listed: Sequence[str]) -> bool:
    """Whether a model is listed, also under the dated name behind an alias."""
    plain = model.removesuffix("-latest")
    return any(one == model or one.startswith(f"{plain}-") for one in listed)
