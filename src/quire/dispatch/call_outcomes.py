"""The outcome of a call, translated from provider errors for admission, and counted for metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from quire.coordination.ai_admission import CallOutcome, ReportedLimits
from quire.providers.provider_protocol import (
    ContentBlockedError,
    ProviderAuthError,
    ProviderError,
    ProviderRateLimitedError,
    RejectedError,
    SeenLimits,
)

T = TypeVar("T")
_FINISH_S = 10.0


class CallCounter(Protocol):
    """Counts calls and pages for metrics."""

    def call_ended(
        self,
        provider: str,
        model: str,
        outcome: str,
        *,
        seconds: float,
        tokens: tuple[int, int],
        usd: float,
        failover: bool,
    ) -> None:
        """`outcome` is `ok`, the code of an error, or why the answer did not count."""
        ...

    def page_from_cache(self) -> None: ...

    def page_parked(self) -> None: ...


class NullCallCounter:
    """Counts nothing, for processes that export no metrics."""

    def call_ended(
        self,
        provider: str,
        model: str,
        outcome: str,
        *,
        seconds: float,
        tokens: tuple[int, int],
        usd: float,
        failover: bool,
    ) -> None:
        pass

    def page_from_cache(self) -> None:
        pass

    def page_parked(self) -> None:
        pass


def outcome_of(error: ProviderError) -> CallOutcome:
    """Returns what the error means for breakers and limits."""
    if isinstance(error, ProviderAuthError):
        return CallOutcome.AUTH
    if isinstance(error, ProviderRateLimitedError):
        return CallOutcome.LIMITED
    if isinstance(error, ContentBlockedError | RejectedError):
        return CallOutcome.OK  # the model is healthy; it refused this page only
    return CallOutcome.FAILED


def reported_limits(limits: SeenLimits) -> ReportedLimits:
    """Returns the limits of an answer's headers for admission."""
    # The wait is for a full budget; a part of it is available much sooner.
    pause_s = min((limits.refill_wait_s() or 0.0) / 4, 15.0)
    return ReportedLimits(limits.requests_per_minute or 0, limits.tokens_per_minute or 0, pause_s)


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` to its end even if the caller is cancelled; only then passes the cancellation on."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=_FINISH_S)
        raise
