"""How the tests of the planes look at other processes and wait for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

DEADLINE_S = 20.0


async def eventually(condition: Callable[[], bool], what: str) -> None:
    """Return as soon as `condition()` holds; fail the test if it still doesn't at the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"still not so after {DEADLINE_S:g} s: {what}")
        await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process exists and is more than a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def descendants(pid: int) -> set[int]:
    """Every process below `pid`, dead ones left out."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found |= {int(child)} | descendants(int(child))
    return {one for one in found if alive(one)}
