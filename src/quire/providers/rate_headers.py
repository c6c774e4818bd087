"""The rate-limit headers of a provider's answer: when to retry, and the limits of the account.

Headers are untrusted input: a value that can't be parsed counts as missing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from quire.providers.provider_protocol import SeenLimits

_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])")
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern})+")
_SECONDS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}

_LONGEST_WAIT_S = 7 * 86_400.0
# A bucket that refills over much longer than a minute is a daily one.
_LONGEST_MINUTE_S = 600.0


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Returns the wait before a retry: `retry-after-ms`, else `retry-after` as seconds or as a date."""
    wait_ms = _number(headers.get("retry-after-ms"))
    if wait_ms is not None:
        return _bounded(wait_ms / 1000)
    given = headers.get("retry-after")
    wait_s = _number(given)
    if wait_s is None and given:
        at = _http_date(given)
        wait_s = None if at is None else max(0.0, at - now)
    return None if wait_s is None else _bounded(wait_s)


def openai_limits(headers: Mapping[str, str]) -> SeenLimits:
    """Returns the limits in `x-ratelimit-*`. Daily limits, which small accounts have, are left out."""
    requests = _count(headers.get("x-ratelimit-limit-requests"))
    requests_left = _count(headers.get("x-ratelimit-remaining-requests"))
    requests_reset_s = _duration(headers.get("x-ratelimit-reset-requests"))
    tokens = _count(headers.get("x-ratelimit-limit-tokens"))
    tokens_left = _count(headers.get("x-ratelimit-remaining-tokens"))
    tokens_reset_s = _duration(headers.get("x-ratelimit-reset-tokens"))
    return SeenLimits(
        requests_per_minute=requests if _by_the_minute(requests, requests_left, requests_reset_s) else None,
        requests_left=requests_left,
        requests_reset_s=requests_reset_s,
        tokens_per_minute=tokens if _by_the_minute(tokens, tokens_left, tokens_reset_s) else None,
        tokens_left=tokens_left,
        tokens_reset_s=tokens_reset_s,
    )


def anthropic_limits(headers: Mapping[str, str], now: float) -> SeenLimits:
    """The limits in `anthropic-ratelimit-*`. Their `tokens` is whichever of input and output is tightest."""
    prefix = "anthropic-ratelimit-"
    tokens = f"{prefix}tokens" if f"{prefix}tokens-limit" in headers else f"{prefix}input-tokens"
    return SeenLimits(
        requests_per_minute=_count(headers.get(f"{prefix}requests-limit")),
        requests_left=_count(headers.get(f"{prefix}requests-remaining")),
        requests_reset_s=_until(headers.get(f"{prefix}requests-reset"), now),
        tokens_per_minute=_count(headers.get(f"{tokens}-limit")),
        tokens_left=_count(headers.get(f"{tokens}-remaining")),
        tokens_reset_s=_until(headers.get(f"{tokens}-reset"), now),
    )


def _by_the_minute(limit: int | None, left: int | None, reset_s: float | None) -> bool:
    """Whether the limit is per minute: `reset` is the time to a full bucket, so the missing part gives its pace."""
    if not limit or left is None or reset_s is None or left >= limit:
        return True
    return reset_s * limit / (limit - left) <= _LONGEST_MINUTE_S


def _number(text: str | None) -> float | None:
    try:
        found = float(text) if text else math.nan
    except ValueError:
        return None
    return found if math.isfinite(found) and found >= 0 else None


def _count(text: str | None) -> int | None:
    found = _number(text)
    return None if found is None else int(found)


def _duration(text: str | None) -> float | None:
    """Seconds of `6m0s`, `120ms` or a bare number."""
    if text and _DURATION.fullmatch(text):
        return sum(float(amount) * _SECONDS[unit] for amount, unit in _DURATION_PART.findall(text))
    return _number(text)


def _until(text: str | None, now: float) -> float | None:
    """Seconds until a time such as 2026-01-31T12:00:00Z."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now)


def _http_date(text: str) -> float | None:
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _bounded(wait_s: float) -> float:
    return min(wait_s, _LONGEST_WAIT_S)
