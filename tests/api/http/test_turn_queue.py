"""Work that is spread over turns of the event loop."""

from __future__ import annotations

import asyncio
from functools import partial

from quire.api.http.turn_queue import TurnQueue
from tests.support.waiting import until


async def test_function_is_called_at_once_when_there_are_few() -> None:
    queue, called = TurnQueue(2), []
    queue.call(partial(called.append, 1))
    queue.call(partial(called.append, 2))
    assert called == [1, 2]
    queue.call(partial(called.append, 3))
    assert called == [1, 2], "the turn is full"
    await asyncio.sleep(0)
    assert called == [1, 2, 3]


async def test_other_work_is_done_between_when_there_are_thousands() -> None:
    queue, called, most = TurnQueue(25), [], 0
    for number in range(1000):
        queue.call(partial(called.append, number))
    turns = 0
    while len(called) < 1000:
        before = len(called)
        await asyncio.sleep(0)
        most, turns = max(most, len(called) - before), turns + 1
    assert called == list(range(1000))
    assert (most, turns) == (25, 39)


async def test_urgent_function_goes_first_when_others_wait_and_they_are_not_starved() -> None:
    queue, called = TurnQueue(4), []
    for number in range(20):
        queue.call(partial(called.append, number))
    for number in range(100, 110):
        queue.call(partial(called.append, number), is_urgent=True)
    await asyncio.sleep(0)
    assert called[4:] == [100, 101, 4, 5]
    await until(lambda: len(called) == 30, "all were called")
    assert [one for one in called if one < 100] == list(range(20))


async def test_nothing_waits_any_more_when_the_queue_is_finished() -> None:
    queue, called = TurnQueue(1), []
    for number in range(5):
        queue.call(partial(called.append, number), is_urgent=number == 4)
    queue.finish()
    assert called == [0, 4, 1, 2, 3]
    queue.call(partial(called.append, 5))
    await asyncio.sleep(0)
    assert called[-1] == 5
