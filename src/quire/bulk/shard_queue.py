"""The shards that are still to be read, for any engine: each is tried a few times, then the run goes on without it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

_MOST_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class FailedShard:
    number: int
    error: str


class ShardQueue:
    """Hands out shards in their order. A shard whose worker died or failed is handed out again, up to five times."""

    def __init__(self, shards: Iterable[int]) -> None:
        self._waiting = deque(shards)
        self._attempts: Counter[int] = Counter()
        self.total = len(self._waiting)
        self.finished = 0
        self.failed: list[FailedShard] = []

    def take(self) -> int | None:
        """Returns the next shard, or None if none is waiting now."""
        return self._waiting.popleft() if self._waiting else None

    @property
    def is_done(self) -> bool:
        return self.finished + len(self.failed) >= self.total

    def finish(self) -> None:
        self.finished += 1

    def fail(self, shard: int, error: str, *, retryable: bool = True) -> None:
        """Puts the shard at the end of the queue, or gives it up."""
        self._attempts[shard] += 1
        if retryable and self._attempts[shard] < _MOST_ATTEMPTS:
            self._waiting.append(shard)
        else:
            self.failed.append(FailedShard(shard, error))
