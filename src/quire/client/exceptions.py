"""What a call to a service can raise. Every one of them carries `code`, `retryable` and `retry_after_s`.

ClientError
├── UsageError           what was asked can't be asked so (a file that can't be opened, …); nothing was sent
├── UnreachableError     no answer, or one that broke off; the same call may work later
├── UnreadableError      something answered, but not like Quire: is the address right?
├── RefusedError         the service answered with an error; `status` and `request_id` say which
│   ├── UnauthorizedError    401, 403: the key is missing, unknown or not enough
│   ├── NotFoundError        404
│   ├── ConflictError        409: not in the present state; with `code` "not_ready" it is worth waiting
│   ├── InvalidError         400, 413, 415, 422: the request or the document is at fault
│   └── BusyError            429, 503, after all attempts that were allowed
├── JobFailedError       the job ended without a result; `job_id` says which
└── TookTooLongError     the caller's own limit is over; the job (or document) goes on, and `job_id` finds it

Branch on the class, or on `code` for finer things; never on the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quire.errors import QuireError


class ClientError(QuireError):
    """The root of what this package raises."""

    code = "client"


class UsageError(ClientError):
    code = "usage"


class UnreachableError(ClientError):
    code = "service_unreachable"
    retryable = True


class UnreadableError(ClientError):
    code = "service_unreadable"


class RefusedError(ClientError):
    """The service's own words, code and retry policy."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        wait_s = body.get("retry_after_seconds")
        super().__init__(
            str(body.get("error") or f"The service answered {status}."),
            retryable=bool(body.get("retryable")),
            retry_after_s=float(wait_s) if isinstance(wait_s, int | float) else None,
        )
        self.code = str(body.get("code") or f"http_{status}")
        self.status = status
        self.request_id = str(body.get("request_id") or "")
        self.body = dict(body)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.body)


class UnauthorizedError(RefusedError):
    pass


class NotFoundError(RefusedError):
    pass


class ConflictError(RefusedError):
    pass


class InvalidError(RefusedError):
    pass


class BusyError(RefusedError):
    pass


class JobFailedError(ClientError):
    """The job ended `failed` or `cancelled`; the code and the words are those of its error."""

    def __init__(self, job_id: str, error: Mapping[str, Any]) -> None:
        super().__init__(
            str(error.get("error") or "The job was cancelled."), retryable=bool(error.get("retryable"))
        )
        self.code = str(error.get("code") or "cancelled")
        self.job_id = job_id
        self.error = dict(error)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.job_id, self.error)


class TookTooLongError(ClientError):
    code = "took_too_long"
    retryable = True

    def __init__(self, job_id: str, timeout_s: float) -> None:
        super().__init__(
            f"{job_id} was not over within {timeout_s:g} seconds; it goes on. Wait for it again."
        )
        self.job_id = job_id
        self.timeout_s = timeout_s

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.job_id, self.timeout_s)


_KINDS: dict[int, type[RefusedError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: UnauthorizedError,
    404: NotFoundError,
    409: ConflictError,
    413: InvalidError,
    415: InvalidError,
    422: InvalidError,
    429: BusyError,
    503: BusyError,
}


def refusal(status: int, body: Mapping[str, Any]) -> RefusedError:
    """The error for an answer of the service."""
    return _KINDS.get(status, RefusedError)(status, body)
