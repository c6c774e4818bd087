"""The event loop of a service: uvloop where there is one.

`quire convert` does without: importing uvloop costs as much as it saves on anything but very long documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_service(work: Coroutine[Any, Any, T]) -> T:
    try:
        from uvloop import new_event_loop
    except ImportError:  # no wheel for this platform
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)
