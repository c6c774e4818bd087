"""Answers that are never whole in memory: texts piece by piece, files that are never half-written under their name."""

from __future__ import annotations

import asyncio
import codecs
import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from quire.client.exceptions import UnreadableError, UsageError
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


async def json_lines(transport: Transport, call: ServiceCall) -> AsyncGenerator[Any, None]:
    """The objects of an answer that has one a line. Raises UnreadableError for a line that is none."""
    rest = ""
    async with aclosing(texts(transport, call)) as pieces:
        async for piece in pieces:
            *whole, rest = (rest + piece).split("\n")
            for line in whole:
                yield _parsed(line)
    if rest:
        yield _parsed(rest)


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise UnreadableError(
            "The service's answer is not JSON. Check the versions of both sides."
        ) from error
