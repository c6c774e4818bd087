"""The HTTP session to a service: retries, and the translation of foreign errors."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from quire.client.exceptions import (
    BusyError,
    ClientError,
    UnreachableError,
    UnreadableError,
    UsageError,
    refusal,
)
from quire.client.service_calls import ServiceCall


@dataclass(frozen=True, slots=True)
class Retrying:
    """At most `attempts` for each call, and no wait longer than `longest_wait_s`.

    Only what the service or the network may get over: no connection, a broken one, 429 and 503. Where the service
    says when to come back, that is when; if that is further off than `longest_wait_s`, the error is raised at once.
    """

    attempts: int = 5
    base_s: float = 0.2
    longest_wait_s: float = 30.0

    def wait_s(self, failed_attempts: int, error: ClientError) -> float | None:
        """How long to wait before the next attempt; None if there is to be none."""
        worth_it = isinstance(error, UnreachableError) or (isinstance(error, BusyError) and error.retryable)
        if not worth_it or failed_attempts >= self.attempts:
            return None
        told_s: float = error.retry_after_s or 0.0
        if told_s > self.longest_wait_s:
            return None
        backoff_s: float = min(self.longest_wait_s, self.base_s * 2 ** (failed_attempts - 1))
        # Spread, so that callers who were refused together don't come back together.
        return max(told_s, backoff_s * random.uniform(0.5, 1.0))  # noqa: S311 - no secret in it


_MOST_ERROR_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    status: int
    body: bytes

    def json(self) -> Any:
        """Raises UnreadableError."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise UnreadableError("What answered is not Quire. Check the address.") from error


class Transport:
    """Connects at the first call. Raises ClientError and nothing else.

    Redirects are not followed: they could carry the key to another host.
    """

    def __init__(self, url: str, api_key: str, timeout_s: float, retrying: Retrying) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError("The address of a service looks like http://127.0.0.1:8080.")
        if parts.username or parts.password:
            raise UsageError(
                "The address of a service has no name or password in it; give the key by itself."
            )
        if not api_key.isascii() or not api_key.isprintable():
            raise UsageError("An API key has printable ASCII characters only.")
        self._url = url.rstrip("/")
        self.shown = f"{parts.scheme}://{parts.netloc}"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout_s = timeout_s
        self._retrying = retrying
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(self, call: ServiceCall) -> ServiceResponse:
        """The whole answer, after as many attempts as are allowed."""
        failed = 0
        while True:
            try:
                async with self._sent(call) as response:
                    return ServiceResponse(response.status, await response.read())
            except ClientError as error:
                failed += 1
                await self._wait_or_raise(failed, error)

    @asynccontextmanager
    async def stream(self, call: ServiceCall) -> AsyncIterator[ByteStream]:
        """The answer as it comes. Attempts are repeated up to its first byte; later it breaks off with an error."""
        failed = 0
        while True:
            try:
                entered = self._sent(call)
                response = await entered.__aenter__()
                break
            except ClientError as error:
                failed += 1
                await self._wait_or_raise(failed, error)
        try:
            yield ByteStream(response, self)
        finally:
            # Closed, not released: the rest is not read.
            response.close()
            await entered.__aexit__(None, None, None)

    async def put_file(self, url: str, headers: Mapping[str, str], path: Path) -> None:
        """Puts a file at a signed address, which must not see the key of the service."""
        failed = 0
        while True:
            try:
                await self._put_once(url, headers, path)
            except ClientError as error:
                failed += 1
                await self._wait_or_raise(failed, error)
            else:
                return

    async def _put_once(self, url: str, headers: Mapping[str, str], path: Path) -> None:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout_s, sock_read=self._timeout_s)
        with await _open(path) as content:
            try:
                # The address is signed letter by letter, so it is sent as it came.
                async with self._opened().put(
                    URL(url, encoded=True),
                    data=content,
                    headers={"Content-Type": "application/octet-stream", **headers},
                    allow_redirects=False,
                    timeout=timeout,
                ) as answer:
                    status = answer.status
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise UnreachableError(
                    "The connection to the object store of the service broke off."
                ) from error
        if status >= 500:
            raise UnreachableError(f"The object store of the service answers {status}.")
        if status >= 300:
            raise UnreadableError(f"The object store of the service refuses the file with status {status}.")

    async def _wait_or_raise(self, failed: int, error: ClientError) -> None:
        wait_s = self._retrying.wait_s(failed, error)
        if wait_s is None:
            raise error
        await asyncio.sleep(wait_s)

    @asynccontextmanager
    async def _sent(self, call: ServiceCall) -> AsyncIterator[aiohttp.ClientResponse]:
        quiet_s = call.quiet_s or self._timeout_s
        options: dict[str, Any] = {}
        with ExitStack() as opened:
            if call.json is not None:
                options["json"] = dict(call.json)
            elif call.files:
                options["data"] = await self._form(call, opened)
            elif call.method == "POST":
                options["data"] = b""
            request = self._opened().request(
                call.method,
                self._url + call.path,
                params=_parameters(call),
                headers={"Accept": "application/json", **self._headers, **call.headers},
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._timeout_s, sock_read=quiet_s),
                **options,
            )
            try:
                async with request as response:
                    if response.status >= 300:
                        raise await self._refused(response)
                    yield response
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise self.broken(error) from error
            except ValueError as error:  # half of a surrogate pair, and the like
                raise UsageError("There are characters in the request that can't be sent.") from error

    def broken(self, error: Exception) -> ClientError:
        if isinstance(error, aiohttp.ClientConnectorError):
            return UnreachableError(f"No service answers at {self.shown}. Is `quire serve` running there?")
        return UnreachableError(f"The connection to {self.shown} broke off.")

    async def _refused(self, response: aiohttp.ClientResponse) -> ClientError:
        raw = await response.content.read(_MOST_ERROR_BYTES)
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        if not isinstance(body, dict) or "error" not in body:
            # A proxy in front of a service that restarts answers for it, in its own words.
            if response.status in (502, 503, 504):
                return UnreachableError(
                    f"{self.shown} answers {response.status}: the service behind it is away."
                )
            return UnreadableError(
                f"{self.shown} answers {response.status}, and not like Quire. Check the address."
            )
        waits = response.headers.get("Retry-After", "")
        if "retry_after_seconds" not in body and waits.isdecimal():
            body["retry_after_seconds"] = int(waits)
        return refusal(response.status, body)

    async def _form(self, call: ServiceCall, opened: ExitStack) -> aiohttp.FormData:
        form = aiohttp.FormData()
        for name, value in (call.form or {}).items():
            form.add_field(name, value)
        for file in call.files:
            content: bytes | IO[bytes] = (
                file.content if isinstance(file.content, bytes) else await _open(file.content)
            )
            if not isinstance(content, bytes):
                opened.callback(content.close)
            form.add_field("file", content, filename=file.filename, content_type=file.media_type)
        return form

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return self._session


class ByteStream:
    """An answer that is still coming."""

    def __init__(self, response: aiohttp.ClientResponse, transport: Transport) -> None:
        self._response = response
        self._transport = transport

    @property
    def status(self) -> int:
        return self._response.status

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Raises UnreachableError when it breaks off."""
        try:
            async for piece in self._response.content.iter_any():
                yield piece
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._transport.broken(error) from error


def _parameters(call: ServiceCall) -> list[tuple[str, str]]:
    """A tuple is a parameter given several times."""
    return [
        (name, str(one))
        for name, value in call.query.items()
        for one in (value if isinstance(value, tuple) else (value,))
    ]


async def _open(path: Path) -> IO[bytes]:
    """Raises UsageError for a file that can't be opened."""
    try:
        return await asyncio.to_thread(path.open, "rb")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from error
