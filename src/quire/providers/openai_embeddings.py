"""Embeddings of OpenAI and compatible servers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from quire.clock import Clock
from quire.errors import SettingsError
from quire.providers import openai_provider
from quire.providers.openai_provider import OpenAIOptions, OpenAIProvider
from quire.providers.provider_protocol import ProviderServerError, SeenLimits, TokenUsage
from quire.providers.sdk_channel import token_count
from quire.settings import AiSettings

_PATH = "/embeddings"


@dataclass(frozen=True, slots=True)
class Embedded:
    vectors: tuple[tuple[float, ...], ...]
    usage: TokenUsage
    limits: SeenLimits

    def __repr__(self) -> str:
        return f"Embedded({len(self.vectors)} vectors)"


class OpenAIEmbeddings:
    """Safe for many calls at once. Never retries by itself."""

    name = openai_provider.NAME

    def __init__(self, options: OpenAIOptions, clock: Clock) -> None:
        self._provider = OpenAIProvider(options, clock)

    @classmethod
    def from_settings(cls, settings: AiSettings, clock: Clock) -> OpenAIEmbeddings:
        """Raises SettingsError where there is neither a key nor an address."""
        if not settings.openai_api_key and not settings.openai_base_url:
            raise SettingsError(
                "EMBEDDING_PROVIDER is openai, so OPENAI_API_KEY or OPENAI_BASE_URL must be set."
            )
        address = settings.openai_base_url or openai_provider.BASE_URL
        return cls(OpenAIOptions(openai_provider.NAME, address, settings.openai_api_key), clock)

    async def embed(self, model: str, dimensions: int, texts: Sequence[str], *, timeout_s: float) -> Embedded:
        """A vector for each text, in order. Raises ProviderError."""
        body = {"model": model, "input": list(texts), "dimensions": dimensions, "encoding_format": "float"}
        reply = await self._provider.post(_PATH, json.dumps(body).encode(), model=model, timeout_s=timeout_s)
        vectors = _vectors(reply.data.get("data"), len(texts), dimensions)
        if vectors is None:
            raise ProviderServerError(
                f"{self.name} ({model}) gave no vectors for the texts it was sent.", limits=reply.limits
            )
        return Embedded(vectors, _usage(reply.data.get("usage")), reply.limits)

    async def close(self) -> None:
        await self._provider.close()


def _vectors(given: object, count: int, dimensions: int) -> tuple[tuple[float, ...], ...] | None:
    if not isinstance(given, list) or len(given) != count:
        return None
    found: dict[int, tuple[float, ...]] = {}
    for row in given:
        numbers = row.get("embedding") if isinstance(row, dict) else None
        if (
            not isinstance(numbers, list)
            or len(numbers) != dimensions
            or not isinstance(row.get("index"), int)
        ):
            return None
        if not all(isinstance(one, int | float) and abs(one) < 1e6 for one in numbers):
            return None
        found[row["index"]] = tuple(map(float, numbers))
    return (
        tuple(found[place] for place in range(count))
        if len(found) == count == max(found, default=-1) + 1
        else None
    )


def _usage(given: object) -> TokenUsage:
    return TokenUsage(token_count(given.get("prompt_tokens")) if isinstance(given, dict) else 0, 0)
