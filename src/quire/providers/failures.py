"""From a provider's status and error codes to the error tree. Never from the text of a message.

The errors name the provider, the model and the status, and nothing of what was sent or answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quire.providers.headers import retry_after_s, wait_for_limits_s
from quire.providers.protocol import (
    ContentBlockedError,
    ModelMissingError,
    ProviderAuthError,
    ProviderError,
    ProviderServerError,
    ProviderTimeoutError,
    QuotaError,
    RateLimitedError,
    RejectedError,
    SeenLimits,
)

_QUOTA_CODES = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"}
    | {"quota_exceeded", "enforced_spend_limit_reached"}
)
_OVERLOADED_CODES = frozenset(
    {"overloaded_error", "server_is_overloaded", "server_overloaded", "engine_overloaded", "slow_down"}
)
_BLOCKED_CODES = frozenset(
    {"content_filter", "content_policy_violation", "moderation_blocked", "responsibleaipolicyviolation"}
)
_OVERLOADED_STATUS = 529


def by_status(
    who: str, status: int, body: object, *, headers: Mapping[str, str], limits: SeenLimits, now: float
) -> ProviderError:
    """The error for an answer with a status other than 2xx. `who` is the provider and model, for the text."""
    codes = _codes(body)
    wait_s = retry_after_s(headers, now)
    if codes & _BLOCKED_CODES:
        return ContentBlockedError(f"The content filter of {who} refused the page.", limits=limits)
    if codes & _QUOTA_CODES or status == 402:
        return QuotaError(f"The quota or credit of {who} is used up.", retry_after_s=wait_s, limits=limits)
    if codes & _OVERLOADED_CODES or status == _OVERLOADED_STATUS:
        return QuotaError(f"{who} is overloaded.", retry_after_s=wait_s, limits=limits)
    kind: type[ProviderError]
    if status == 429:
        kind, text = RateLimitedError, f"{who} limits the rate of requests (429)."
        wait_s = wait_for_limits_s(limits) if wait_s is None else wait_s
    elif status in {401, 403}:
        kind, text = ProviderAuthError, f"{who} doesn't accept the key ({status})."
    elif status in {404, 410}:
        kind, text = (
            ModelMissingError,
            f"{who} is not there ({status}): check the model's name and the address.",
        )
    elif status == 408:
        kind, text = ProviderTimeoutError, f"{who} waited too long for the request (408)."
    elif status >= 500 or status < 400 or status in {409, 425, 499}:
        kind, text = ProviderServerError, f"{who} failed with status {status}."
    else:
        kind, text = RejectedError, f"{who} rejected the request with status {status}."
    return kind(text, retry_after_s=wait_s, limits=limits)


def _codes(body: object) -> frozenset[str]:
    """The machine-readable words of an error body, wherever the two protocols keep them, in small letters."""
    found = _table(body)
    error = _table(found.get("error")) or found  # an SDK may have unwrapped it already
    inner = _table(error.get("innererror"))
    details = _table(error.get("details"))
    words = (error.get("code"), error.get("type"), inner.get("code"), details.get("error_code"))
    return frozenset(word.lower() for word in words if isinstance(word, str))


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
