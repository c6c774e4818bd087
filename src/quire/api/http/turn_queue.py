"""Spreads many small pieces of work over turns of the event loop, so that thousands at once do not stall it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class TurnQueue:
    """Calls functions in the order they were given, a bounded number in each turn. Belongs to one event loop.

    While fewer are given, each is called at once. Urgent ones go first, for at most half of a turn.
    """

    def __init__(self, per_turn: int) -> None:
        self._per_turn = per_turn
        self._called = 0
        self._urgent: deque[Callable[[], object]] = deque()
        self._others: deque[Callable[[], object]] = deque()
        self._next_turn: asyncio.Handle | None = None

    def call(self, function: Callable[[], object], *, is_urgent: bool = False) -> None:
        """Calls the function now or in a later turn. It must not raise."""
        if self._next_turn is None:
            self._called = 0
            self._next_turn = asyncio.get_running_loop().call_soon(self._turn)
        if self._called < self._per_turn and not self._others and not self._urgent:
            self._called += 1
            function()
        else:
            (self._urgent if is_urgent else self._others).append(function)

    def finish(self) -> None:
        """Calls everything that waits."""
        while self._urgent or self._others:
            (self._urgent or self._others).popleft()()

    def _turn(self) -> None:
        self._next_turn = None
        urgent = min(len(self._urgent), max(1, self._per_turn // 2))
        chosen = [self._urgent.popleft() for _ in range(urgent)]
        while self._others and len(chosen) < self._per_turn:
            chosen.append(self._others.popleft())
        if chosen:
            self._next_turn = asyncio.get_running_loop().call_soon(self._turn)
            self._called = len(chosen)
        for function in chosen:
            function()
