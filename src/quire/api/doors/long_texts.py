"""Reads JSON that has documents in base64, piece by piece: no document is whole in memory.

A text of more than 4 kB is taken for base64 and decoded as it arrives; the JSON has a placeholder in its place.
"""

from __future__ import annotations

import binascii
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import pybase64

from quire.batching.longjson import NOT_JSON, strict_object
from quire.errors import RequestError

_SHORT = 4096
_MAX_REST_BYTES = 1 << 20
_TOKENS = re.compile(rb'["\\]')
_BAD_BASE64 = "A text of the body is longer than 4 kB and is not base64."

OpenText = Callable[[str], Awaitable["TextWriter"]]


class TextWriter(Protocol):
    """Takes the decoded bytes of one long text."""

    async def write(self, data: bytes) -> None: ...

    async def end(self) -> None: ...


async def read_long_texts(body: AsyncIterator[bytes], open_text: OpenText) -> dict[str, Any]:
    """Returns the JSON object of the body. `open_text` gets the placeholder of each long text. Raises RequestError."""
    reader = _Reader(open_text)
    async for piece in body:
        await reader.feed(piece)
    return reader.end()


class _Reader:
    def __init__(self, open_text: OpenText) -> None:
        self._open_text = open_text
        self._rest = bytearray()
        self._string: bytearray | None = None
        self._long: TextWriter | None = None
        self._undecoded = b""
        self._escaped = False

    async def feed(self, piece: bytes) -> None:
        at = 0
        while at < len(piece):
            if self._string is None and self._long is None:
                at = self._outside(piece, at)
            else:
                at = await self._inside(piece, at)
        if len(self._rest) > _MAX_REST_BYTES:
            raise RequestError("The JSON has more than 1 MB beside its documents.")

    def end(self) -> dict[str, Any]:
        if self._string is not None or self._long is not None:
            raise RequestError(NOT_JSON)
        return strict_object(self._rest, "The body should be a JSON object.")

    def _outside(self, piece: bytes, at: int) -> int:
        quote = piece.find(b'"', at)
        if quote < 0:
            self._rest += piece[at:]
            return len(piece)
        self._rest += piece[at : quote + 1]
        self._string = bytearray()
        return quote + 1

    async def _inside(self, piece: bytes, at: int) -> int:
        """Takes characters up to the next quotation mark or backslash; the character after a backslash is taken too."""
        if self._escaped:
            self._escaped = False
            await self._take(piece[at : at + 1])
            return at + 1
        found = _TOKENS.search(piece, at, at + 65_536)
        if found is None:
            await self._take(piece[at : at + 65_536])
            return at + 65_536
        await self._take(piece[at : found.start()])
        if found.group() == b"\\":
            await self._take(b"\\")
            self._escaped = True
        else:
            await self._close()
        return found.end()

    async def _take(self, data: bytes) -> None:
        if self._long is not None:
            await self._decode(data)
            return
        assert self._string is not None  # noqa: S101 - called inside a text only
        self._string += data
        if len(self._string) > _SHORT and not self._escaped:
            placeholder = secrets.token_hex(16)
            self._rest += placeholder.encode()
            self._long = await self._open_text(placeholder)
            start, self._string = bytes(self._string), None
            await self._decode(start)

    async def _decode(self, data: bytes) -> None:
        text = self._undecoded + data
        if text.endswith(b"\\"):  # an escape that is not complete
            text, held = text[:-1], b"\\"
        else:
            held = b""
        for escape, plain in ((b"\\/", b"/"), (b"\\n", b""), (b"\\r", b""), (b"\n", b""), (b"\r", b"")):
            text = text.replace(escape, plain)
        whole = len(text) & ~3
        self._undecoded = text[whole:] + held
        if whole and self._long is not None:
            await self._long.write(_decoded(text[:whole]))

    async def _close(self) -> None:
        if self._long is None:
            assert self._string is not None  # noqa: S101 - a text is open
            self._rest += self._string
        else:
            if self._undecoded:
                raise RequestError(_BAD_BASE64)
            await self._long.end()
        self._rest += b'"'
        self._string = self._long = None


def _decoded(text: bytes) -> bytes:
    try:
        return pybase64.b64decode(text, validate=True)
    except binascii.Error:
        raise RequestError(_BAD_BASE64) from None
