"""Per-minute limits, enforced like those of the real services."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from quire.simulator.scenario import ModelProfile

_MINUTE_S = 60.0


class Budget(Protocol):
    """A per-minute limit of requests or of tokens."""

    limit: int

    def wait_s(self, amount: int, at_s: float) -> float:
        """Returns the wait until `amount` may be used; 0 is now."""
        ...

    def take(self, amount: int, at_s: float) -> None: ...

    def left(self, at_s: float) -> int: ...

    def reset_s(self, at_s: float) -> float:
        """Returns the time until the budget is full again."""
        ...


class Bucket:
    """Refills continuously up to its capacity."""

    def __init__(self, limit: int, burst_s: float, tolerance_s: float) -> None:
        self.limit = limit
        self._rate = limit / _MINUTE_S
        self._holds = max(1.0, self._rate * burst_s)
        self._slack = self._rate * tolerance_s
        self._level = self._holds
        self._seen_s = 0.0

    def wait_s(self, amount: int, at_s: float) -> float:
        self._refill(at_s)
        missing = min(amount, self._holds) - self._level - self._slack
        return max(0.0, missing / self._rate)

    def take(self, amount: int, at_s: float) -> None:
        self._refill(at_s)
        self._level -= amount

    def left(self, at_s: float) -> int:
        self._refill(at_s)
        return max(0, int(self._level))

    def reset_s(self, at_s: float) -> float:
        self._refill(at_s)
        return max(0.0, (self._holds - self._level) / self._rate)

    def _refill(self, at_s: float) -> None:
        if at_s > self._seen_s:
            self._level = min(self._holds, self._level + (at_s - self._seen_s) * self._rate)
            self._seen_s = at_s


class SlidingWindow:
    """Counts what was used in the last 60 seconds, less the tolerance."""

    def __init__(self, limit: int, tolerance_s: float) -> None:
        self.limit = limit
        self._length_s = _MINUTE_S - tolerance_s
        self._used: deque[tuple[float, int]] = deque()
        self._sum = 0

    def wait_s(self, amount: int, at_s: float) -> float:
        self._forget(at_s)
        over = self._sum + min(amount, self.limit) - self.limit
        for then_s, used in self._used:
            if over <= 0:
                break
            over -= used
            if over <= 0:
                return then_s + self._length_s - at_s
        return 0.0

    def take(self, amount: int, at_s: float) -> None:
        self._used.append((at_s, amount))
        self._sum += amount

    def left(self, at_s: float) -> int:
        self._forget(at_s)
        return max(0, self.limit - self._sum)

    def reset_s(self, at_s: float) -> float:
        self._forget(at_s)
        return self._used[-1][0] + self._length_s - at_s if self._used else 0.0

    def _forget(self, at_s: float) -> None:
        while self._used and self._used[0][0] <= at_s - self._length_s:
            self._sum -= self._used.popleft()[1]


@dataclass(frozen=True)
class Budgets:
    """A model's budgets; None where it has no such limit."""

    requests: Budget | None
    tokens: Budget | None

    @classmethod
    def of(cls, profile: ModelProfile) -> Budgets:
        return cls(_budget(profile.rpm, profile), _budget(profile.tpm, profile))

    def take(self, tokens: int, at_s: float) -> float:
        """Counts the call and returns 0 if it fits; otherwise returns the wait and counts nothing."""
        wait_s = max(
            self.requests.wait_s(1, at_s) if self.requests else 0.0,
            self.tokens.wait_s(tokens, at_s) if self.tokens else 0.0,
        )
        if wait_s <= 0:
            if self.requests:
                self.requests.take(1, at_s)
            if self.tokens:
                self.tokens.take(tokens, at_s)
        return wait_s


def _budget(limit: int, profile: ModelProfile) -> Budget | None:
    if not limit:
        return None
    if profile.window == "sliding":
        return SlidingWindow(limit, profile.tolerance_s)
    return Bucket(limit, profile.burst_s, profile.tolerance_s)
