"""Retrying: which failed calls are made again, and when."""

from __future__ import annotations

import random
from dataclasses import dataclass

from quire.client.errors import BusyError, ClientError, UnreachableError


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
