"""Fetching and calling links that users give, without letting them reach what they should not.

Every hop is resolved once, every address found is judged, and the connection can go only to those addresses:
there is no second resolution that could answer differently. Redirects are followed here, by hand, each judged
anew. Nothing of ours (credentials, cookies, proxies of the environment) goes along.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import socket
import unicodedata
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import unquote

from quire.errors import DownloadError, LinkRefusedError, TooLargeError

if TYPE_CHECKING:
    from aiohttp import ClientResponse, TCPConnector

Sink = Callable[[bytes], Awaitable[None]]
Progress = Callable[[int, int | None], Awaitable[None]]
Lookup = Callable[[str, int], Awaitable[list[str]]]

_LONGEST_LINK = 8_192
_CHUNK_BYTES = 256 * 1024
_LONGEST_RETRY_AFTER_S = 86_400.0
_REDIRECTS = {301, 302, 303, 307, 308}
_TRANSIENT = {408, 425, 429}

# Reachable only with `allow_private`.
_PRIVATE = [
    ipaddress.ip_network(text)
    for text in (
        *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15"),
        *("::1/128", "fc00::/7"),
    )
]
# Never reachable: no host of anybody, many hosts at once, tunnels to an address inside the address, and the
# metadata services of clouds, which hand out credentials (some of them live in public or private ranges).
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
    """What a link may do. `timeout_s` is for everything together, `stall_s` for each wait for data."""

    allow_private: bool = False
    max_redirects: int = 5
    timeout_s: float = 60.0
    max_bytes: int = 512 * 1024 * 1024
    stall_s: float = 20.0


@dataclass(frozen=True)
class ParsedLink:
    """A link that may be tried: without credentials and fragment."""

    url: str
    scheme: str
    host: str
    port: int


@dataclass(frozen=True)
class Downloaded:
    """What came of a download. `content_type` and `filename` are claims of the other side."""

    final_url: str
    content_type: str
    filename: str
    size: int


def check_url(url: str, policy: LinkPolicy) -> ParsedLink:
    """The link taken apart. Raises LinkRefusedError for anything but http(s) to a place that may be reached.

    A host name is judged only when it is resolved, by `download` or `post_json`.
    """
    from yarl import URL  # comes with aiohttp; the same parser must judge and connect

    if len(url) > _LONGEST_LINK or any(ord(c) <= 32 or ord(c) == 127 for c in url):
        raise LinkRefusedError("The link is too long or has spaces or control characters in it.")
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
        raise LinkRefusedError(f"Links to port {port} are not accepted.")
    if f".{host.lower()}".rstrip(".").endswith(".localhost") and not policy.allow_private:
        _refuse(host)
    if _is_number_in_disguise(host):
        raise LinkRefusedError(f"The link's host {host} is an unusual way to write an address.")
    if _is_literal(host) and not is_reachable(host, allow_private=policy.allow_private):
        _refuse(host)
    bare = parsed.with_user(None).with_fragment(None)
    return ParsedLink(str(bare), parsed.scheme, host, port)


def is_reachable(address: str, *, allow_private: bool) -> bool:
    """Whether links may lead to this IPv4 or IPv6 address. Raises ValueError if it is none."""
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


async def system_lookup(host: str, port: int) -> list[str]:
    """All addresses of a host, as the system's resolver has them. Raises socket.gaierror."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def download(
    url: str,
    sink: Sink,
    policy: LinkPolicy,
    on_progress: Progress | None = None,
    *,
    lookup: Lookup = system_lookup,
) -> Downloaded:
    """Streams what the link leads to into `sink` and tells `on_progress` (bytes so far, bytes expected).

    Raises LinkRefusedError, TooLargeError, or DownloadError, whose `retryable` and `retry_after_s` say
    whether and when to try again. The sink may have got a part by then. What the sink raises goes through.
    """
    link = check_url(url, policy)
    async with _deadline(policy):
        for _ in range(policy.max_redirects + 1):
            headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
            async with _answer("GET", link, policy, lookup, headers=headers) as response:
                if response.status not in _REDIRECTS:
                    return await _receive(link, response, sink, policy, on_progress)
                link = _redirected(link, response, policy)
    raise DownloadError(f"The link was redirected more than {policy.max_redirects} times.", retryable=False)


async def post_json(
    url: str, body: bytes, headers: Mapping[str, str], policy: LinkPolicy, *, lookup: Lookup = system_lookup
) -> int:
    """Posts the body and gives back the status, one of the 2xx. The answer's body is not read.

    Raises LinkRefusedError, or DownloadError when there was no answer in time, when the answer was an error,
    or when it was a redirect, which is never followed: the receiver should give its real address.
    """
    link = check_url(url, policy)
    sent = {"Content-Type": "application/json", **headers}
    async with _deadline(policy), _answer("POST", link, policy, lookup, headers=sent, body=body) as response:
        _check_status(link, response, good=range(200, 300))
        return response.status


def sign(body: bytes, secret: str, timestamp: int) -> str:
    """The signature header of a callback: `t=<timestamp>,v1=<HMAC-SHA256 of "timestamp.body" in hex>`."""
    mac = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"t={timestamp},v1={mac.hexdigest()}"


def verify(body: bytes, secret: str, signature: str, now: float, tolerance_s: float = 300.0) -> bool:
    """Whether `sign` made this signature for this body, at most `tolerance_s` before or after `now`."""
    match = re.fullmatch(r"t=(\d{1,12}),v1=[0-9a-f]{64}", signature, re.ASCII)
    if match is None or abs(now - int(match[1])) > tolerance_s:
        return False
    return hmac.compare_digest(sign(body, secret, int(match[1])), signature)


def safe_filename(name: str) -> str:
    """The name as it may be stored and shown: one path part, printable, at most 200 bytes, never empty."""
    last = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    kept = "".join(_safe_character(c) for c in unicodedata.normalize("NFC", last))
    kept = re.sub(r"\s+", " ", kept).strip(" .")
    if re.fullmatch(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", kept, re.IGNORECASE):
        kept = f"_{kept}"  # these open devices on Windows
    stem, dot, ending = kept.rpartition(".")
    if not stem or len(ending.encode()) > 20:
        stem, dot, ending = kept, "", ""
    room = 200 - len(f"{dot}{ending}".encode())
    stem = stem.encode()[:room].decode("utf-8", "ignore").rstrip(" .")
    return f"{stem}{dot}{ending}" or "document"


def _safe_character(c: str) -> str:
    # Cc: control; Cf: invisible, among them those that turn the writing direction; Cs: broken; Zl, Zp: lines.
    if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}:
        return " " if c in "\t\n\r" else ""
    looks_like = unicodedata.normalize("NFKC", c)
    return "_" if any(part in '/\\<>:"|?*' for part in looks_like) else c


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_number_in_disguise(host: str) -> bool:
    """Whether the system would take the host for an IPv4 address though it doesn't look like one: 0x7f.1."""
    try:
        socket.inet_aton(host.rstrip("."))
    except (OSError, UnicodeError):
        return False
    return not _is_literal(host)


def _refuse(host: str) -> NoReturn:
    raise LinkRefusedError(f"The link leads to {host}, which is not on the public internet.")


@asynccontextmanager
async def _deadline(policy: LinkPolicy) -> AsyncIterator[None]:
    timer = asyncio.timeout(policy.timeout_s)
    try:
        async with timer:
            yield
    except TimeoutError as error:
        if not timer.expired():
            raise
        raise DownloadError(f"The link took longer than {policy.timeout_s:g} seconds.") from error


@asynccontextmanager
async def _answer(
    method: str,
    link: ParsedLink,
    policy: LinkPolicy,
    lookup: Lookup,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
) -> AsyncIterator[ClientResponse]:
    """One request to one hop. Only making the request is translated; what the caller raises goes through."""
    import aiohttp  # heavy
    from yarl import URL

    addresses = await _addresses(link, policy, lookup)
    session = aiohttp.ClientSession(
        connector=_connector(addresses, policy),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=policy.stall_s, sock_read=policy.stall_s),
        auto_decompress=False,
        trust_env=False,
        headers={"User-Agent": "quire"},
    )
    async with session:
        with _translated(link):
            url = URL(link.url)
            response = await session.request(method, url, data=body, headers=headers, allow_redirects=False)
        try:
            yield response
        finally:
            response.close()


async def _addresses(link: ParsedLink, policy: LinkPolicy, lookup: Lookup) -> list[str]:
    """Every address of the host, all of them reachable; one bad address refuses the link."""
    try:
        found = [link.host] if _is_literal(link.host) else await lookup(link.host, link.port)
    except socket.gaierror as error:
        gone = error.errno in {socket.EAI_NONAME, socket.EAI_FAIL}
        raise DownloadError(f"The host {link.host} was not found.", retryable=not gone) from error
    except (OSError, UnicodeError) as error:
        raise DownloadError(f"The host {link.host} could not be looked up.") from error
    if not found:
        raise DownloadError(f"The host {link.host} has no address.")
    if not all(is_reachable(address, allow_private=policy.allow_private) for address in found):
        _refuse(link.host)
    return found


def _connector(addresses: list[str], policy: LinkPolicy) -> TCPConnector:
    """A connector that can't go anywhere but to these addresses."""
    from aiohttp import TCPConnector  # heavy
    from aiohttp.abc import AbstractResolver, ResolveResult

    class Pinned(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            return [
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                    proto=socket.IPPROTO_TCP,
                    flags=socket.AI_NUMERICHOST,
                )
                for address in addresses
            ]

        async def close(self) -> None:
            return None

    def guarded(info: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
        # aiohttp doesn't ask a resolver about hosts it takes for addresses; nothing gets past this.
        family, kind, protocol, _, target = info
        if not is_reachable(str(target[0]), allow_private=policy.allow_private):
            raise LinkRefusedError(f"The link leads to {target[0]}, which is not on the public internet.")
        return socket.socket(family, kind, protocol)

    return TCPConnector(resolver=Pinned(), use_dns_cache=False, force_close=True, socket_factory=guarded)


@contextmanager
def _translated(link: ParsedLink) -> Iterator[None]:
    """aiohttp's errors as ours. Their texts are left out: they repeat the link with its query."""
    import aiohttp  # heavy

    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise DownloadError(f"The certificate of {link.host} is not valid.", retryable=False) from error
    except aiohttp.ClientSSLError as error:
        raise DownloadError(f"No secure connection to {link.host} could be made.", retryable=False) from error
    except aiohttp.InvalidURL as error:
        raise LinkRefusedError("The link is malformed.") from error
    except aiohttp.ServerTimeoutError as error:
        raise DownloadError(f"{link.host} did not answer in time.") from error
    except aiohttp.ClientPayloadError as error:
        raise DownloadError(f"{link.host} broke off before everything had arrived.") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise DownloadError(f"The connection to {link.host} failed.") from error


def _redirected(link: ParsedLink, response: ClientResponse, policy: LinkPolicy) -> ParsedLink:
    from yarl import URL

    location = response.headers.get("Location", "")
    if not location:
        raise DownloadError(f"{link.host} redirected to nowhere.", retryable=False)
    try:
        target = check_url(str(URL(link.url).join(URL(location))), policy)
    except ValueError as error:
        raise LinkRefusedError(f"{link.host} redirected to a malformed link.") from error
    if link.scheme == "https" and target.scheme == "http":
        raise LinkRefusedError(f"{link.host} redirected from https to http, which is not followed.")
    return target


async def _receive(
    link: ParsedLink, response: ClientResponse, sink: Sink, policy: LinkPolicy, on_progress: Progress | None
) -> Downloaded:
    _check_status(link, response, good=(200, 203))
    expected, size = response.content_length, 0
    if expected is not None and expected > policy.max_bytes:
        _too_large(policy)
    async for chunk in _body(link, response):
        size += len(chunk)
        if size > policy.max_bytes:
            _too_large(policy)
        await sink(chunk)
        if on_progress is not None:
            await on_progress(size, expected)
    offered = response.content_disposition
    name = (offered.filename if offered else None) or unquote(response.url.raw_name)
    return Downloaded(link.url, response.content_type, safe_filename(name), size)


async def _body(link: ParsedLink, response: ClientResponse) -> AsyncIterator[bytes]:
    """The content in chunks, unpacked where the server packed it though asked not to."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
        raise DownloadError(f"{link.host} sent an encoding that was not asked for.", retryable=False)
    unpacker = None if encoding in {"", "identity"} else zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    while True:
        with _translated(link):
            chunk = await response.content.read(_CHUNK_BYTES)
        if unpacker is None:
            if not chunk:
                return
            yield chunk
            continue
        try:
            while chunk and not unpacker.eof:  # in steps, so that a bomb is met by the byte limit
                if part := unpacker.decompress(chunk, _CHUNK_BYTES):
                    yield part
                chunk = unpacker.unconsumed_tail
        except zlib.error as error:
            raise DownloadError(f"{link.host} sent damaged data.") from error
        if unpacker.eof:
            return
        if response.content.at_eof():
            raise DownloadError(f"{link.host} broke off before everything had arrived.")


def _check_status(link: ParsedLink, response: ClientResponse, *, good: Container[int]) -> None:
    status = response.status
    if status in good:
        return
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "no known status"
    retryable = status >= 500 or status in _TRANSIENT
    raise DownloadError(
        f"{link.host} answered {status} ({phrase}).",
        retryable=retryable,
        retry_after_s=_retry_after_s(response) if retryable else None,
    )


def _retry_after_s(response: ClientResponse) -> float | None:
    """The wait the server asked for. A date counts against the server's own clock, so ours may be wrong."""
    asked = response.headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d{1,9}", asked, re.ASCII):
        return min(float(asked), _LONGEST_RETRY_AFTER_S)
    try:
        until, server_now = (
            parsedate_to_datetime(text) for text in (asked, response.headers.get("Date", ""))
        )
        return min(max((until - server_now).total_seconds(), 0.0), _LONGEST_RETRY_AFTER_S)
    except (TypeError, ValueError):
        return None


def _too_large(policy: LinkPolicy) -> NoReturn:
    raise TooLargeError(f"The document is larger than {policy.max_bytes / (1 << 20):g} MB.")
