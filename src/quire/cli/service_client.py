"""A small HTTP client for a running service. Standard library only: these commands must start at once."""

from __future__ import annotations

import argparse
import http.client
import ipaddress
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from quire.cli.startup import settings_from
from quire.errors import CredentialsError, MissingError, NotReadyError, QuireError, StateConflictError
from quire.settings import ClientSettings

_TIMEOUT_S = 60.0
_MOST_ERROR_BYTES = 100_000
_RECONNECTS = 5
_PIECE_BYTES = 256 << 10
_KINDS = (CredentialsError, MissingError, NotReadyError, StateConflictError)


class ServiceError(QuireError):
    """The service can't be reached, or answers with what can't be understood."""

    code = "service_unreachable"
    retryable = True


@dataclass(frozen=True, slots=True)
class ServerEvent:
    id: str
    type: str
    data: dict[str, Any]


class Client:
    """Calls one service. Raises ServiceError, or the error that the service answered with."""

    def __init__(self, settings: ClientSettings) -> None:
        self._url = settings.url.rstrip("/")
        self._key = settings.api_key
        self._opener = urllib.request.build_opener(*_handlers(self._url))

    def get(self, path: str, **query: str | int | None) -> Any:
        return self._json("GET", path, query)

    def post(self, path: str, **query: str | int | None) -> Any:
        return self._json("POST", path, query)

    def delete(self, path: str) -> None:
        self._open("DELETE", path, {}).close()

    def pieces(self, path: str, **query: str | int | None) -> Iterator[bytes]:
        """The body of the answer as it comes."""
        with self._open("GET", path, query) as answer:
            try:
                while piece := answer.read(_PIECE_BYTES):
                    yield piece
            except (OSError, http.client.HTTPException) as error:
                raise ServiceError(f"The answer of {self._shown} broke off.") from error

    def events(self, path: str, last_id: str = "") -> Iterator[ServerEvent]:
        """Server-sent events up to the end of the stream; a lost connection is taken up where it was."""
        failures = 0
        while True:
            headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
            try:
                with self._open("GET", path, {}, headers) as answer:
                    for event in _events(answer):
                        last_id, failures = event.id or last_id, 0
                        yield event
                return
            except (OSError, http.client.HTTPException) as error:
                failures += 1
                if failures > _RECONNECTS:
                    raise ServiceError(f"The events of {self._shown} keep breaking off.") from error

    def _json(self, method: str, path: str, query: Mapping[str, str | int | None]) -> Any:
        with self._open(method, path, query) as answer:
            try:
                return json.loads(answer.read())
            except (OSError, http.client.HTTPException) as error:
                raise ServiceError(f"The answer of {self._shown} broke off.") from error
            except ValueError as error:
                raise ServiceError(f"{self._shown} doesn't answer like Quire. Check QUIRE_URL.") from error

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int | None],
        headers: Mapping[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        given = {name: value for name, value in query.items() if value is not None}
        url = self._url + path + (f"?{urllib.parse.urlencode(given)}" if given else "")
        request = urllib.request.Request(url, method=method, headers=dict(headers or {}))  # noqa: S310 - a setting
        if method == "POST":
            request.data = b""
        if self._key:
            request.add_header("Authorization", f"Bearer {self._key}")
        try:
            answer: http.client.HTTPResponse = self._opener.open(request, timeout=_TIMEOUT_S)
            return answer
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from error
        except (OSError, http.client.HTTPException) as error:
            raise ServiceError(
                f"No service answers at {self._shown}. Start `quire serve`, or set QUIRE_URL."
            ) from error

    def _refusal(self, error: urllib.error.HTTPError) -> QuireError:
        try:
            body = json.loads(error.read(_MOST_ERROR_BYTES))
            text, code = str(body["error"]), body.get("code")
        except (ValueError, KeyError, TypeError, AttributeError, OSError):
            return ServiceError(f"{self._shown} answers {error.code}, and not like Quire. Check QUIRE_URL.")
        if code == CredentialsError.code:
            return CredentialsError(f"{text} Set QUIRE_API_KEY.")
        for kind in _KINDS:
            if kind.code == code:
                return kind(text)
        return ServiceError(text)

    @property
    def _shown(self) -> str:
        parts = urllib.parse.urlsplit(self._url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could carry the key to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def client_from(args: argparse.Namespace) -> Client:
    """The client of the service that the settings and the command line name. Raises SettingsError."""
    return Client(settings_from(args).client)


def _handlers(url: str) -> list[urllib.request.BaseHandler]:
    """A proxy is for the world outside, whatever the environment says about this machine."""
    handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if local:
        handlers.append(urllib.request.ProxyHandler({}))
    return handlers


def _events(lines: Iterator[bytes] | http.client.HTTPResponse) -> Iterator[ServerEvent]:
    fields: dict[str, str] = {}
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        name, _, value = line.partition(":")
        if line and name:
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value
        elif not line and "data" in fields:
            try:
                data = json.loads(fields["data"])
            except ValueError as error:
                raise ServiceError("The service sent an event that can't be understood.") from error
            yield ServerEvent(fields.get("id", ""), fields.get("event", "message"), data)
            fields = {}
