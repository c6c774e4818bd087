"""Waiting on behalf of a caller, only while the caller is connected and the service runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import Request

from quire.api.http.services import services
from quire.pipeline.open_streams import closing

T = TypeVar("T")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """Returns the result of the work; cancels it and returns None when the caller disconnects or the service stops.

    The request's body must have been read.
    """
    stopping = services(request).stopping
    return await _first(work, stopping.wait(), disconnected(request))


async def until_stopping(request: Request, stream: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """The stream, ended when the service stops. The HTTP server ends it when the caller disconnects."""
    stopping = services(request).stopping
    async with closing(stream):
        while not stopping.is_set():
            item = await _first(_next(stream), stopping.wait())
            if item is None:
                return
            yield item[0]


async def _next(stream: AsyncIterator[T]) -> tuple[T] | None:
    try:
        return (await anext(stream),)
    except StopAsyncIteration:
        return None


async def disconnected(request: Request) -> None:
    """Returns when the caller has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _first(work: Coroutine[Any, Any, T], *enders: Coroutine[Any, Any, Any]) -> T | None:
    working = asyncio.create_task(work, name="request-work")
    others = [asyncio.create_task(one, name="request-ender") for one in enders]
    try:
        await asyncio.wait({working, *others}, return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        for task in (working, *others):
            task.cancel()
        for task in (working, *others):
            with suppress(BaseException):
                await task
