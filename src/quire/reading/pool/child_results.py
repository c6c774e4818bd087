"""What a child sends back, as data: MessagePack that must fit the return type of the function that was called.

A parser that a hostile file has taken over may send any bytes. They are never unpickled: a result is decoded into the
annotated type, an error into one of our own classes with a bounded text, and everything else is refused.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from types import SimpleNamespace
from typing import Any

import msgspec

from quire.errors import PageError, QuireError, RequestError, SettingsError

MAX_ANSWER_BYTES = 512 << 20
"""The largest answer that is read. Pictures and texts of a chunk stay far below."""

_LONGEST_TEXT = 2_000


class MalformedAnswerError(Exception):
    """The bytes are not what the function returns."""


class _Failure(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    name: str
    public: str
    retryable: bool
    retry_after_s: float | None


def encode_result(value: Any) -> bytes:
    """Raises TypeError or OverflowError for a value that is no plain data."""
    try:
        return msgspec.msgpack.encode(value)
    except UnicodeEncodeError:  # texts of documents may have half a surrogate pair
        return msgspec.msgpack.encode(_printable(value))


def decode_result(function: Callable[..., Any], content: bytes | memoryview) -> Any:
    """Raises MalformedAnswerError unless the content has the type that the function returns."""
    try:
        return _decoder(function).decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedAnswerError from error


def encode_error(error: QuireError) -> bytes:
    public = error.public[:_LONGEST_TEXT].encode("utf-8", "replace").decode()
    return msgspec.msgpack.encode(
        _Failure(type(error).__name__, public, error.retryable, error.retry_after_s)
    )


def decode_error(content: bytes | memoryview) -> QuireError:
    """Raises MalformedAnswerError unless the content is an error of ours."""
    try:
        found = _FAILURES.decode(content)
    except msgspec.DecodeError as error:
        raise MalformedAnswerError from error
    kind = _classes().get(found.name)
    if kind is None:
        raise MalformedAnswerError
    made = kind.__new__(kind)
    QuireError.__init__(
        made, found.public[:_LONGEST_TEXT], retryable=found.retryable, retry_after_s=found.retry_after_s
    )
    return made


_FAILURES = msgspec.msgpack.Decoder(_Failure)


@functools.cache
def _decoder(function: Callable[..., Any]) -> msgspec.msgpack.Decoder[Any]:
    # Only the return type is resolved: types of parameters may be known to type checkers alone.
    given = SimpleNamespace(__annotations__={"return": function.__annotations__.get("return", Any)})
    found = typing.get_type_hints(given, vars(sys.modules[function.__module__]))["return"]
    return msgspec.msgpack.Decoder(type(None) if found is typing.NoReturn else found)


def _classes() -> dict[str, type[QuireError]]:
    """Errors that a reader may raise. An outage of a plane, say, would make the worker wait for it."""
    found: dict[str, type[QuireError]] = {}
    waiting: list[type[QuireError]] = [RequestError, PageError, SettingsError]
    while waiting:
        one = waiting.pop()
        found[one.__name__] = one
        waiting += one.__subclasses__()
    return found


def _printable(value: Any) -> Any:
    """The value with texts that can be encoded."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return value.encode("utf-8", "replace").decode()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {one.name: _printable(getattr(value, one.name)) for one in dataclasses.fields(value)}
        return dataclasses.replace(value, **changed)
    if isinstance(value, Mapping):
        return {_printable(name): _printable(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(_printable(one) for one in value)
    return value
