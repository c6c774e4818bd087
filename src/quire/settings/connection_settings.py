"""The settings of connections: how many there may be, and how slowly a caller may send."""

from __future__ import annotations

from dataclasses import dataclass

from quire.settings import setting_kinds
from quire.settings.setting_kinds import setting


@dataclass(frozen=True)
class ConnectionsSettings:
    """Limits on callers of `quire serve`."""

    header_timeout_s: float = setting(
        "HEADER_TIMEOUT",
        "10s",
        setting_kinds.duration("100ms", "10m"),
        "How long a caller may take to send the head of a request; then the connection is closed.",
    )
    min_body_rate_bytes: int = setting(
        "MIN_BODY_RATE",
        "500B",
        setting_kinds.size("0B", "1GB", bare_unit="B"),
        "Bytes a second, averaged over 20 seconds, below which a body is refused with 408; 0 switches this off.",
    )
    max_connections: int = setting(
        "MAX_CONNECTIONS",
        "0",
        setting_kinds.integer(0, 1_000_000),
        "Open connections of callers; more are refused with 503. 0 means what the limit on open files allows "
        "after a reserve for the service itself, at most 16384.",
    )
    max_per_address: int = setting(
        "MAX_CONNECTIONS_PER_ADDRESS",
        "512",
        setting_kinds.integer(0, 1_000_000),
        "Connections without a valid key that one address may have open, never more than a quarter of all; more are "
        "refused with 429. It does not apply to TRUSTED_PROXIES, nor without API_KEYS; 0 switches it off.",
    )
    wrong_keys_per_minute: int = setting(
        "WRONG_KEYS_PER_MINUTE",
        "20",
        setting_kinds.integer(0, 1_000_000),
        "Wrong API keys that one address may send in a minute before its further ones are refused with 429; "
        "0 switches this off.",
    )
