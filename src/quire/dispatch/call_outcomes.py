"""How a call ended, in the words of admission.

Who counts calls, for metrics. A process that nobody asks for figures counts nothing.
"""

from __future__ import annotations

from typing import Protocol

from quire.coordination.ai_admission import CallOutcome, Told
from quire.providers.provider_protocol import (
    ContentBlockedError,
    ProviderAuthError,
    ProviderError,
    ProviderRateLimitedError,
    RejectedError,
    SeenLimits,
)


class Counting(Protocol):
    def call_ended(
        self, provider: str, model: str, outcome: str, *, seconds: float, tokens: tuple[int, int], usd: float
    ) -> None:
        """`outcome` is `ok`, the code of an error, or why the answer did not count."""
        ...

    def page_from_cache(self) -> None: ...

    def page_parked(self) -> None: ...


class NotCounting:
    def call_ended(
        self, provider: str, model: str, outcome: str, *, seconds: float, tokens: tuple[int, int], usd: float
    ) -> None:
        pass

    def page_from_cache(self) -> None:
        pass

    def page_parked(self) -> None:
        pass


def ending_of(error: ProviderError) -> CallOutcome:
    if isinstance(error, ProviderAuthError):
        return CallOutcome.AUTH
    if isinstance(error, ProviderRateLimitedError):
        return CallOutcome.LIMITED
    if isinstance(error, ContentBlockedError | RejectedError):
        return CallOutcome.OK  # the model is well; it only would not have this
    return CallOutcome.FAILED


def told_by(limits: SeenLimits) -> Told:
    waits = [
        reset
        for left, reset in (
            (limits.requests_left, limits.requests_reset_s),
            (limits.tokens_left, limits.tokens_reset_s),
        )
        if left == 0 and reset
    ]
    # `reset` is when all is there again; a part of it is there much sooner.
    return Told(
        limits.requests_per_minute or 0,
        limits.tokens_per_minute or 0,
        min(max(waits) / 4, 15.0) if waits else 0.0,
    )
