"""The candidates of a page: which models may read it, in which order.

The primary provider with the tier's model, its secondary model, then each further provider with the tier's model.
A request may name a provider, which then comes first; the others follow in their usual order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quire.coordination.ai_admission import Target
from quire.providers import configured_providers
from quire.providers.configured_providers import ProviderModels
from quire.settings import AiSettings
from quire.settings.setting_tables import AiLimit

TIERS = ("primary", "secondary", "fast")


@dataclass(frozen=True, slots=True)
class Candidate:
    target: Target
    timeout_s: float

    @property
    def provider(self) -> str:
        return self.target.provider

    @property
    def name(self) -> str:
        return str(self.target)


@dataclass(frozen=True, slots=True)
class Candidates:
    """`providers` are those that can be called, in their order."""

    providers: tuple[str, ...]
    models: Mapping[str, ProviderModels]
    targets: Mapping[tuple[str, str], Target]
    timeouts_s: Mapping[str, float]

    @classmethod
    def from_settings(cls, settings: AiSettings, configured: Sequence[str]) -> Candidates:
        """Raises SettingsError for an order that names an unknown provider."""
        order = [name for name in configured_providers.order(settings) if name in configured]
        models = {
            name: found for name, found in configured_providers.models(settings).items() if name in order
        }
        limits = {(one.provider, one.model): one for one in settings.limits}
        targets: dict[tuple[str, str], Target] = {}
        for provider, found in models.items():
            for model in dict.fromkeys((found.primary, found.secondary, found.fast)):
                limit = limits.get((provider, model)) or AiLimit(provider, model)
                targets[provider, model] = Target(
                    provider,
                    model,
                    rpm=limit.rpm,
                    tpm=limit.tpm,
                    max_inflight=limit.max_inflight or settings.max_inflight_per_model,
                )
        timeouts = {name: configured_providers.timeout_s(settings, name) for name in order}
        return cls(tuple(order), models, targets, timeouts)

    def of(self, engine: str | None, tier: str | None) -> tuple[Candidate, ...]:
        """The candidates of one request, each once. An `engine` that is not configured is ignored."""
        order = list(self.providers)
        if engine and engine.lower() in order:
            order.remove(engine.lower())
            order.insert(0, engine.lower())
        tier = tier if tier in TIERS else "primary"
        wanted: list[tuple[str, str]] = []
        for place, provider in enumerate(order):
            models = self.models[provider]
            wanted.append((provider, models.of(tier)))
            if place == 0:
                wanted.append((provider, models.secondary))
        return tuple(Candidate(self.targets[one], self.timeouts_s[one[0]]) for one in dict.fromkeys(wanted))

    def all(self) -> tuple[Target, ...]:
        return tuple(self.targets.values())

    @property
    def longest_timeout_s(self) -> float:
        return max(self.timeouts_s.values(), default=60.0)


def untried(candidates: Sequence[Candidate], tried: Sequence[str]) -> list[Candidate]:
    """Returns the candidates whose names are not in `tried`."""
    return [one for one in candidates if one.name not in tried]
