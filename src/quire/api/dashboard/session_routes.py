"""Signing in to the dashboard: a signed cookie that scripts can't read and other sites can't use.

The cookie holds an id, an expiry and a keyed hash over both, the user's name and the password: it can't be made
without the service's secret, and a new password ends every session. Signing out is remembered until the session
would have expired. A cookie alone never changes anything: a write must also come from a page of this service.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.requests import HTTPConnection
from pydantic import BaseModel, Field

from quire.api.http.client_address import client_address
from quire.api.http.error_responses import ErrorBody, ForbiddenError, ThrottledError, documented
from quire.api.http.request_bodies import read_json
from quire.api.http.request_origin import origin_host
from quire.api.http.responses import json_answer
from quire.api.http.services import services
from quire.api.jobs.job_views import iso
from quire.bootstrap import Runtime
from quire.coordination.session_records import SessionRecords
from quire.errors import CredentialsError, MissingError, RequestError

router = APIRouter(prefix="/session", tags=["dashboard"])

COOKIE = "quire_session"
DEFAULT_TEAM = "default"

_ATTEMPTS_A_MINUTE = 10
_LONGEST_GIVEN = 1_024
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_TOKEN = re.compile(r"([A-Za-z0-9_-]{22})(s?)\.([0-9]{1,12})\.([0-9a-f]{64})")
_TLS = "s"


class SessionView(BaseModel):
    """The user and the team of the dashboard."""

    sign_in: bool = Field(description="Whether there is a password to sign in with.")
    keys: bool = Field(description="Whether there are API keys, which do as well.")
    signed_in: bool
    user: str | None
    team: str | None
    expires_at: str | None


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    expires_at: float
    secure: bool
    """Whether the session began over TLS; its cookie is then `Secure`."""


class Sessions:
    """Creates and checks sessions. Stateless, so that any replica can do both."""

    def __init__(self, runtime: Runtime) -> None:
        self._auth = runtime.settings.auth
        self._clock = runtime.parts.clock
        self._sealer = runtime.parts.sealer
        self._records = SessionRecords(runtime.connection, runtime.parts.clock)

    @property
    def needed(self) -> bool:
        return bool(self._auth.web_password)

    @property
    def user(self) -> str:
        return self._auth.web_username

    @property
    def team(self) -> str:
        keys = self._auth.api_keys
        return self._auth.web_team or (keys[0].team if keys else DEFAULT_TEAM)

    async def sign_in(self, client: str, user: str, password: str, *, secure: bool) -> Session:
        """Raises ThrottledError before anything is compared, CredentialsError, or MissingError without a password."""
        if not self.needed:
            raise MissingError("There is no password to sign in with: WEB_PASSWORD is not set.")
        wait_s = await self._records.attempt(client, _ATTEMPTS_A_MINUTE)
        if wait_s:
            raise ThrottledError("Too many attempts. Wait a moment, then try again.", retry_after_s=wait_s)
        # Both are always compared: the duration must not reveal which one was wrong.
        right_user = self._same(user, self._auth.web_username)
        right_password = self._same(password, self._auth.web_password)
        if not (right_user and right_password):
            raise CredentialsError("The user name or the password is not right.")
        return self._made(secrets.token_urlsafe(16), secure)

    async def found(self, request: HTTPConnection) -> Session | None:
        """Returns the session of the request's cookie if it is valid. Raises CoordinationError."""
        given = _TOKEN.fullmatch(request.cookies.get(COOKIE, ""))
        if given is None or not self.needed:
            return None
        session = Session(given[1], float(given[3]), given[2] == _TLS)
        if not hmac.compare_digest(given[4], self._mac(session)) or session.expires_at <= self._clock.now():
            return None
        return None if await self._records.ended(session.id) else session

    async def sign_out(self, session: Session) -> None:
        # For a whole session: another copy of the cookie may have been prolonged meanwhile.
        await self._records.end(session.id, self._auth.web_session_ttl_s)

    def prolonged(self, session: Session) -> Session | None:
        """Returns a new expiry for a session that is past half its time."""
        left_s = session.expires_at - self._clock.now()
        spent = left_s < self._auth.web_session_ttl_s / 2
        return self._made(session.id, session.secure) if spent else None

    def write(self, response: Response, session: Session) -> None:
        response.set_cookie(
            COOKIE,
            f"{session.id}{_TLS if session.secure else ''}.{session.expires_at:.0f}.{self._mac(session)}",
            max_age=int(session.expires_at - self._clock.now()),
            httponly=True,
            samesite="strict",
            secure=session.secure,
        )

    def view(self, session: Session | None) -> SessionView:
        return SessionView(
            sign_in=self.needed,
            keys=bool(self._auth.api_keys),
            signed_in=session is not None,
            user=self.user if session else None,
            team=self.team if session else None,
            expires_at=iso(session.expires_at) if session else None,
        )

    def _made(self, session_id: str, secure: bool) -> Session:
        return Session(session_id, float(int(self._clock.now() + self._auth.web_session_ttl_s)), secure)

    def _mac(self, session: Session) -> str:
        user, password = self._auth.web_username, self._auth.web_password
        parts = (session.id, int(session.expires_at), session.secure, user, password)
        return self._sealer.fingerprint("web-session", *parts)

    def _same(self, given: str, right: str) -> bool:
        # Hashed first: comparing texts of different lengths would reveal the length.
        return hmac.compare_digest(
            self._sealer.fingerprint("web-login", given), self._sealer.fingerprint("web-login", right)
        )


def sessions(request: HTTPConnection) -> Sessions:
    return Sessions(services(request).runtime)


async def session_of(request: HTTPConnection) -> Session | None:
    """The session that this request may act in. Raises ForbiddenError for a write that another site sent."""
    if COOKIE not in request.cookies:
        return None
    found = await sessions(request).found(request)
    if found is not None:
        refuse_other_sites(request)
    return found


def refuse_other_sites(request: HTTPConnection) -> None:
    """Raises ForbiddenError unless a write comes from a page of this service.

    A browser says so itself where the service is reached by TLS or on this machine (Sec-Fetch-Site); elsewhere,
    and in old browsers, Origin must name the host that was asked. Neither can be set by a script. A WebSocket, which
    has no method, counts as a write: a browser lets every site read what comes from one.
    """
    if request.scope.get("method") in _SAFE_METHODS:
        return
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        same = site == "same-origin"
    else:
        origin = origin_host(request)
        same = bool(origin) and origin == request.headers.get("host", "").lower()
    if not same:
        raise ForbiddenError("This was not sent by the dashboard. Programs use an API key.")


@router.get("", summary="Whether the caller is signed in", response_model=SessionView)
async def session(request: Request) -> Response:
    """Prolongs a session that is past half its time."""
    known = sessions(request)
    found = await session_of(request)
    longer = known.prolonged(found) if found else None
    response = json_answer(known.view(longer or found))
    if longer is not None:
        known.write(response, longer)
    return response


@router.post(
    "",
    summary="Sign in to the dashboard",
    response_model=SessionView,
    responses={
        **documented(400, 401, 404, 503),
        403: {"model": ErrorBody, "description": "Another site sent this."},
        429: {"model": ErrorBody, "description": "Too many attempts."},
    },
)
async def sign_in(request: Request) -> Response:
    """JSON with `user` and `password`. The answer sets a cookie."""
    refuse_other_sites(request)
    known = sessions(request)
    given = await read_json(request)
    user, password = _text(given, "user"), _text(given, "password")
    # Plain HTTP on a private network must work too, so the browser reports whether it used TLS.
    secure = request.headers.get("origin", "").startswith("https://")
    made = await known.sign_in(client_address(request), user, password, secure=secure)
    response = json_answer(known.view(made))
    known.write(response, made)
    return response


@router.delete(
    "",
    summary="Sign out",
    status_code=204,
    responses={**documented(503), 403: {"model": ErrorBody, "description": "Another site sent this."}},
    response_class=Response,
)
async def sign_out(request: Request) -> Response:
    found = await session_of(request)
    if found is not None:
        await sessions(request).sign_out(found)
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or len(value) > _LONGEST_GIVEN:
        raise RequestError(f"{name}: expected a text of at most {_LONGEST_GIVEN} characters.")
    return value
