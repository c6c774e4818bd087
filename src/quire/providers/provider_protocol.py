"""The protocol of every AI provider: read one picture of a page. Each provider is one file.

Errors are distinguished by class, never by text. The dispatcher decides what to do about each:

ProviderError
├── ProviderRateLimitedError 429: too many requests or tokens; `retry_after_s` where the provider sent it
├── QuotaError           the account's quota or credit is used up, or the model is overloaded
├── ProviderTimeoutError no answer within the timeout of one call
├── ProviderNetworkError no connection, or it was cut
├── ProviderServerError  5xx, 529, an answer that can't be understood
│   └── ModelMissingError    the provider has no such model; its other models and other providers may work
├── ProviderAuthError    the key is wrong or may not use this model
├── ContentBlockedError  the provider's filter refused picture or answer
└── RejectedError        the request itself is wrong; no provider would take it
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from quire.errors import QuireError


class StopReason(StrEnum):
    """Why the model stopped writing."""

    DONE = "done"
    LENGTH = "length"
    REFUSAL = "refusal"
    FILTER = "filter"


@dataclass(frozen=True, slots=True)
class TokenUsage:
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True)
class SeenLimits:
    """The account's limits as reported in the answer's headers. None where a header is missing."""

    requests_per_minute: int | None = None
    requests_left: int | None = None
    requests_reset_s: float | None = None
    tokens_per_minute: int | None = None
    tokens_left: int | None = None
    tokens_reset_s: float | None = None

    def refill_wait_s(self) -> float | None:
        """Returns the time until everything that is used up has refilled; None if nothing is used up."""
        waits = [
            reset
            for left, reset in (
                (self.requests_left, self.requests_reset_s),
                (self.tokens_left, self.tokens_reset_s),
            )
            if left == 0 and reset is not None
        ]
        return max(waits, default=None)


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """The JSON object that an answer must be. `schema` is its JSON Schema, encoded as JSON."""

    name: str
    schema: bytes


@dataclass(frozen=True, slots=True)
class VisionRequest:
    """One page for one model. `instructions` is the system prompt, `text` is sent with the picture.

    Without an `image` (no bytes) it is a question about the text alone. With `answer` the model must answer in that
    schema. `attempt` identifies this call, so that a provider that stores its answers returns the same one again.
    `redraw` draws the page at a given dpi, for readers that need a finer picture. `crops` are parts of the page,
    larger; they are sent behind the picture of the whole.
    """

    model: str
    instructions: str
    text: str
    image: bytes
    image_mime: str
    max_tokens_out: int
    timeout_s: float
    answer: AnswerSchema | None = None
    team: str = ""
    attempt: str = ""
    redraw: Callable[[int], Awaitable[bytes]] | None = None
    crops: tuple[bytes, ...] = ()

    @property
    def pictures(self) -> tuple[bytes, ...]:
        """The picture of the page, if there is one, and the crops."""
        return (self.image, *self.crops) if self.image else ()

    def __repr__(self) -> str:
        return f"VisionRequest({self.model}, {len(self.image)} bytes)"


@dataclass(frozen=True, slots=True)
class VisionAnswer:
    text: str
    stop: StopReason
    usage: TokenUsage
    limits: SeenLimits = SeenLimits()

    def __repr__(self) -> str:
        return f"VisionAnswer({self.stop}, {len(self.text)} characters)"


class Provider(Protocol):
    """Safe for many calls at once. Never retries by itself."""

    @property
    def name(self) -> str: ...

    async def open(self) -> None:
        """Loads the SDK, which may take seconds. The first call does it too, outside its own timeout."""
        ...

    async def read(self, request: VisionRequest) -> VisionAnswer:
        """Returns the answer or raises ProviderError, within request.timeout_s."""
        ...

    async def check(self, model: str) -> None:
        """One cheap call that shows whether key, address and model work. Raises ProviderError."""
        ...

    async def models(self) -> tuple[str, ...]:
        """Returns the models that the provider lists; none where it has no list. Raises ProviderError."""
        ...

    async def close(self) -> None: ...


class ProviderError(QuireError):
    code = "provider_failed"
    retryable = True

    def __init__(
        self,
        public: str,
        *,
        retry_after_s: float | None = None,
        retryable: bool | None = None,
        usage: TokenUsage = TokenUsage(),  # noqa: B008 - frozen
        limits: SeenLimits = SeenLimits(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(public, retry_after_s=retry_after_s, retryable=retryable)
        self.usage = usage
        self.limits = limits


class ProviderRateLimitedError(ProviderError):
    code = "rate_limit"


class QuotaError(ProviderError):
    code = "ai_quota"


class ProviderTimeoutError(ProviderError):
    code = "timeout"


class ProviderNetworkError(ProviderError):
    code = "network"


class ProviderServerError(ProviderError):
    code = "server"


class ModelMissingError(ProviderServerError):
    code = "model_not_found"


class ProviderAuthError(ProviderError):
    code = "auth"
    retryable = False


class ContentBlockedError(ProviderError):
    code = "ai_content_blocked"
    retryable = False


class RejectedError(ProviderError):
    code = "validation"
    retryable = False
