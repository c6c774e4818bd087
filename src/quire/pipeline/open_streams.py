"""Streams that are closed with the block that reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


@asynccontextmanager
async def closing(stream: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Closes the generator behind a stream with the block, so that nothing waits for the garbage collector."""
    try:
        yield stream
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def single_piece(data: bytes) -> AsyncIterator[bytes]:
    """Bytes as a stream of one piece."""
    yield data
