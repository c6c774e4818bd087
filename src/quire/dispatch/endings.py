"""How a call ended, in the words of admission."""

from __future__ import annotations

from quire.providers.protocol import (
    ContentBlockedError,
    ProviderAuthError,
    ProviderError,
    RateLimitedError,
    RejectedError,
    SeenLimits,
)
from quire.queue.admission import Ending, Told


def ending_of(error: ProviderError) -> Ending:
    if isinstance(error, ProviderAuthError):
        return Ending.AUTH
    if isinstance(error, RateLimitedError):
        return Ending.LIMITED
    if isinstance(error, ContentBlockedError | RejectedError):
        return Ending.OK  # the model is well; it only would not have this
    return Ending.FAILED


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
