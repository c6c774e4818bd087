"""The providers in the settings: which are configured, their order and their models."""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import dataclass

from quire.clock import Clock
from quire.errors import SettingsError
from quire.providers import anthropic_provider, openai_provider
from quire.providers.anthropic_provider import AnthropicOptions, AnthropicProvider
from quire.providers.openai_provider import OpenAIOptions, OpenAIProvider
from quire.providers.provider_protocol import Provider
from quire.settings import AiSettings
from quire.settings.setting_tables import RESERVED_PROVIDERS

DOLPHIN = "dolphin"
"""The batch parser; `bootstrap` adds it because it needs the batcher."""
OCR = "ocr"
"""Local OCR; `bootstrap` adds it because it needs the child pool."""
LOCAL = "local"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProviderModels:
    """A provider's model for each tier."""

    primary: str
    secondary: str
    fast: str

    def of(self, tier: str) -> str:
        """Returns the model of a tier; of `primary` where the tier is unknown."""
        return {"secondary": self.secondary, "fast": self.fast}.get(tier, self.primary)


def build(settings: AiSettings, clock: Clock) -> dict[str, Provider]:
    """Returns every provider that has a key or an address, by name. Nothing is loaded or connected yet.

    A provider whose SDK is not installed is left out with a warning: a key that another program needs in the
    environment must not stop the start.
    """
    found: dict[str, Provider] = {}
    if (settings.openai_api_key or settings.openai_base_url) and _is_installed(
        "openai", openai_provider.NAME
    ):
        address = settings.openai_base_url or openai_provider.BASE_URL
        options = OpenAIOptions(openai_provider.NAME, address, settings.openai_api_key)
        found[openai_provider.NAME] = OpenAIProvider(options, clock)
    if (settings.anthropic_api_key or settings.anthropic_base_url) and _is_installed(
        "anthropic", anthropic_provider.NAME
    ):
        address = settings.anthropic_base_url or anthropic_provider.BASE_URL
        found[anthropic_provider.NAME] = AnthropicProvider(
            AnthropicOptions(anthropic_provider.NAME, address, settings.anthropic_api_key), clock
        )
    for one in settings.servers:
        if _is_installed("openai", one.name):
            options = OpenAIOptions(one.name, one.base_url, one.api_key, compatible=True)
            found[one.name] = OpenAIProvider(options, clock)
    return found


def order(settings: AiSettings) -> tuple[str, ...]:
    """Returns every provider named, in their order, each once, configured or not.

    Raises SettingsError for an unknown name.
    """
    named = (settings.primary_engine, settings.secondary_engine, *settings.provider_chain)
    known = {*RESERVED_PROVIDERS, *(one.name for one in settings.servers)}
    unknown = sorted(set(filter(None, named)) - known)
    if unknown:
        raise SettingsError(
            f"PRIMARY_ENGINE, SECONDARY_ENGINE or PROVIDER_CHAIN names {', '.join(unknown)}, "
            "which is not a provider; define it in AI_SERVERS."
        )
    return tuple(dict.fromkeys(filter(None, named)))


def models(settings: AiSettings) -> dict[str, ProviderModels]:
    """Returns the models of every possible provider, by provider. OCR and the batch parser have one each."""
    found = {
        DOLPHIN: ProviderModels(DOLPHIN, DOLPHIN, DOLPHIN),
        OCR: ProviderModels(LOCAL, LOCAL, LOCAL),
        openai_provider.NAME: ProviderModels(
            settings.openai_primary_model, settings.openai_secondary_model, settings.openai_fast_model
        ),
        anthropic_provider.NAME: ProviderModels(
            settings.anthropic_primary_model,
            settings.anthropic_secondary_model,
            settings.anthropic_fast_model,
        ),
    }
    for one in settings.servers:
        found[one.name] = ProviderModels(one.primary_model, one.secondary_model, one.fast_model)
    return found


def timeout_s(settings: AiSettings, provider: str) -> float:
    """The time of one call to this provider."""
    own = {
        openai_provider.NAME: settings.openai_timeout_s,
        anthropic_provider.NAME: settings.anthropic_timeout_s,
    }
    return own.get(provider) or settings.request_timeout_s


def _is_installed(package: str, provider: str) -> bool:
    if importlib.util.find_spec(package) is not None:
        return True
    _log.warning(
        "%s is configured, but the package %s is not installed: install Quire again, with its dependencies",
        provider,
        package,
    )
    return False
