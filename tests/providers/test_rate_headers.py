from __future__ import annotations

import math

import pytest

from quire.providers.provider_protocol import SeenLimits
from quire.providers.rate_headers import anthropic_limits, openai_limits, retry_after_s

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"}, 30),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2),
        ({"retry-after": "99999999999"}, 7 * 86_400),
    ],
)
def test_wait_is_understood_when_written_in_any_way(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers, NOW) == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120ms", 0.12),
        ("7.66s", 7.66),
        ("6m0s", 360),
        ("1h2m3s", 3723),
        ("2d", 172_800),
        ("3", 3),
        ("x", None),
    ],
)
def test_reset_is_understood_when_openai_writes_it(text: str, seconds: float | None) -> None:
    seen = openai_limits({"x-ratelimit-reset-tokens": text}).tokens_reset_s
    assert seen == seconds or (seen is not None and seconds is not None and math.isclose(seen, seconds))


def test_limit_is_left_out_when_it_is_by_the_day() -> None:
    daily = {
        "x-ratelimit-limit-requests": "10000",
        "x-ratelimit-remaining-requests": "9999",
        "x-ratelimit-reset-requests": "8.64s",
    }
    assert openai_limits(daily).requests_per_minute is None
    by_minute = daily | {"x-ratelimit-reset-requests": "6ms"}
    assert openai_limits(by_minute).requests_per_minute == 10_000


def test_limits_are_read_when_anthropic_tells_them() -> None:
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:02Z",
        "anthropic-ratelimit-input-tokens-limit": "40000",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:00:10+00:00",
    }
    assert anthropic_limits(headers, NOW) == SeenLimits(50, 49, 2, 40_000, 0, 10)
    assert anthropic_limits({"anthropic-ratelimit-tokens-limit": "no"}, NOW) == SeenLimits()
    assert anthropic_limits({"anthropic-ratelimit-requests-reset": "tomorrow"}, NOW) == SeenLimits()
