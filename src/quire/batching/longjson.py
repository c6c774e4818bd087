"""Reads a JSON object that has one very long base64 text, piece by piece as it arrives.

The text is decoded in pieces and is never in memory as a whole. The rest of the object is small and is read by the
ordinary JSON parser, with a placeholder instead of the long text. So no step takes long, however long the body is.
"""

from __future__ import annotations

import binascii
import json
import re
import secrets
from typing import Any, NoReturn

import pybase64

from quire.errors import RequestError

Bytes = bytes | bytearray

MAX_REST_BYTES = 64 << 10
"""The limit for everything but the long text."""

_SHORT = 4096
_DATA_URL = re.compile(rb"data:[\w/+.-]*(?:;[\w=.-]+)*;base64,")
_BAD_BASE64 = "image_data is not valid base64."
NOT_JSON = "The body is not JSON in UTF-8, or has a number that is too long."
_PLAIN_ESCAPES = {b"/": b"/", b"n": b"", b"r": b"", b"t": b""}


def read_complete(body: Bytes, field: str) -> tuple[dict[str, Any], Bytes]:
    """Returns the other fields and the decoded long text of a complete body. Raises RequestError.

    The common case, a text without escapes, is decoded without a copy. `LongJson` reads all other bodies.
    """
    opening = body.find(b'"', body.find(b":", body.find(b'"%s"' % field.encode())))
    closing = body.find(b'"', opening + 1)
    if 0 < opening < closing - 1 and len(body) - (closing - opening) <= MAX_REST_BYTES:
        placeholder = secrets.token_hex(8)
        rest = b"".join((body[: opening + 1], placeholder.encode(), body[closing:]))
        try:
            found = STRICT_JSON.decode(rest.decode())
            # The placeholder is the field's value only if the text that was cut out belongs to this field.
            if isinstance(found, dict) and found.pop(field, None) == placeholder:
                with memoryview(body) as whole, whole[opening + 1 : closing] as text:
                    return found, pybase64.b64decode(text, validate=True)
        except (ValueError, RecursionError):
            pass
    reader = LongJson(field)
    first = reader.feed(bytes(body))
    others, last = reader.end()
    return others, first + last


class LongJson:
    """Feed it the body, then call `end` for the fields. Raises RequestError as soon as the body is malformed."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._placeholder = secrets.token_hex(8)
        self._rest = bytearray()
        self._carry = b""
        self._in_string = False
        self._string = bytearray()
        self._long = False
        self._seen_long = False
        self._base64 = _Base64()

    def feed(self, piece: bytes) -> bytes:
        """Returns the part of the long text that could be decoded."""
        if self._carry:
            piece, self._carry = self._carry + piece, b""
        decoded: list[bytes] = []
        at = 0
        while at < len(piece):
            if not self._in_string:
                at = self._outside(piece, at)
            elif self._long:
                at = self._inside_long(piece, at, decoded)
            else:
                at = self._inside_short(piece, at, decoded)
        if len(self._rest) > MAX_REST_BYTES:
            raise RequestError(f"Besides {self._field} the JSON has more than {MAX_REST_BYTES >> 10} kB.")
        return decoded[0] if len(decoded) == 1 else b"".join(decoded)

    def end(self) -> tuple[dict[str, Any], bytes]:
        """Returns the other fields, and the rest of the decoded text."""
        if self._in_string or self._carry:
            raise RequestError(NOT_JSON)
        found = strict_object(self._rest, 'The body should be a JSON object such as {"image_data": "…"}.')
        text = found.pop(self._field, None)
        if self._seen_long:
            if text != self._placeholder:
                raise RequestError(f"A text other than {self._field} is too long.")
            return found, self._base64.end()
        if not isinstance(text, str) or not text:
            raise RequestError(f"{self._field} is required: the image in base64.")
        try:
            raw = text.encode("ascii")
        except UnicodeEncodeError:
            raise RequestError(_BAD_BASE64) from None
        return found, self._base64.add(re.sub(rb"[\r\n\t]", b"", raw)) + self._base64.end()

    def _outside(self, piece: bytes, at: int) -> int:
        quote = piece.find(b'"', at)
        if quote < 0:
            self._rest += piece[at:]
            return len(piece)
        self._rest += piece[at : quote + 1]
        self._in_string = True
        return quote + 1

    def _inside_short(self, piece: bytes, at: int, decoded: list[bytes]) -> int:
        """Reads a text that may still become the long one."""
        end = min(len(piece), at + _SHORT)
        quote, back = piece.find(b'"', at, end), piece.find(b"\\", at, end)
        if quote < 0 and back < 0:
            self._string += piece[at:end]
            if len(self._string) > _SHORT:
                self._begin_long(decoded)
            return end
        if back < 0 or 0 <= quote < back:
            self._rest += self._string + piece[at : quote + 1]
            self._string.clear()
            self._in_string = False
            return quote + 1
        size = 6 if piece[back + 1 : back + 2] == b"u" else 2
        if len(piece) < back + size:
            self._string += piece[at:back]
            self._carry = piece[back:]
            return len(piece)
        self._string += piece[at : back + size]
        return back + size

    def _begin_long(self, decoded: list[bytes]) -> None:
        if self._seen_long:
            raise RequestError(f"A text other than {self._field} is too long.")
        self._seen_long = self._long = True
        self._rest += self._placeholder.encode()
        start, self._string = bytes(self._string), bytearray()
        # Escapes were kept unchanged; they are read again as part of the long text.
        at = 0
        while at < len(start):
            at = self._inside_long(start, at, decoded)

    def _inside_long(self, piece: bytes, at: int, decoded: list[bytes]) -> int:
        quote = piece.find(b'"', at)
        end = len(piece) if quote < 0 else quote
        back = piece.find(b"\\", at, end)
        if back < 0:
            decoded.append(self._base64.add(piece[at:end]))
            if quote < 0:
                return end
            self._rest += b'"'
            self._in_string = self._long = False
            return quote + 1
        if piece.find(b"\\\\", back, end) < 0 and piece[end - 1 : end] != b"\\":
            # Some encoders escape every slash; without a doubled backslash, one replace undoes it.
            plain = piece[at:end].replace(b"\\/", b"/")
            if b"\\" not in plain:
                decoded.append(self._base64.add(plain))
                return end
        decoded.append(self._base64.add(piece[at:back]))
        return self._escape(piece, back, decoded)

    def _escape(self, piece: bytes, back: int, decoded: list[bytes]) -> int:
        kind = piece[back + 1 : back + 2]
        size = 6 if kind == b"u" else 2
        escape = piece[back : back + size]
        if len(escape) < size:
            self._carry = escape
            return len(piece)
        if kind == b"u":
            try:
                character = chr(int(escape[2:], 16)).encode("ascii")
            except ValueError:
                raise RequestError(_BAD_BASE64) from None
            plain = b"" if character in b"\r\n\t" else character
        elif kind in _PLAIN_ESCAPES:
            plain = _PLAIN_ESCAPES[kind]
        else:
            raise RequestError(_BAD_BASE64)
        decoded.append(self._base64.add(plain))
        return back + size


class _Base64:
    """Decodes base64 in pieces of any length, without line breaks."""

    def __init__(self) -> None:
        self._rest = b""
        self._begun = False
        self._ended = False

    def add(self, text: bytes) -> bytes:
        if not text:
            return b""
        if self._ended:
            raise RequestError(_BAD_BASE64)
        if not self._begun:
            self._begun = True
            prefix = _DATA_URL.match(text)
            if prefix is not None:
                text = text[prefix.end() :]
        if self._rest:
            text = self._rest + text
        whole = len(text) & ~3
        self._rest = text[whole:]
        if not whole:
            return b""
        if text[whole - 1 : whole] == b"=":
            self._ended = True
            if self._rest:
                raise RequestError(_BAD_BASE64)
        return self._decoded(text[:whole] if self._rest else text)

    def end(self) -> bytes:
        if self._rest:
            raise RequestError(_BAD_BASE64)
        return b""

    @staticmethod
    def _decoded(text: bytes) -> bytes:
        try:
            return pybase64.b64decode(text, validate=True)
        except binascii.Error:
            raise RequestError(_BAD_BASE64) from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RequestError("The JSON has a name twice in one object.")
    return found


def _no_constant(name: str) -> NoReturn:
    raise RequestError(f"{name} is not a number that JSON knows.")


STRICT_JSON = json.JSONDecoder(object_pairs_hook=_each_once, parse_constant=_no_constant)
"""Refuses a name that is in one object twice, and NaN and Infinity. Raises RequestError."""


def strict_object(data: Bytes, otherwise: str) -> dict[str, Any]:
    """The JSON object in UTF-8. Raises RequestError, with the text `otherwise` for another JSON value."""
    try:
        found = STRICT_JSON.decode(data.decode())
    except RecursionError:
        raise RequestError("The JSON is nested too deeply.") from None
    except ValueError:
        raise RequestError(NOT_JSON) from None
    if not isinstance(found, dict):
        raise RequestError(otherwise)
    return found
