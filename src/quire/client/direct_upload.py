"""Puts a large file straight into the object store of a service, so that it does not go through the service."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from quire.client.exceptions import NotFoundError, RefusedError
from quire.client.service_calls import ServiceCall, Source, attachment, is_address
from quire.client.transport import Transport

DIRECT_FROM_BYTES = 64 << 20
"""Smaller files go with the request: a direct upload costs two requests more."""


async def direct_source(
    transport: Transport, source: Source, name: str | None, from_bytes: int | None = None
) -> str | None:
    """The address of the file once it is uploaded; None if it is small, or the service has no such store."""
    path = await asyncio.to_thread(
        _large_file, source, DIRECT_FROM_BYTES if from_bytes is None else from_bytes
    )
    if path is None:
        return None
    size = (await asyncio.to_thread(path.stat)).st_size
    asked = {"size": size, "filename": attachment(path, name).filename}
    try:
        begun = (await transport.ask(ServiceCall("POST", "/uploads", json=asked))).json()
    except NotFoundError:
        return None  # a service of an earlier version
    except RefusedError as error:
        if error.status == 405:
            return None
        raise
    if not begun["signed"]:
        return None
    await transport.put_file(begun["url"], begun["headers"], path)
    return str(begun["source"])


async def direct_sources(transport: Transport, sources: Iterable[Source]) -> list[Source]:
    """The files of a batch as addresses, all of them, if one is large and the service has such a store; else as given.

    An archive is taken apart only where it comes with the request, so a batch with one stays as it is.
    """
    given = list(sources)
    sizes = [await asyncio.to_thread(_large_file, one, DIRECT_FROM_BYTES) for one in given]
    if not any(sizes) or any(_is_other(one) for one in given):
        return given
    found: list[Source] = []
    for one in given:
        address = await direct_source(transport, one, None, 0)
        if address is None:
            return given
        found.append(address)
    return found


def _is_other(source: Source) -> bool:
    """Whether it is no file, or an archive."""
    return isinstance(source, bytes) or is_address(source) or Path(source).suffix.lower() == ".zip"


def _large_file(source: Source, least: int) -> Path | None:
    if isinstance(source, bytes) or is_address(source):
        return None
    path = Path(source)
    try:
        return path if path.stat().st_size >= least else None
    except OSError:
        return None  # the upload says what is wrong
