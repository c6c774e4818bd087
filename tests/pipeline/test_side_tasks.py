"""Side tasks go on after errors that no code foresaw."""

from __future__ import annotations

import asyncio
import logging

import pytest

from quire.pipeline.side_tasks import keep_running
from tests.support.waiting import DEADLINE_S


async def test_a_side_task_starts_again_when_it_failed_unexpectedly(caplog: pytest.LogCaptureFixture) -> None:
    starts = 0

    async def work() -> None:
        nonlocal starts
        starts += 1
        if starts == 1:
            raise LookupError("of some library")

    with caplog.at_level(logging.ERROR):
        async with asyncio.timeout(DEADLINE_S):
            await keep_running("example", work)
    assert starts == 2
    assert [record.task for record in caplog.records] == ["example"]


async def test_a_side_task_ends_when_it_is_cancelled() -> None:
    running = asyncio.create_task(keep_running("example", asyncio.Event().wait))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running}, timeout=DEADLINE_S)
    assert running.cancelled()
