"""The log line of an AI call: one line for each call that was made, whatever its outcome."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from quire.providers.provider_protocol import ModelMissingError, ProviderAuthError, ProviderError, TokenUsage

_LOG = logging.getLogger(__name__)

ABANDONED = "abandoned"
"""The error class of a call that was interrupted: a deadline, a cancellation, or a process that stops."""
PAUSED = "worker_paused"
"""The error class of a call that timed out or lost its connection while this process did not run."""


@dataclass(frozen=True, slots=True)
class CallReport:
    """One call that has ended.

    `error_class` is the code of an error, or why the answer was rejected; None for an answer that counts. `attempt`
    counts the calls of the page from 1. `failover`: it was not the page's first candidate that was called.
    """

    job_id: str
    page: int | None
    provider: str
    model: str
    attempt: int
    failover: bool
    seconds: float
    usage: TokenUsage
    usd: float
    error_class: str | None = None
    purpose: str = "page"
    """`page`, `embedding` or `probe`; an embedding belongs to no page, a probe to no document."""


def log_call(report: CallReport, error: ProviderError | None = None) -> None:
    """Writes the line. A rejected key and a missing model are errors, because an operator must act."""
    fields = {
        "job_id": report.job_id,
        "page": report.page,
        "provider": report.provider,
        "model": report.model,
        "attempt": report.attempt,
        "tokens_used": report.usage.tokens_in + report.usage.tokens_out,
        "cost_usd": round(report.usd, 6),
        "latency_ms": round(report.seconds * 1000),
        "error_class": report.error_class,
        "failover": report.failover,
        "purpose": report.purpose,
    }
    if error is not None:
        must_act = isinstance(error, ProviderAuthError | ModelMissingError)
        level = logging.ERROR if must_act else logging.WARNING
        _LOG.log(level, "AI call failed: %s", error.public, extra=fields)
    elif report.error_class is None:
        _LOG.info("AI call answered", extra=fields)
    elif report.error_class == ABANDONED:
        _LOG.info("AI call abandoned", extra=fields)
    elif report.error_class == PAUSED:
        _LOG.warning("AI call interrupted: this process was paused", extra=fields)
    else:
        _LOG.warning("AI answer rejected", extra=fields)
