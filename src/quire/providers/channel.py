"""The way to one provider through its official SDK.

The SDK brings the address, the key, the headers, the connections and the errors. Its typed methods are passed
over: they walk and copy the whole request and build objects out of the answer, which costs more than the call
itself (1 ms of CPU instead of 2 to 3, with a picture of 100 kB). What is sent and understood is in the files
of the providers.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from quire.clock import Clock
from quire.providers import failures
from quire.providers.protocol import (
    ProviderError,
    ProviderNetworkError,
    ProviderServerError,
    ProviderTimeoutError,
    SeenLimits,
)

# At debug level Anthropic's SDK writes whole requests into the log, and at info level each call costs a line.
_CHATTY_LOGGERS = ("openai", "anthropic", "httpx2", "httpcore2")

KEEPALIVE_S = 4.0
"""Shorter than any server's: a connection that the server closes just as it is used again looks like a cut."""

MOST_CONNECTIONS = 10_000
"""No bound of its own: how many calls are out is the dispatcher's business."""

_OUR_HEADERS = ("accept", "content-type", "user-agent", "authorization", "api-key", "anthropic-version")

NO_KEY = "none"
"""Sent to servers that want no key, because the SDKs insist on one."""


class SdkClient(Protocol):
    """What the clients of both SDKs have in common."""

    @property
    def default_headers(self) -> Mapping[str, Any]: ...

    async def post(self, path: str, *, cast_to: Any, content: bytes, options: Any) -> Any: ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Sdk:
    """A loaded SDK. `omit` is its way to say that a header shall not be sent."""

    client: SdkClient
    response_class: type[Any]
    status_error: type[Exception]
    any_error: type[Exception]
    omit: Any


@dataclass(frozen=True)
class Reply:
    """A good answer: the decoded JSON object and what its headers said."""

    data: dict[str, Any]
    limits: SeenLimits


class Channel:
    """Safe for many calls at once. Loads the SDK at the first, in a thread, because that takes a second."""

    def __init__(
        self,
        name: str,
        load: Callable[[], Sdk],
        read_limits: Callable[[Mapping[str, str], float], SeenLimits],
        clock: Clock,
    ) -> None:
        self._name = name
        self._load = load
        self._read_limits = read_limits
        self._clock = clock
        self._sdk: Sdk | None = None
        self._options: dict[str, Any] = {}
        self._loading = asyncio.Lock()

    async def open(self) -> Sdk:
        if self._sdk is None:
            async with self._loading:
                if self._sdk is None:
                    self._sdk = await asyncio.to_thread(self._loaded)
        return self._sdk

    async def post(self, path: str, body: bytes, *, model: str, timeout_s: float) -> Reply:
        """Raises ProviderError. The time counts from when the SDK is loaded, connecting included.

        The errors are raised outside the handlers, so that nothing of the SDK's errors, which quote bodies and
        hold requests, hangs on them.
        """
        sdk = await self.open()
        who = f"{self._name} ({model})"
        failure: ProviderError | None = None
        response: Any = None
        try:
            async with asyncio.timeout(timeout_s):
                response = await sdk.client.post(
                    path, cast_to=sdk.response_class, content=body, options=self._options
                )
        except TimeoutError:
            failure = ProviderTimeoutError(f"{who} gave no answer within {timeout_s:g} s.")
        except sdk.status_error as error:
            failure = self._by_status(who, error)
        except (sdk.any_error, OSError) as error:
            failure = ProviderNetworkError(f"No connection to {who}, or it was cut ({_root(error)}).")
        except Exception as error:
            if not _is_transport_error(error):
                raise
            failure = ProviderServerError(f"{who} gave an answer that is not HTTP ({_root(error)}).")
        if failure is not None:
            raise failure
        now = self._clock.now()
        limits = self._read_limits(response.headers, now)
        data = _json_object(response.content)
        if data is None:
            raise ProviderServerError(f"{who} gave an answer that is not JSON.", limits=limits)
        return Reply(data, limits)

    async def close(self) -> None:
        if self._sdk is not None:
            await self._sdk.client.close()

    def _loaded(self) -> Sdk:
        sdk = self._load()
        for name in _CHATTY_LOGGERS:
            logger = logging.getLogger(name)
            logger.setLevel(max(logger.level, logging.WARNING))
        # The SDKs add headers that they find in the environment, which only our settings may read.
        foreign = {
            name: sdk.omit
            for name in sdk.client.default_headers
            if name.lower() not in _OUR_HEADERS and not name.lower().startswith("x-stainless-")
        }
        self._options = {"headers": {"Content-Type": "application/json", **foreign}}
        return sdk

    def _by_status(self, who: str, error: Any) -> ProviderError:
        now = self._clock.now()
        headers = error.response.headers
        limits = self._read_limits(headers, now)
        return failures.by_status(who, error.status_code, error.body, headers=headers, limits=limits, now=now)


def http_client(build: Callable[..., Any]) -> Any:
    """An SDK's HTTP client over aiohttp: no proxies, keys or certificates from the environment, no redirects.

    A redirect could carry page and key to a place that nobody configured.
    """
    import httpx2

    return build(
        timeout=None,  # the channel's own covers the whole call; these would only cover pauses in it
        trust_env=False,
        follow_redirects=False,
        limits=httpx2.Limits(
            max_connections=MOST_CONNECTIONS,
            max_keepalive_connections=MOST_CONNECTIONS,
            keepalive_expiry=KEEPALIVE_S,
        ),
    )


def _json_object(content: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _is_transport_error(error: Exception) -> bool:
    """Whether it comes from the HTTP libraries under the SDK, which wraps most of their errors but not all."""
    import aiohttp
    import httpx2

    return isinstance(error, aiohttp.ClientError | httpx2.HTTPError | httpx2.InvalidURL)


def _root(error: BaseException) -> str:
    """The class of what happened first. Classes have names that help and no contents that tell."""
    while error.__cause__ is not None:
        error = error.__cause__
    return type(error).__name__
