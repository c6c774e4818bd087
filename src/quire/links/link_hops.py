"""One request to one hop of a link, over a connection that is pinned to checked addresses.

Each hop is resolved once, every address found is checked, and the connection can go only to those addresses:
there is no second resolution that could answer differently (DNS rebinding). Credentials, cookies and the
environment's proxies are not sent or used.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from quire.errors import DownloadError, LinkRefusedError
from quire.links.addresses import LinkPolicy, ParsedLink, check_url, is_literal, is_reachable, refuse

if TYPE_CHECKING:
    from aiohttp import ClientResponse, TCPConnector

Lookup = Callable[[str, int], Awaitable[list[str]]]

_LONGEST_RETRY_AFTER_S = 86_400.0
_TRANSIENT = {408, 425, 429}


async def system_lookup(host: str, port: int) -> list[str]:
    """Returns all addresses of a host from the system's resolver. Raises socket.gaierror."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@asynccontextmanager
async def deadline(policy: LinkPolicy) -> AsyncIterator[None]:
    timer = asyncio.timeout(policy.timeout_s)
    try:
        async with timer:
            yield
    except TimeoutError as error:
        if not timer.expired():
            raise
        raise DownloadError(f"The link took longer than {policy.timeout_s:g} seconds.") from error


@asynccontextmanager
async def answer(
    method: str,
    link: ParsedLink,
    policy: LinkPolicy,
    lookup: Lookup,
    *,
    headers: Mapping[str, str],
    body: bytes | AsyncIterator[bytes] | None = None,
) -> AsyncIterator[ClientResponse]:
    """Yields the response to one request. Errors of the request are translated; errors of the block are not."""
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
        with translated(link):
            url = URL(link.url)
            response = await session.request(method, url, data=body, headers=headers, allow_redirects=False)
        try:
            yield response
        finally:
            response.close()


async def _addresses(link: ParsedLink, policy: LinkPolicy, lookup: Lookup) -> list[str]:
    """Returns every address of the host. One address that may not be reached refuses the link."""
    try:
        found = [link.host] if is_literal(link.host) else await lookup(link.host, link.port)
    except socket.gaierror as error:
        gone = error.errno in {socket.EAI_NONAME, socket.EAI_FAIL}
        raise DownloadError(f"The host {link.host} was not found.", retryable=not gone) from error
    except (OSError, UnicodeError) as error:
        raise DownloadError(f"The host {link.host} could not be looked up.") from error
    if not found:
        raise DownloadError(f"The host {link.host} has no address.")
    if not all(is_reachable(address, allow_private=policy.allow_private) for address in found):
        refuse(link.host)
    return found


def _connector(addresses: list[str], policy: LinkPolicy) -> TCPConnector:
    """Returns a connector that connects only to these addresses."""
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
        # aiohttp does not call a resolver for hosts that it reads as addresses; every connection passes here.
        family, kind, protocol, _, target = info
        if not is_reachable(str(target[0]), allow_private=policy.allow_private):
            refuse(str(target[0]))
        return socket.socket(family, kind, protocol)

    return TCPConnector(resolver=Pinned(), use_dns_cache=False, force_close=True, socket_factory=guarded)


@contextmanager
def translated(link: ParsedLink) -> Iterator[None]:
    """Translates aiohttp's errors. Their texts are dropped, because they repeat the link with its query."""
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
        raise DownloadError(f"{link.host} closed the connection before the document was complete.") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise DownloadError(f"The connection to {link.host} failed.") from error


def redirected(link: ParsedLink, response: ClientResponse, policy: LinkPolicy) -> ParsedLink:
    """Returns the checked target of a redirect. Raises LinkRefusedError or DownloadError."""
    location = response.headers.get("Location", "")
    if not location:
        raise DownloadError(f"{link.host} redirected without a Location.", retryable=False)
    return next_hop(link, location, policy)


def next_hop(link: ParsedLink, location: str, policy: LinkPolicy) -> ParsedLink:
    """Returns the checked next hop, which may be relative to this one. Raises LinkRefusedError."""
    from yarl import URL

    try:
        target = check_url(str(URL(link.url).join(URL(location))), policy)
    except ValueError as error:
        raise LinkRefusedError(f"{link.host} redirected to a malformed link.") from error
    if link.scheme == "https" and target.scheme == "http":
        raise LinkRefusedError(f"{link.host} redirected from https to http, which is not followed.")
    return target


def check_status(link: ParsedLink, response: ClientResponse, *, good: Container[int]) -> None:
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
    """Returns the wait that the server asked for. A date is compared with the server's own clock."""
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
