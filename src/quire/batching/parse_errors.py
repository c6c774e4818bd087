"""The errors of batching.

OverloadedError
├── QueueFullError            the queue has reached its limit
├── BackendUnavailableError   the backend's breaker is open
├── ClientRateLimitedError    this client has sent too many requests
└── StoppingError             the service is stopping; the request stays in the queue
QuireError
└── ResponseTimeoutError      RESPONSE_TIMEOUT is over; the request stays in the queue
Exception
├── BackendDownError          the backend can't be reached or says that it can't work; no image is the cause
└── BackendFailedError        the backend accepted the images and failed; an image may be the cause
"""

from __future__ import annotations

from typing import Any

from quire.errors import OverloadedError, QuireError


class QueueFullError(OverloadedError):
    code = "queue_full"

    def __init__(self, depth: int, wait_s: float) -> None:
        super().__init__(
            f"Service at capacity: {depth} requests are waiting. Try again later.",
            retry_after_s=max(1.0, round(wait_s, 1)),
        )
        self.depth = depth
        self.wait_s = wait_s

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.depth, self.wait_s)


class BackendUnavailableError(OverloadedError):
    code = "circuit_open"


class ClientRateLimitedError(OverloadedError):
    code = "rate_limited"


class StoppingError(OverloadedError):
    code = "stopping"


class ResponseTimeoutError(QuireError):
    code = "response_timeout"
    retryable = True


class BackendDownError(Exception):
    """The backend could not be called. The text is for the log."""


class BackendFailedError(Exception):
    """The backend accepted the images and failed. The text is for the log."""
