"""SIGINT and SIGTERM, turned into the ordinary end of the running command."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def as_keyboard_interrupt() -> Iterator[None]:
    """Within the block either signal raises KeyboardInterrupt, so that everything is cleaned up on the way out."""
    before = {number: signal.signal(number, _raise) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def held() -> Iterator[None]:
    """A signal within the block raises KeyboardInterrupt at its end: for what must be made whole or not at all."""
    seen: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: seen.append(number)) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if seen:
        raise KeyboardInterrupt


async def stoppable(work: Coroutine[Any, Any, T]) -> T:
    """The work's result. A signal cancels it and, once it has cleaned up, raises KeyboardInterrupt."""
    task = asyncio.ensure_future(work)
    with _handled(task.cancel) as seen:
        try:
            return await task
        except asyncio.CancelledError:
            if seen:
                raise KeyboardInterrupt from None
            raise


async def until_stopped() -> None:
    """Returns at the first signal."""
    stopped = asyncio.Event()
    with _handled(stopped.set):
        await stopped.wait()


@contextmanager
def _handled(call: Any) -> Iterator[list[int]]:
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    def on_signal(number: int) -> None:
        seen.append(number)
        call()

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield seen
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


def _raise(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
