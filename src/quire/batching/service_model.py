"""The model of service times, fitted to measured batches; batch sizes and wait estimates are computed from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

TABLE: tuple[tuple[int, int], ...] = ((1000, 32), (200, 24), (50, 16), (10, 8), (1, 4))
"""Queue depth → the minimum size of a batch (or all that wait)."""

SLOW_S = 60.0
"""A batch that would take longer is made smaller …"""

SLOW_SIZE = 8
"""… but not smaller than this."""

_UNKNOWN_FIXED_S = 1.0
_UNKNOWN_EACH_S = 0.5
_LEAST_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """A batch of n images takes `fixed_s + n * each_s`."""

    fixed_s: float = _UNKNOWN_FIXED_S
    each_s: float = _UNKNOWN_EACH_S
    measured: bool = False

    @classmethod
    def fitted(cls, sums: Sequence[float]) -> ServiceModel:
        """The least-squares line through weighted observations: Σ1, Σsize, Σseconds, Σsize², Σsize·seconds."""
        weight, x, y, xx, xy = sums
        if weight < _LEAST_WEIGHT or x <= 0:
            return cls()
        spread = weight * xx - x * x
        each = (weight * xy - x * y) / spread if spread > 1e-9 * weight * xx else y / x
        each = max(0.0, each)
        fixed = max(0.0, (y - each * x) / weight)
        return cls(fixed, each, measured=True)

    def seconds(self, size: int) -> float:
        return self.fixed_s + size * self.each_s


def batch_size(depth: int, busy_s: Sequence[float], most: int, model: ServiceModel) -> int:
    """Returns the size of the next batch that empties a queue of `depth` images soonest.

    `busy_s` is the time for which each of the other slots is still taken. While more images wait than fit into one
    batch for every slot, a batch has the maximum size; the last ones are sized so that all slots end at the same time.
    Never more than `most`, never fewer than the table says.
    """
    if depth <= 0:
        return 0
    most = min(most, depth)
    least = min(most, next(size for waiting, size in TABLE if depth >= waiting))
    best = max(least, min(most, _even_share(depth, busy_s, model.each_s)))
    while model.measured and best > SLOW_SIZE and model.seconds(best) > SLOW_S:
        best = max(SLOW_SIZE, best // 2)
    return best


def _even_share(depth: int, busy_s: Sequence[float], each_s: float) -> int:
    """Returns the images for a slot that is free now, when slots that are free later get correspondingly fewer."""
    if each_s <= 0:
        return depth
    free_at = [0.0, *sorted(busy_s)]
    taken = 0.0
    for slots, at_s in enumerate(free_at, start=1):
        taken += at_s
        end_s = (depth * each_s + taken) / slots
        if slots == len(free_at) or end_s <= free_at[slots]:
            return math.ceil(end_s / each_s - 1e-9)
    return depth


def wait_s(ahead: int, slots: int, most: int, model: ServiceModel) -> float:
    """Estimates how long a request with `ahead` requests before it waits for its result."""
    rounds = math.ceil((ahead + 1) / (most * slots))
    size = min(most, math.ceil((ahead + 1) / slots))
    return rounds * model.seconds(size)
