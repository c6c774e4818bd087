"""Who asks: the team of an API key, whoever is signed in, or the only team of a service that nobody else can reach."""

from __future__ import annotations

import hmac
import ipaddress
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request

from quire.api.dashboard.session_routes import DEFAULT_TEAM, session_of, sessions
from quire.api.http.services import services
from quire.errors import CredentialsError
from quire.settings import ApiKey

SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
"""How a key may be sent, for OpenAPI; `team_of` reads it."""


async def team_of(request: Request) -> str:
    """Raises UnauthorizedError, or ForbiddenError for what another site sent with the dashboard's cookie.

    Without keys and without a password the service is on loopback only, where every user is `default`.
    """
    auth = services(request).runtime.settings.auth
    if not auth.api_keys and not auth.web_password:
        _refuse_strangers(request)
        return DEFAULT_TEAM
    given = _given_key(request)
    if given is not None:
        # A key goes before the cookie: whoever sends one means it.
        team = _team_for(given, auth.api_keys)
        if team is None:
            raise CredentialsError("The API key is not known.")
        return team
    if await session_of(request) is not None:
        return sessions(request).team
    if not auth.api_keys:
        raise CredentialsError(
            "Sign in to the dashboard. For programs, set API_KEYS as well as WEB_PASSWORD."
        )
    raise CredentialsError("An API key is needed: send `Authorization: Bearer KEY` or `X-API-Key: KEY`.")


Team = Annotated[str, Depends(team_of)]


def _given_key(request: Request) -> bytes | None:
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and credentials.strip():
        return credentials.strip().encode("latin-1", "replace")
    plain = request.headers.get("x-api-key", "").strip()
    return plain.encode("latin-1", "replace") if plain else None


def _team_for(given: bytes, keys: tuple[ApiKey, ...]) -> str | None:
    """Looks at every key, so that the time taken tells nothing about which was nearly right."""
    found = None
    for one in keys:
        if hmac.compare_digest(given, one.key.encode()):
            found = one.team
    return found


def _refuse_strangers(request: Request) -> None:
    """Keeps out web pages that reach a keyless service through their visitor's browser.

    A page that renames its own host to 127.0.0.1 still shows that name in Host; one that posts a form to us
    shows its own address in Origin.
    """
    host = _host_of(f"//{request.headers.get('host', '')}")
    if not _is_local(host):
        raise CredentialsError("Without API_KEYS the service answers only to localhost. Set API_KEYS.")
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower():
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
