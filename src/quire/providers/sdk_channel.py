"""The channel to one provider through its official SDK, and the translation of its failures to our error tree.

The SDK supplies address, key, headers, connections and errors. Its typed methods are not used: they copy the whole
request and build objects from the answer, which costs more than the call itself (1 ms of CPU instead of 2 to 3, with
a picture of 100 kB). Bodies are built and parsed in the providers' modules.

Errors are translated by status and error code, never by the text of a message. They name the provider, the model and
the status, and contain nothing of the request or the answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from quire.clock import Clock
from quire.providers.provider_protocol import (
    ContentBlockedError,
    ModelMissingError,
    ProviderAuthError,
    ProviderError,
    ProviderNetworkError,
    ProviderRateLimitedError,
    ProviderServerError,
    ProviderTimeoutError,
    QuotaError,
    RejectedError,
    SeenLimits,
)
from quire.providers.rate_headers import retry_after_s

_QUOTA_CODES = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"}
    | {"quota_exceeded", "enforced_spend_limit_reached"}
)
_OVERLOADED_CODES = frozenset(
    {"overloaded_error", "server_is_overloaded", "server_overloaded", "engine_overloaded", "slow_down"}
)
_BLOCKED_CODES = frozenset(
    {"content_filter", "content_policy_violation", "moderation_blocked", "responsibleaipolicyviolation"}
)
_OVERLOADED_STATUS = 529


def by_status(
    label: str, status: int, body: object, *, headers: Mapping[str, str], limits: SeenLimits, now: float
) -> ProviderError:
    """The error for an answer with a status other than 2xx. `label` is the provider and model, for the text."""
    codes = _codes(body)
    wait_s = retry_after_s(headers, now)
    if codes & _BLOCKED_CODES:
        return ContentBlockedError(f"The content filter of {label} refused the page.", limits=limits)
    if codes & _QUOTA_CODES or status == 402:
        return QuotaError(f"The quota or credit of {label} is used up.", retry_after_s=wait_s, limits=limits)
    if codes & _OVERLOADED_CODES or status == _OVERLOADED_STATUS:
        return QuotaError(f"{label} is overloaded.", retry_after_s=wait_s, limits=limits)
    kind: type[ProviderError]
    if status == 429:
        kind, text = ProviderRateLimitedError, f"{label} limits the rate of requests (429)."
        wait_s = limits.refill_wait_s() if wait_s is None else wait_s
    elif status in {401, 403}:
        kind, text = ProviderAuthError, f"{label} doesn't accept the key ({status})."
    elif status in {404, 410}:
        kind, text = (
            ModelMissingError,
            f"{label} is not there ({status}): check the model's name and the address.",
        )
    elif status == 408:
        kind, text = ProviderTimeoutError, f"{label} waited too long for the request (408)."
    elif status >= 500 or status < 400 or status in {409, 425, 499}:
        kind, text = ProviderServerError, f"{label} failed with status {status}."
    else:
        kind, text = RejectedError, f"{label} rejected the request with status {status}."
    return kind(text, retry_after_s=wait_s, limits=limits)


def _codes(body: object) -> frozenset[str]:
    """Returns the error codes of an error body of either protocol, in lower case."""
    found = _table(body)
    error = _table(found.get("error")) or found  # an SDK may have unwrapped it already
    inner = _table(error.get("innererror"))
    details = _table(error.get("details"))
    words = (error.get("code"), error.get("type"), inner.get("code"), details.get("error_code"))
    return frozenset(word.lower() for word in words if isinstance(word, str))


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


# At debug level Anthropic's SDK logs whole requests, and at info level one line for each call.
_CHATTY_LOGGERS = ("openai", "anthropic", "httpx2", "httpcore2")

KEEPALIVE_S = 4.0
"""Shorter than any server's: a connection that the server closes while it is reused looks like a network error."""

MOST_CONNECTIONS = 10_000
"""No bound here: the dispatcher limits the calls in flight."""

_OUR_HEADERS = ("accept", "content-type", "user-agent", "authorization", "api-key", "anthropic-version")

_CHECK_TOKENS = 16
_CHECK_TIMEOUT_S = 20.0

NO_KEY = "none"
"""Sent to servers that need no key, because the SDKs require one."""


class SdkClient(Protocol):
    """What the clients of both SDKs have in common."""

    @property
    def default_headers(self) -> Mapping[str, Any]: ...

    async def post(
        self, path: str, *, cast_to: Any, body: Any = ..., content: Any = ..., files: Any = ..., options: Any
    ) -> Any: ...

    async def get(self, path: str, *, cast_to: Any, options: Any) -> Any: ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Sdk:
    """A loaded SDK. `omit` is its marker for a header that must not be sent."""

    client: SdkClient
    response_class: type[Any]
    status_error: type[Exception]
    any_error: type[Exception]
    omit: Any


@dataclass(frozen=True)
class FileForm:
    """A form with one file."""

    fields: Mapping[str, str]
    filename: str
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Reply:
    """A successful answer: the decoded JSON object and the limits in its headers."""

    data: dict[str, Any]
    limits: SeenLimits


class Channel:
    """Safe for many calls at once. Loads the SDK at the first call, in a thread, because that takes seconds."""

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
        """Returns the reply or raises ProviderError. The timeout starts when the SDK is loaded, before connecting."""
        label = f"{self._name} ({model})"
        response = await self._exchange(label, "POST", path, body, timeout_s=timeout_s)
        limits = self._read_limits(response.headers, self._clock.now())
        data = _json_object(response.content)
        if data is None:
            raise ProviderServerError(f"{label} gave an answer that is not JSON.", limits=limits)
        return Reply(data, limits)

    async def exchange(self, method: str, path: str, body: bytes = b"", *, timeout_s: float) -> bytes:
        """Returns the body of any other exchange with the provider. Raises ProviderError."""
        response = await self._exchange(self._name, method, path, body, timeout_s=timeout_s)
        content: bytes = response.content
        return content

    async def exchange_json(
        self, method: str, path: str, body: bytes | FileForm = b"", *, timeout_s: float
    ) -> dict[str, Any]:
        """The same, where the answer must be a JSON object."""
        response = await self._exchange(self._name, method, path, body, timeout_s=timeout_s)
        data = _json_object(response.content)
        if data is None:
            raise ProviderServerError(f"{self._name} gave an answer that is not JSON.")
        return data

    async def _exchange(
        self, label: str, method: str, path: str, body: bytes | FileForm, *, timeout_s: float
    ) -> Any:
        """The errors are raised outside the handlers, so that the SDK's errors, which contain bodies and requests, are
        not attached to them.
        """
        sdk = await self.open()
        failure: ProviderError | None = None
        response: Any = None
        try:
            async with asyncio.timeout(timeout_s):
                if method == "GET":
                    response = await sdk.client.get(path, cast_to=sdk.response_class, options=self._options)
                else:
                    response = await sdk.client.post(path, cast_to=sdk.response_class, **self._sent(body))
        except TimeoutError:
            failure = ProviderTimeoutError(f"{label} gave no answer within {timeout_s:g} s.")
        except sdk.status_error as error:
            failure = self._by_status(label, error)
        except (sdk.any_error, OSError) as error:
            failure = ProviderNetworkError(f"No connection to {label}, or it was cut ({_root(error)}).")
        except Exception as error:
            if not _is_transport_error(error):
                raise
            failure = ProviderServerError(f"{label} gave an answer that is not HTTP ({_root(error)}).")
        if failure is not None:
            raise failure
        return response

    def _sent(self, body: bytes | FileForm) -> dict[str, Any]:
        if isinstance(body, bytes):
            return {"content": body, "options": self._options}
        headers = self._options["headers"] | {"Content-Type": "multipart/form-data"}
        file = (body.filename, body.content, "application/jsonl")
        return {"body": body.fields, "files": [("file", file)], "options": {"headers": headers}}

    async def models(self, path: str) -> tuple[str, ...]:
        """Returns the ids of the models that the provider lists; none where it has no such list.

        Raises ProviderError if it does not answer.
        """
        sdk = await self.open()
        failure: ProviderError | None = None
        try:
            async with asyncio.timeout(_CHECK_TIMEOUT_S):
                response = await sdk.client.get(path, cast_to=sdk.response_class, options=self._options)
        except TimeoutError:
            failure = ProviderTimeoutError(f"{self._name} did not list its models in time.")
        except (sdk.any_error, OSError) as error:
            failure = ProviderNetworkError(f"{self._name} did not list its models ({_root(error)}).")
        if failure is not None:
            raise failure
        rows = (_json_object(response.content) or {}).get("data")
        ids = (row.get("id") for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()
        return tuple(one for one in ids if isinstance(one, str))

    async def check(self, path: str, model: str, limit_name: str) -> Reply:
        """Asks for a few tokens: only a real answer shows that the key may use the model and has credit."""
        body = {
            "model": model,
            limit_name: _CHECK_TOKENS,
            "messages": [{"role": "user", "content": "Answer with OK."}],
        }
        return await self.post(path, json.dumps(body).encode(), model=model, timeout_s=_CHECK_TIMEOUT_S)

    async def close(self) -> None:
        if self._sdk is not None:
            await self._sdk.client.close()

    def _loaded(self) -> Sdk:
        sdk = self._load()
        for name in _CHATTY_LOGGERS:
            logger = logging.getLogger(name)
            logger.setLevel(max(logger.level, logging.WARNING))
        # The SDKs add headers from the environment, which only our settings may read.
        foreign = {
            name: sdk.omit
            for name in sdk.client.default_headers
            if name.lower() not in _OUR_HEADERS and not name.lower().startswith("x-stainless-")
        }
        self._options = {"headers": {"Content-Type": "application/json", **foreign}}
        return sdk

    def _by_status(self, label: str, error: Any) -> ProviderError:
        now = self._clock.now()
        headers = error.response.headers
        limits = self._read_limits(headers, now)
        return by_status(label, error.status_code, error.body, headers=headers, limits=limits, now=now)


def http_client(build: Callable[..., Any]) -> Any:
    """An SDK's HTTP client over aiohttp: no proxies, keys or certificates from the environment, no redirects.

    A redirect could send page and key to an address that is not configured.
    """
    import httpx2

    return build(
        timeout=None,  # the channel's timeout covers the whole call; these would only cover pauses in it
        trust_env=False,
        follow_redirects=False,
        limits=httpx2.Limits(
            max_connections=MOST_CONNECTIONS,
            max_keepalive_connections=MOST_CONNECTIONS,
            keepalive_expiry=KEEPALIVE_S,
        ),
    )


def json_text(value: str) -> bytes:
    """The text as a JSON string."""
    return json.dumps(value).encode()


def token_count(value: object) -> int:
    """The count in a `usage` object; 0 for anything that is not a positive whole number."""
    return value if isinstance(value, int) and value > 0 else 0


def _json_object(content: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _is_transport_error(error: Exception) -> bool:
    """Whether it is an error of the HTTP libraries under the SDK, which does not wrap all of them."""
    import aiohttp
    import httpx2

    return isinstance(error, aiohttp.ClientError | httpx2.HTTPError | httpx2.InvalidURL)


def _root(error: BaseException) -> str:
    """Returns the class name of the first cause: it helps, and contains no content of the request."""
    while error.__cause__ is not None:
        error = error.__cause__
    return type(error).__name__
