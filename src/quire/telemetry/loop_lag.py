"""How late the event loop is: the delay of a timer that should fire every second."""

from __future__ import annotations

import asyncio

_EVERY_S = 1.0


class LoopLag:
    def __init__(self) -> None:
        self._longest_s = 0.0

    async def run(self) -> None:
        """Measures until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _EVERY_S
            await asyncio.sleep(_EVERY_S)
            self._longest_s = max(self._longest_s, loop.time() - due)

    def longest_s(self) -> float:
        """Returns the longest delay since the last call."""
        found, self._longest_s = self._longest_s, 0.0
        return found
