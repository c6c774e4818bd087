"""The address of the client behind a request: of the connection, or as reported by a trusted proxy."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from fastapi.requests import HTTPConnection

from quire.api.http.services import services

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def client_address(request: HTTPConnection) -> str:
    """Returns the client's address. X-Forwarded-For counts only as far as TRUSTED_PROXIES have written it."""
    peer = request.client.host if request.client else ""
    trusted = services(request).runtime.settings.http.trusted_proxies
    if not trusted:
        return peer
    return forwarded_address(peer, request.headers.getlist("x-forwarded-for"), trusted)


def forwarded_address(peer: str, headers: Sequence[str], trusted: Sequence[Network]) -> str:
    """Returns the nearest address that is not a trusted proxy; each proxy appends the address that it saw."""
    found = peer
    hops = [hop for header in headers for hop in header.split(",")]
    while hops and _is_trusted(found, trusted):
        address = _plain_address(hops.pop())
        if address is None:
            break
        found = address
    return found


def _is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in trusted)


def _plain_address(hop: str) -> str | None:
    """Returns the address in one entry of the header, without a port; None for anything else."""
    text = hop.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None
