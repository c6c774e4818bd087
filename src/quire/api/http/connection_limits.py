"""How many connections callers may have: a bound for all, a bound for each address without a key, and a reserve of
file descriptors for the service itself.

When all places are taken, a new connection takes the place of the one that has waited longest without a complete head.
So half-sent heads and idle connections can't keep other callers out; only requests that are being served can.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import resource
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from quire.settings import Settings

_LOG = logging.getLogger(__name__)
_LEAST_RESERVE = 256
_RESERVED_SHARE = 8
_MOST_CONNECTIONS = 16_384
_LEAST_CONNECTIONS = 16
_ADDRESS_SHARE = 4
_LOG_EVERY_S = 10.0

MAX_HEAD_BYTES = 64 << 10
_PHRASES = {
    400: "Bad Request",
    408: "Request Timeout",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


_FINAL = frozenset({400, 431})


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    max_connections: int
    max_per_address: int
    """0 means no limit."""
    header_timeout_s: float
    min_body_rate_bytes: int
    unlimited: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    """Proxies, behind whose addresses are many callers."""
    body_window_s: float = 20.0
    """The time over which the rate of a body is measured."""

    @classmethod
    def of(cls, settings: Settings, descriptors: int) -> ConnectionLimits:
        """Returns the limits for a process that may open so many descriptors."""
        given, auth = settings.connections, settings.auth
        reserve = max(_LEAST_RESERVE, descriptors // _RESERVED_SHARE)
        possible = max(_LEAST_CONNECTIONS, descriptors - reserve)
        most = min(given.max_connections or _MOST_CONNECTIONS, possible)
        protected = bool(auth.api_keys or auth.web_password)
        by_address = min(given.max_per_address, max(1, most // _ADDRESS_SHARE)) if protected else 0
        return cls(
            most,
            by_address,
            given.header_timeout_s,
            given.min_body_rate_bytes,
            tuple(settings.http.trusted_proxies),
        )


class WaitingConnection(Protocol):
    def close(self) -> None:
        """Closes the connection at once."""


class Seat:
    """The place of one open connection."""

    __slots__ = ("_table", "address", "counts_for_address")

    def __init__(self, table: ConnectionTable, address: str, counts_for_address: bool) -> None:
        self._table = table
        self.address = address
        self.counts_for_address = counts_for_address

    def vouch(self) -> None:
        """A request of this connection had a valid key or session: it no longer counts for its address."""
        if self.counts_for_address:
            self.counts_for_address = False
            self._table.release_address(self.address)

    def waits(self, connection: WaitingConnection) -> None:
        """The connection has no request, so that another caller may take its place."""
        self._table.waiting[self] = connection

    def is_busy(self) -> None:
        """The connection has a request."""
        self._table.waiting.pop(self, None)

    def leave(self) -> None:
        """The connection is closed. Called once."""
        self._table.leave(self)


class ConnectionTable:
    """Counts open connections. Belongs to one event loop."""

    def __init__(self, limits: ConnectionLimits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._count = 0
        self._by_address: dict[str, int] = {}
        self._logged_at = -_LOG_EVERY_S
        self.waiting: dict[Seat, WaitingConnection] = {}
        """Connections without a request, the longest-waiting first."""

    def enter(self, address: str) -> Seat | bytes:
        """Returns a seat, or the response with which the connection is to be refused."""
        limited = self._limits.max_per_address > 0 and not _is_in(address, self._limits.unlimited)
        address = address_group(address)
        if limited and self._by_address.get(address, 0) >= self._limits.max_per_address:
            self._log("too many connections without a key from one address", address)
            return refusal(429, "too_many_connections", _ADDRESS_TEXT, retry_after_s=1)
        if self._count >= self._limits.max_connections and not self._evict():
            self._log("all connections are in use", address)
            return refusal(503, "busy", _FULL_TEXT, retry_after_s=1)
        self._count += 1
        if limited:
            self._by_address[address] = self._by_address.get(address, 0) + 1
        return Seat(self, address, limited)

    def leave(self, seat: Seat) -> None:
        self._count -= 1
        self.waiting.pop(seat, None)
        if seat.counts_for_address:
            seat.counts_for_address = False
            self.release_address(seat.address)

    def release_address(self, address: str) -> None:
        left = self._by_address.get(address, 0) - 1
        if left > 0:
            self._by_address[address] = left
        else:
            self._by_address.pop(address, None)

    def _evict(self) -> bool:
        """Closes the connection that has waited longest without a request. Returns whether there was one."""
        for seat, connection in self.waiting.items():
            del self.waiting[seat]
            connection.close()
            return True
        return False

    def _log(self, text: str, address: str) -> None:
        if self._now() - self._logged_at >= _LOG_EVERY_S:  # an attack must not fill the log
            self._logged_at = self._now()
            _LOG.warning(text, extra={"address": address, "connections": self._count})


_ADDRESS_TEXT = (
    "Your address has too many open connections without a valid API key. Close some, then try again."
)
_FULL_TEXT = "All connections of the service are in use. Try again shortly."


def raise_descriptor_limit() -> int:
    """Raises the soft limit on open files to the hard one, as far as allowed. Returns the limit that now holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1 << 20 if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (ValueError, OSError):
            pass
    return wanted if soft == resource.RLIM_INFINITY else soft


def refusal(status: int, code: str, text: str, *, retry_after_s: int | None = None) -> bytes:
    """Returns a complete response, in the shape of all errors, after which the connection is closed."""
    shown: dict[str, object] = {"error": text, "code": code, "retryable": status not in _FINAL}
    wait = b""
    if retry_after_s is not None:
        shown["retry_after_seconds"] = retry_after_s
        wait = b"retry-after: %d\r\n" % retry_after_s
    body = json.dumps({**shown, "request_id": secrets.token_hex(8)}).encode()
    return b"".join(
        (
            f"HTTP/1.1 {status} {_PHRASES[status]}\r\n".encode(),
            b"content-type: application/json\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n",
            wait,
            b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body),
            body,
        )
    )


def address_group(address: str) -> str:
    """Returns what limits count as one address: of IPv6 the network of 64 bits, all of which one caller may have."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else f"{ipaddress.IPv6Address(int(parsed) >> 64 << 64)}/64"


def _is_in(address: str, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    if not networks:
        return False
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in networks)
