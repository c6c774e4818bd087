"""What can go wrong between a caller and the backend.

BusyError
├── QueueFullError       so many wait that new ones are refused
├── BackendAwayError     the backend's breaker is open
├── RateLimitedError     this client asks too often
└── StoppingError        the service stops; the request stays in the queue
QuireError
└── WaitedTooLongError   the caller was held as long as anybody is; the request goes on
Exception
├── BackendDownError     the backend can't be reached or says that it can't work: nobody's images are to blame
└── BackendFailedError   the backend failed on these images
"""

from __future__ import annotations

from typing import Any

from quire.errors import OverloadedError, QuireError


class QueueFullError(OverloadedError):
    code = "queue_full"

    def __init__(self, depth: int, wait_s: float) -> None:
        super().__init__(
            f"{depth} requests are waiting, which is as many as are taken. Try again later.",
            retry_after_s=max(1.0, round(wait_s, 1)),
        )
        self.depth = depth
        self.wait_s = wait_s

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.depth, self.wait_s)


class BackendAwayError(OverloadedError):
    code = "circuit_open"


class ClientRateLimitedError(OverloadedError):
    code = "rate_limited"


class StoppingError(OverloadedError):
    code = "stopping"


class WaitedTooLongError(QuireError):
    code = "response_timeout"
    retryable = True


class BackendDownError(Exception):
    """Raised by a backend that could not be asked at all."""


class BackendFailedError(Exception):
    """Raised by a backend that took the images and failed; the reason is for the log."""
