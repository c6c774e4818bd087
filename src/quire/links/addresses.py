"""The rules for links: which URLs are accepted and which addresses they may resolve to. No network."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import NoReturn

from quire.errors import LinkRefusedError

_LONGEST_LINK = 8_192

# Reachable only with `allow_private`.
_PRIVATE = [
    ipaddress.ip_network(text)
    for text in (
        *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15"),
        *("::1/128", "fc00::/7"),
    )
]
# Never reachable: unassigned ranges, multicast, tunnels that hold another address, and the metadata services of
# clouds, which hand out credentials (some of them are in public or private ranges).
_NEVER = [
    ipaddress.ip_network(text)
    for text in (
        *("0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "100.100.100.200/32", "168.63.129.16/32"),
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "fd00:ec2::254/128", "fd20:ce::254/128"),
    )
]
_GLOBAL_V6 = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True)
class LinkPolicy:
    """The limits of a link. `timeout_s` is for the whole transfer, `stall_s` for each wait for data."""

    allow_private: bool = False
    max_redirects: int = 5
    timeout_s: float = 60.0
    max_bytes: int = 512 * 1024 * 1024
    stall_s: float = 20.0


@dataclass(frozen=True)
class ParsedLink:
    """An accepted link, without credentials and fragment."""

    url: str
    scheme: str
    host: str
    port: int


def check_url(url: str, policy: LinkPolicy) -> ParsedLink:
    """Parses a link. Raises LinkRefusedError for anything but http(s) to an address that may be reached.

    The addresses of a host name are checked when it is resolved, by `download` or `post_json`.
    """
    from yarl import URL  # comes with aiohttp; the same parser must check and connect

    if len(url) > _LONGEST_LINK or any(ord(c) <= 32 or ord(c) == 127 for c in url):
        raise LinkRefusedError("The link is too long or has spaces or control characters in it.")
    if "%00" in url:
        raise LinkRefusedError("The link has a zero byte in it.")
    try:
        parsed = URL(url)
        host, port = parsed.raw_host, parsed.port
    except ValueError as error:
        raise LinkRefusedError("The link is malformed.") from error
    if parsed.scheme not in {"http", "https"}:
        raise LinkRefusedError("Only http:// and https:// links are accepted.")
    if not host or not port:
        raise LinkRefusedError("The link has no host.")
    if port not in {80, 443} and port < 1024:
        raise LinkRefusedError(
            f"Links to port {port} are not accepted; only 80, 443 and those above 1023 are."
        )
    if f".{host.lower()}".rstrip(".").endswith(".localhost") and not policy.allow_private:
        refuse(host)
    if _is_obscured_address(host):
        raise LinkRefusedError(f"The link's host {host} is an unusual way to write an address.")
    if is_literal(host) and not is_reachable(host, allow_private=policy.allow_private):
        refuse(host)
    bare = parsed.with_user(None).with_fragment(None)
    return ParsedLink(str(bare), parsed.scheme, host, port)


def is_reachable(address: str, *, allow_private: bool) -> bool:
    """Returns whether links may lead to this IPv4 or IPv6 address. Raises ValueError if it is not an address."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        elif ip in _NAT64:
            ip = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
    if any(ip in network for network in _NEVER):
        return False
    if any(ip in network for network in _PRIVATE):
        return allow_private
    return ip.version == 4 or ip in _GLOBAL_V6


def is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_obscured_address(host: str) -> bool:
    """Returns whether the resolver would read the host as an IPv4 address in an unusual form, such as 0x7f.1."""
    try:
        socket.inet_aton(host.rstrip("."))
    except (OSError, UnicodeError):
        return False
    return not is_literal(host)


def refuse(host: str) -> NoReturn:
    raise LinkRefusedError(
        f"The link leads to {host}, which is not on the public internet. "
        "Links into private networks need ALLOW_PRIVATE_URLS."
    )
