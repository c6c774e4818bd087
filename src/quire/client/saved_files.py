"""Answers that are never whole in memory: texts piece by piece, files that are never half-written under their name."""

from __future__ import annotations

import asyncio
import codecs
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path

from quire.client.exceptions import UsageError
from quire.client.service_calls import ServiceCall
from quire.client.transport import Transport


async def save(transport: Transport, call: ServiceCall, path: str | Path) -> Path:
    """Writes the answer to `path`, which is there whole or not at all. Raises UsageError if it can't be written."""
    target = Path(path)
    # Of its own: others may save to the same place at the same time.
    part = target.with_name(f".quire-{secrets.token_hex(6)}.part")
    try:
        try:
            async with transport.stream(call) as stream:
                with part.open("wb") as file:
                    async with aclosing(stream.pieces()) as pieces:
                        async for piece in pieces:
                            await asyncio.to_thread(file.write, piece)
            part.replace(target)
        except OSError as error:
            raise UsageError(f"{target}: {error.strerror}.") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return target


async def texts(transport: Transport, call: ServiceCall) -> AsyncGenerator[str, None]:
    """The answer as text, however its bytes are cut."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    async with transport.stream(call) as stream, aclosing(stream.pieces()) as pieces:
        async for piece in pieces:
            if text := decoder.decode(piece):
                yield text
    if rest := decoder.decode(b"", final=True):
        yield rest
