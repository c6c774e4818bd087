"""Side tasks of a process that go on after an unexpected error: it is logged, and the task is started again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

_LOG = logging.getLogger(__name__)
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_STEADY_S = 60.0


async def keep_running(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Runs until `run` returns or the task is cancelled. The pause before each new start grows to half a minute; after
    a minute without an error it is short again."""
    pause_s = _FIRST_PAUSE_S
    clock = asyncio.get_running_loop().time
    while True:
        started = clock()
        try:
            await run()
            return
        except Exception:
            if clock() - started > _STEADY_S:
                pause_s = _FIRST_PAUSE_S
            _LOG.exception("side task failed; it starts again", extra={"task": name, "pause_s": pause_s})
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def start_all(
    group: asyncio.TaskGroup, work: Mapping[str, Coroutine[Any, Any, None]]
) -> list[asyncio.Task[None]]:
    """Starts each piece of work as a task of this name."""
    return [group.create_task(one, name=name) for name, one in work.items()]


def start_kept(
    group: asyncio.TaskGroup, runs: Mapping[str, Callable[[], Awaitable[None]]]
) -> list[asyncio.Task[None]]:
    """Starts each as a task of this name that goes on after an error (`keep_running`)."""
    return start_all(group, {name: keep_running(name, run) for name, run in runs.items()})
