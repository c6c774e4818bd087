"""How many entries of each priority a worker reads."""

from __future__ import annotations

from quire.domain.job import JobPriority

_WEIGHTS = {JobPriority.HIGH: 6, JobPriority.NORMAL: 3, JobPriority.LOW: 1}


class PriorityShares:
    """Divides the entries that a worker reads among the priorities, six to three to one (smooth weighted round robin).

    While entries of every priority wait, each gets its share, so no priority starves; an unused share goes to the
    others, the highest first. Each worker counts for itself, so the shares hold for all workers together.
    """

    def __init__(self) -> None:
        self._credit = dict.fromkeys(_WEIGHTS, 0)

    def next(self, count: int) -> dict[JobPriority, int]:
        """The shares of the next `count` entries."""
        shares = dict.fromkeys(_WEIGHTS, 0)
        for _ in range(count):
            for priority, weight in _WEIGHTS.items():
                self._credit[priority] += weight
            chosen = max(self._credit, key=lambda priority: self._credit[priority])
            self._credit[chosen] -= sum(_WEIGHTS.values())
            shares[chosen] += 1
        return shares
