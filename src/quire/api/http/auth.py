"""The team of a request: from its API key, its dashboard session, or the default team of a loopback-only service."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Iterable
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends
from fastapi.requests import HTTPConnection

from quire.api.dashboard.session_routes import DEFAULT_TEAM, session_of, sessions
from quire.api.http.client_address import client_address
from quire.api.http.connection_limits import address_group
from quire.api.http.error_responses import ForbiddenError, ThrottledError
from quire.api.http.request_origin import origin_host
from quire.api.http.services import services
from quire.domain.access_key import AccessKey, KeyScope
from quire.domain.payer import set_current_payer
from quire.errors import CredentialsError
from quire.settings import ApiKey

_ADMIN_PATHS = ("/metrics", "/queues", "/dispatch", "/keys")
"""What concerns the whole service or access to it, not one team's documents."""
SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic", "description": "The password is the key."},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
"""How a key may be sent, for OpenAPI; `team_of` reads it."""
KEY_HEADERS = ("x-api-key", "unstructured-api-key")
"""Headers that hold a bare key; the second is the one that clients of Unstructured send."""
_KEY_HEADERS = tuple(name.encode() for name in KEY_HEADERS)


async def team_of(request: HTTPConnection) -> str:
    """Returns the team. Raises as `team_with_key`."""
    return await team_with_key(request, given_key(request))


async def team_with_key(request: HTTPConnection, given: bytes | None) -> str:
    """Returns the team of a caller that gave this key, or none.

    Raises CredentialsError, ThrottledError, or ForbiddenError for another site's write. Without keys and without a
    password the service is on loopback only, where every user is `default`.
    """
    auth = services(request).runtime.settings.auth
    set_current_payer(None)
    if not auth.api_keys and not auth.web_password:
        _require_local_caller(request)
        request.state.actor = "local caller"
        return DEFAULT_TEAM
    if given is not None:
        # A key takes precedence over the cookie, because a program sends it on purpose.
        team = await _team_of_key(request, given, auth.api_keys)
        _vouch(request)
        return team
    if await session_of(request) is not None:
        _vouch(request)
        request.state.actor = f"{sessions(request).user} (dashboard)"
        return sessions(request).team
    if not auth.api_keys:
        raise CredentialsError(
            "Sign in to the dashboard. For programs, set API_KEYS as well as WEB_PASSWORD."
        )
    raise CredentialsError("An API key is needed: send `Authorization: Bearer KEY` or `X-API-Key: KEY`.")


Team = Annotated[str, Depends(team_of)]


def actor_of(request: HTTPConnection) -> str:
    """Returns the caller's name for the audit log: a key's id, a user of the dashboard, or `API_KEYS`."""
    return str(request.state.actor)


def given_key(request: HTTPConnection) -> bytes | None:
    """Returns the API key that the request carries, known or not."""
    return _sent_key(request.headers.raw)


def _sent_key(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The key in these headers: as bearer token, in a header of its own, or as password.

    The password comes last: a caller may send one for a proxy in front of Quire, and the key beside it.
    """
    first: dict[bytes, bytes] = {}
    for name, value in headers:
        first.setdefault(name, value.strip())
    scheme, _, credentials = first.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and credentials.strip():
        return credentials.strip()
    plain = next(filter(None, (first.get(name) for name in _KEY_HEADERS)), None)
    if plain is None and scheme.lower() == b"basic":
        return _basic_key(credentials.strip())
    return plain


def _basic_key(credentials: bytes) -> bytes | None:
    """The key in `user:key` or `key:`. Programs that can only be given an address send it so: https://quire:KEY@host."""
    try:
        user, colon, password = base64.b64decode(credentials, validate=True).partition(b":")
    except binascii.Error:
        return None
    return (password or user or None) if colon else None


def has_valid_key(keys: tuple[ApiKey, ...], headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether these headers carry a valid key, before there is a request."""
    given = _sent_key(headers)
    return given is not None and _team_for(given, keys) is not None


async def _team_of_key(request: HTTPConnection, given: bytes, keys: tuple[ApiKey, ...]) -> str:
    """Raises CredentialsError; or ThrottledError, before anything is compared, after too many wrong keys."""
    throttle = services(request).key_throttle
    address = address_group(client_address(request))
    wait_s = throttle.wait_s(address, given)
    if wait_s:
        raise ThrottledError(
            "Too many wrong API keys came from this address. Wait a moment, then try again.",
            retry_after_s=wait_s,
        )
    team = _team_for(given, keys)
    kept = await services(request).keys.find(given.decode("latin-1")) if team is None else None
    if team is None and kept is None:
        throttle.was_wrong(address)
        raise CredentialsError("The API key is not known.")
    throttle.was_right(address, given)
    request.state.actor = "API_KEYS" if kept is None else f"key {kept.id}"
    return await _team_of_kept_key(request, kept) if kept is not None else str(team)


def _vouch(request: HTTPConnection) -> None:
    vouch = request.scope.get("quire.vouch")
    if vouch is not None:
        vouch()


def _team_for(given: bytes, keys: tuple[ApiKey, ...]) -> str | None:
    """Compares every key, so that the response time does not reveal which key was nearly right."""
    found = None
    for one in keys:
        if hmac.compare_digest(given, one.key.encode()):
            found = one.team
    return found


async def _team_of_kept_key(request: HTTPConnection, key: AccessKey) -> str:
    """The team of a key of the catalog. Raises ForbiddenError for what its scope does not permit, ThrottledError."""
    wanted = (
        KeyScope.READ if request.scope.get("method", "GET") in ("GET", "HEAD", "OPTIONS") else KeyScope.WRITE
    )
    if request.url.path.startswith(_ADMIN_PATHS):
        wanted = KeyScope.ADMIN
    if not key.scope.permits(wanted):
        raise ForbiddenError(f"The API key permits {key.scope.value}; this request needs {wanted.value}.")
    wait_s = await services(request).keys.wait_s(key)
    if wait_s:
        raise ThrottledError(
            f"This API key may send {key.requests_per_minute} requests a minute.", retry_after_s=wait_s
        )
    set_current_payer(key.payer)
    return key.team


def _require_local_caller(request: HTTPConnection) -> None:
    """Refuses web pages that reach a service without keys through a visitor's browser. Raises CredentialsError.

    A page that resolves its own host name to 127.0.0.1 still sends that name in Host; a page that posts a form
    sends its own address in Origin.
    """
    host = _host_of(f"//{request.headers.get('host', '')}")
    if not _is_local(host):
        raise CredentialsError("Without API_KEYS the service answers only to localhost. Set API_KEYS.")
    origin = origin_host(request)
    if origin is not None and origin != request.headers.get("host", "").lower():
        raise CredentialsError("Without API_KEYS other web sites may not use the service. Set API_KEYS.")


def _host_of(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
