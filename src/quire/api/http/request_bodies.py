"""Request bodies, read in pieces: a small JSON object, or a form that is never whole in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from quire.api.http.error_responses import MediaTypeError, SlowRequestError
from quire.batching.longjson import STRICT_JSON
from quire.errors import RequestError, TooLargeError

LARGEST_JSON = 1 << 20
MOST_PARTS = 32
MOST_FOREIGN_PARTS = 160
LARGEST_FIELD = 128 << 10
FORM_OVERHEAD = MOST_PARTS * LARGEST_FIELD
"""What a form may have around its file."""

_STALL_S = 60.0
_FILE = "file"


@dataclass(frozen=True, slots=True)
class FileStarts:
    filename: str


@dataclass(frozen=True, slots=True)
class FilePiece:
    data: bytes


@dataclass(frozen=True, slots=True)
class FileEnds:
    pass


@dataclass(frozen=True, slots=True)
class FieldRead:
    name: str
    value: str


FormEvent = FileStarts | FilePiece | FileEnds | FieldRead


def media_type(request: Request) -> str:
    """`application/json`, `multipart/form-data` or whatever it is. Raises MediaTypeError for a packed body."""
    packed = request.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        raise MediaTypeError("The body is compressed (Content-Encoding); send it as it is.")
    return parse_options_header(request.headers.get("content-type", ""))[0].decode("latin-1")


def check_length(request: Request, most: int, what: str) -> None:
    """Raises TooLargeError if the announced length is over the bound; nothing has been read then."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:19]) > most:
        raise TooLargeError(what)


async def read_json(request: Request) -> dict[str, Any]:
    """The JSON object in the body. Raises RequestError or TooLargeError."""
    too_large = f"A JSON body may have at most {LARGEST_JSON >> 20} MB."
    check_length(request, LARGEST_JSON, too_large)
    body = bytearray()
    async for piece in pieces(request):
        body += piece
        if len(body) > LARGEST_JSON:
            raise TooLargeError(too_large)
    try:
        found = STRICT_JSON.decode(body.decode())
    except RecursionError:
        raise RequestError("The JSON is nested too deeply.") from None
    except ValueError:
        raise RequestError("The body is not JSON in UTF-8, or has a number that is too long.") from None
    if not isinstance(found, dict):
        raise RequestError('The body should be a JSON object such as {"source": "https://…"}.')
    return found


async def read_form(
    request: Request, most_files: int = 1, *, any_name: bool = False
) -> AsyncGenerator[FormEvent, None]:
    """The events of a multipart body as they arrive. Raises RequestError where it is malformed or cut short.

    With more than one of `most_files` the part `file` may come again and again. With `any_name` every part with a file
    name is a file, fields may be repeated, and there may be more of them: the forms of other systems.
    """
    boundary = parse_options_header(request.headers.get("content-type", ""))[1].get(b"boundary", b"")
    if not boundary:
        raise RequestError("The multipart body has no boundary in its Content-Type.")
    form = _Form(most_files=most_files, any_name=any_name)
    try:
        parser = MultipartParser(boundary, form.callbacks())  # type: ignore[arg-type]
        async with aclosing(pieces(request)) as body:
            async for piece in body:
                parser.write(piece)
                for event in form.drain():
                    yield event
    except FormParserError:
        raise RequestError("The multipart body is malformed.") from None
    if not form.complete:
        raise RequestError("The multipart body ends before its last boundary.")


async def pieces(request: Request) -> AsyncGenerator[bytes, None]:
    """The body in pieces. Raises SlowRequestError when no byte arrives for a minute, or ClientDisconnect."""
    stream = request.stream()
    while True:
        try:
            async with asyncio.timeout(_STALL_S):
                piece = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise SlowRequestError(f"No byte of the body arrived for {_STALL_S:.0f} seconds.") from None
        if piece:
            yield piece


@dataclass(slots=True)
class _Form:
    """Collects the events of the parser's callbacks between two pieces of the body."""

    complete: bool = False
    most_files: int = 1
    any_name: bool = False
    _ready: list[FormEvent] = field(default_factory=list)
    _parts: int = 0
    _names: set[str] = field(default_factory=set)
    _headers: dict[str, bytes] = field(default_factory=dict)
    _header_name: bytearray = field(default_factory=bytearray)
    _header_value: bytearray = field(default_factory=bytearray)
    _name: str = ""
    _is_file: bool = False
    _value: bytearray = field(default_factory=bytearray)

    def callbacks(self) -> dict[str, Any]:
        return {
            "on_part_begin": self._part_begins,
            "on_header_begin": self._header_begins,
            "on_header_field": lambda data, start, end: self._header_name.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header_value.extend(data[start:end]),
            "on_header_end": self._header_ends,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._part_data,
            "on_part_end": self._part_ends,
            "on_end": self._end,
        }

    def drain(self) -> list[FormEvent]:
        ready, self._ready = self._ready, []
        return ready

    def _part_begins(self) -> None:
        self._parts += 1
        most = (MOST_FOREIGN_PARTS if self.any_name else MOST_PARTS) + self.most_files - 1
        if self._parts > most:
            raise RequestError(f"The form has more than {most} parts.")
        self._headers, self._value = {}, bytearray()

    def _header_begins(self) -> None:
        self._header_name, self._header_value = bytearray(), bytearray()

    def _header_ends(self) -> None:
        self._headers[self._header_name.decode("latin-1").lower()] = bytes(self._header_value)

    def _headers_finished(self) -> None:
        kind, options = parse_options_header(self._headers.get("content-disposition", b""))
        self._name = _decoded(options.get(b"name", b""), "a part's name")
        if kind != b"form-data" or not self._name:
            raise RequestError("A part of the form has no name.")
        may_repeat = self.any_name or (self._name == _FILE and self.most_files > 1)
        if self._name in self._names and not may_repeat:
            raise RequestError(f"{self._name[:60]!r} is given twice; send it once.")
        self._names.add(self._name)
        self._is_file = b"filename" in options if self.any_name else self._name == _FILE
        if self._is_file:
            self._ready.append(FileStarts(_decoded(options.get(b"filename", b""), "the file's name")))
        elif b"filename" in options:
            raise RequestError(f"{self._name[:60]!r} is a file; the document is sent in the field `file`.")

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self._ready.append(FilePiece(data[start:end]))
            return
        if len(self._value) + end - start > LARGEST_FIELD:
            raise RequestError(f"{self._name[:60]!r} is longer than {LARGEST_FIELD >> 10} kB.")
        self._value += data[start:end]

    def _part_ends(self) -> None:
        if self._is_file:
            self._ready.append(FileEnds())
        else:
            self._ready.append(FieldRead(self._name, _decoded(bytes(self._value), f"{self._name[:60]!r}")))

    def _end(self) -> None:
        self.complete = True


def _decoded(raw: bytes, what: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise RequestError(f"{what} is not UTF-8.") from None
