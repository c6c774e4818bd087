"""Limits of a single model by the sources' names: `OPENAI_GPT41_RPM`, `OPENAI_GPT41_TPM`, `MAX_INFLIGHT_OPENAI_GPT41`.

The middle part names a configured model of that provider: all its letters and digits (`GPT41` is gpt-4.1), or a part of
them (`SONNET` is every configured model with "sonnet" in its name). A name that fits no configured model has no effect
and is reported. The same limit in AI_LIMITS has precedence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from quire.settings.ai_settings import AiSettings
from quire.settings.setting_tables import AiLimit, limit

_RATE = re.compile(r"([A-Z][A-Z0-9]*)_([A-Z0-9]+(?:_[A-Z0-9]+)*)_(RPM|TPM)")
_INFLIGHT = re.compile(r"MAX_INFLIGHT_([A-Z][A-Z0-9]*)_([A-Z0-9]+(?:_[A-Z0-9]+)*)")


def apply_model_limits(
    settings: AiSettings, environ: Mapping[str, str], known: Iterable[str]
) -> tuple[AiSettings, list[str], list[str]]:
    """Returns the settings with the limits of the environment, problems that stop the start, and warnings."""
    models = _models(settings)
    limits = {(one.provider, one.model): one for one in settings.limits}
    problems: list[str] = []
    notes: list[str] = []
    for name in sorted(set(environ) - set(known)):
        found = _parsed(name, models)
        if found is None or not environ[name].strip():
            continue
        provider, part, field = found
        try:
            value = limit().read(environ[name].strip())
        except (ValueError, OverflowError):
            problems.append(f"{name} in the environment must be a whole number, 0 for unknown.")
            continue
        named = _named(models[provider], part)
        if not named:
            notes.append(f"{name} has no effect: {provider} has no configured model with that name.")
        for model in named:
            one = limits.get((provider, model)) or AiLimit(provider, model)
            limits[provider, model] = one if getattr(one, field) else replace(one, **{field: value})  # type: ignore[arg-type]  # `field` is one of the counts
    return replace(settings, limits=tuple(limits.values())), problems, notes


def _parsed(name: str, models: Mapping[str, object]) -> tuple[str, str, str] | None:
    """The provider, the part of a model's name and the limit that a variable names; None for other variables."""
    if found := _INFLIGHT.fullmatch(name):
        provider, part, field = found[1], found[2], "max_inflight"
    elif found := _RATE.fullmatch(name):
        provider, part, field = found[1], found[2], found[3].lower()
    else:
        return None
    return (provider.lower(), part, field) if provider.lower() in models else None


def _models(settings: AiSettings) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {
        "openai": (
            settings.openai_primary_model,
            settings.openai_secondary_model,
            settings.openai_fast_model,
        ),
        "anthropic": (
            settings.anthropic_primary_model,
            settings.anthropic_secondary_model,
            settings.anthropic_fast_model,
        ),
    }
    for one in settings.servers:
        found[one.name] = (one.primary_model, one.secondary_model, one.fast_model)
    return found


def _named(models: Iterable[str], part: str) -> list[str]:
    """The models with exactly this name, or else those that contain it."""
    wanted = _plain(part)
    plain = {model: _plain(model) for model in models}
    return [model for model, name in plain.items() if name == wanted] or [
        model for model, name in plain.items() if wanted in name
    ]


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()
