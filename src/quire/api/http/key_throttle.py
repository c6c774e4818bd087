"""Wrong API keys by address: after too many in a minute, keys from that address are refused before they are compared.

A key that was right from the same address before is still accepted, so a program behind a shared address is not hurt by
a neighbour that guesses. Counts are kept in the memory of each process: a fleet of N allows N times as many guesses.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

from quire.clock import Clock

K = TypeVar("K")
V = TypeVar("V")
_WINDOW_S = 60.0
_MOST_ADDRESSES = 10_000


class KeyThrottle:
    def __init__(self, a_minute: int, clock: Clock) -> None:
        self._most = a_minute
        self._clock = clock
        self._wrong: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._right: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def wait_s(self, address: str, key: bytes) -> float:
        """Returns 0 if the key may be compared, else the seconds until it may."""
        began, count = self._wrong.get(address, (0.0, 0))
        left_s = began + _WINDOW_S - self._clock.monotonic()
        if not self._most or count < self._most or left_s <= 0:
            return 0.0
        return 0.0 if (address, key) in self._right else left_s

    def was_right(self, address: str, key: bytes) -> None:
        if self._most:
            _remember(self._right, (address, key), None)

    def was_wrong(self, address: str) -> None:
        began, count = self._wrong.get(address, (0.0, 0))
        now = self._clock.monotonic()
        if now - began >= _WINDOW_S:
            began, count = now, 0
        _remember(self._wrong, address, (began, count + 1))


def _remember(known: OrderedDict[K, V], name: K, value: V) -> None:
    known[name] = value
    known.move_to_end(name)
    if len(known) > _MOST_ADDRESSES:
        known.popitem(last=False)
