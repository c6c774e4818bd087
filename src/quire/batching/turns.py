"""Turns of the event loop, shared fairly between many bodies that come in at once and everything else.

With thousands of bodies ready to be read, one turn of the loop would go through all of them, and whoever waits
for a round trip, a batch that could be sent first of all, would wait for many such turns.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Turnstile:
    """Lets a few through in each turn of the loop, in the order in which they came."""

    def __init__(self, each_turn: int) -> None:
        self._each_turn = each_turn
        self._left = each_turn
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._scheduled = False

    async def enter(self) -> None:
        self._schedule()
        if self._left > 0 and not self._waiting:
            self._left -= 1
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self._left = self._each_turn
        while self._left and self._waiting:
            future = self._waiting.popleft()
            if not future.done():  # else its body's sender has gone
                future.set_result(None)
                self._left -= 1
        if self._waiting or self._left < self._each_turn:
            self._schedule()
