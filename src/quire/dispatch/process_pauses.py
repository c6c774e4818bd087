"""Pauses of this process: the time in which it did not run (SIGSTOP, a suspended machine, a blocked event loop).

While calls are in flight, a timer of the event loop fires twice a second; the process did not run while the timer was
late. Weakness: shorter pauses than two seconds are not seen, because a busy machine delays timers as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quire.providers.provider_protocol import ProviderError, ProviderNetworkError, ProviderTimeoutError

_TICK_S = 0.5
_LEAST_PAUSE_S = 2.0


class ProcessPauses:
    """Measures the calls of one event loop. `monotonic` returns seconds that never go back."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self._paused_s = 0.0
        self._ticked_at = 0.0
        self._calls = 0
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def timed_call(self) -> Iterator[TimedCall]:
        """Measures the call that is made in the block."""
        if not self._calls:
            self._start_timer()
        self._calls += 1
        try:
            yield TimedCall(self)
        finally:
            self._calls -= 1
            if not self._calls and self._timer is not None:
                self._timer.cancel()

    def total_s(self) -> float:
        """Returns the seconds of all pauses, with a pause that ended just now and whose timer has not fired yet."""
        late_s = self.monotonic() - self._ticked_at - _TICK_S
        return self._paused_s + (late_s if late_s >= _LEAST_PAUSE_S else 0.0)

    def _start_timer(self) -> None:
        self._ticked_at = self.monotonic()
        self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        self._paused_s = self.total_s()
        self._start_timer()


class TimedCall:
    """The time of one call to a provider."""

    def __init__(self, pauses: ProcessPauses) -> None:
        self._pauses = pauses
        self._began_at = pauses.monotonic()
        self._paused_before_s = pauses.total_s()

    def ran_s(self) -> float:
        """Returns the seconds since the call began in which the process ran."""
        return max(0.0, self._pauses.monotonic() - self._began_at - self._paused_s())

    def excuses(self, error: ProviderError) -> bool:
        """Whether a pause of this process may have caused the error, which then is no evidence against the model."""
        return self._paused_s() > 0 and isinstance(error, ProviderTimeoutError | ProviderNetworkError)

    def _paused_s(self) -> float:
        return self._pauses.total_s() - self._paused_before_s
