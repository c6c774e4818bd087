"""How tests wait for another process: they poll a condition to a deadline that only a broken program reaches.

Deadlines are multiplied by how busy the machine is when the tests start: by how many times longer a short computation
takes than its CPU time. The environment variable TEST_PATIENCE replaces that factor. Its name does not begin with
QUIRE_: a service refuses such variables when it does not know them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

T = TypeVar("T")

_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.1
_MEASURED_S = 0.02


def _busyness() -> float:
    """1 on a machine with a free core, 9 if eight other programs want the same one."""
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < _MEASURED_S:
        pass
    return max(1.0, (time.monotonic() - began) / _MEASURED_S)


PATIENCE = float(os.environ.get("TEST_PATIENCE") or round(_busyness(), 1))
DEADLINE_S = 300.0 * PATIENCE
"""How long any one condition may take."""

UNHURRIED = {
    "REQUEST_TIMEOUT": "20m",
    "OCR_PAGE_TIMEOUT": "20m",
    "PAGE_TOTAL_TIMEOUT": "30m",
    "DOCUMENT_PROCESSING_TIMEOUT": "1h",
    "AI_RECOVERY_PROBE": "0",
}
"""Settings of a Quire whose time limits a test is not about: by the defaults, pages of a busy machine fall back, and
while they wait for a model that rests, a probe makes a call that the test has not counted."""


def scaled(seconds: float) -> str:
    """The duration of a limit that a test wants to be reached, but not by what merely takes long on this machine."""
    return f"{seconds * PATIENCE:g}s"


async def until(
    condition: Callable[[], bool | Awaitable[bool]], what: str = "the condition", within_s: float = DEADLINE_S
) -> None:
    """Returns as soon as the condition holds; fails the test with these words if it still doesn't at the deadline."""
    deadline, pause_s = time.monotonic() + within_s, _PAUSE_S
    while True:
        found = condition()
        if found if isinstance(found, bool) else await found:
            return
        assert time.monotonic() < deadline, f"did not happen within {within_s:g} s: {what}"
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.2, _LONGEST_PAUSE_S)


async def eventually(
    condition: Callable[[], Awaitable[T | None]], what: str = "the condition", within_s: float = DEADLINE_S
) -> T:
    """Returns the first true value that the condition returns; fails like `until`."""
    found: list[T | None] = []

    async def is_there() -> bool:
        found[:] = [await condition()]
        return bool(found[0])

    await until(is_there, what, within_s)
    return cast(T, found[0])


def wait_until(condition: Callable[[], bool], what: str = "the condition") -> None:
    """The same for tests without an event loop."""
    deadline, pause_s = time.monotonic() + DEADLINE_S, _PAUSE_S
    while not condition():
        assert time.monotonic() < deadline, f"did not happen within {DEADLINE_S:g} s: {what}"
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.2, _LONGEST_PAUSE_S)
