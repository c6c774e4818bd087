"""What a setting's value may look like: each kind reads a text into a value and writes it back.

A kind's `read` raises `ValueError` for anything malformed. The text of that error is never shown, because it
could repeat a secret; `expected` is what the user gets to read. Only the text of a `MalformedPartError` is shown.

`Declaration` is one setting; the sections are made of these.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import unquote, urlsplit

T = TypeVar("T")
N = TypeVar("N", int, float)

_SECONDS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_BYTES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])")
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern})+")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?b)?", re.IGNORECASE)
_TEAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


@dataclass(frozen=True)
class ValueKind(Generic[T]):
    """How to read a value, how to show it, and the words for what was expected.

    `secret` values are never shown. `many` kinds also take a list or a mapping from a configuration file,
    handed to `read` as `item,item` or `key:value,key:value`; `table` kinds take a mapping of mappings, handed
    to `read` as JSON.
    """

    expected: str
    read: Callable[[str], T]
    write: Callable[[T], str]
    secret: bool = False
    many: bool = False
    table: bool = False


class MalformedPartError(ValueError):
    """Says which part of a value is wrong, in words that repeat nothing of it."""


@dataclass(frozen=True)
class ApiKey:
    """One key and the team it speaks for."""

    team: str
    key: str

    def __repr__(self) -> str:
        return f"ApiKey(team={self.team!r})"


def text() -> ValueKind[str]:
    return ValueKind("a text", lambda value: value, lambda value: value)


def secret() -> ValueKind[str]:
    return ValueKind("a text", lambda value: value, lambda value: value, secret=True)


def integer(least: int, most: int) -> ValueKind[int]:
    def read(value: str) -> int:
        return _within(int(value), least, most)

    return ValueKind(f"a whole number from {least} to {most}", read, str)


def number(least: float, most: float) -> ValueKind[float]:
    def read(value: str) -> float:
        return _within(float(value), least, most)

    return ValueKind(f"a number from {least:g} to {most:g}", read, lambda value: f"{value:g}")


def boolean() -> ValueKind[bool]:
    def read(value: str) -> bool:
        word = value.lower()
        if word not in _TRUE | _FALSE:
            raise ValueError("neither true nor false")
        return word in _TRUE

    return ValueKind("true or false", read, lambda value: "true" if value else "false")


def choice(*words: str) -> ValueKind[str]:
    def read(value: str) -> str:
        if value.lower() not in words:
            raise ValueError("not one of the words")
        return value.lower()

    return ValueKind(" or ".join((", ".join(words[:-1]), words[-1])), read, str)


def choices(*words: str) -> ValueKind[tuple[str, ...]]:
    """Some of the words, comma-separated; `none` is none of them."""

    def read(value: str) -> tuple[str, ...]:
        given = [part.strip().lower() for part in value.split(",") if part.strip()]
        if given == ["none"]:
            return ()
        if any(one not in words for one in given):
            raise ValueError("not one of the words")
        return tuple(one for one in words if one in given)

    expected = f"some of {', '.join(words)}, comma-separated, or `none`"
    return ValueKind(expected, read, lambda value: ",".join(value) or "none", many=True)


def duration(least: str, most: str) -> ValueKind[float]:
    """Seconds. The unit must be written: a bare 60 could be meant as seconds or milliseconds."""
    least_s, most_s = read_duration(least), read_duration(most)

    def read(value: str) -> float:
        return _within(read_duration(value), least_s, most_s)

    return ValueKind(f"a duration such as 200ms, 60s or 1h30m, from {least} to {most}", read, write_duration)


def size(least: str, most: str, *, bare_unit: str) -> ValueKind[int]:
    """Bytes. A bare number counts in `bare_unit`, which the setting's own name should say."""
    least_bytes, most_bytes = read_size(least), read_size(most)

    def read(value: str) -> int:
        return _within(read_size(value, bare_unit=bare_unit), least_bytes, most_bytes)

    expected = f"a size such as 50MB (a bare number counts in {bare_unit}), from {least} to {most}"
    return ValueKind(expected, read, write_size)


def path() -> ValueKind[Path]:
    def read(value: str) -> Path:
        if "\0" in value:
            raise ValueError("NUL in a path")
        return Path(value).expanduser()

    return ValueKind("a path", read, str)


def optional_path() -> ValueKind[Path | None]:
    def read(value: str) -> Path | None:
        return path().read(value) if value else None

    return ValueKind("a path, or nothing", read, lambda value: str(value or ""))


def local_folder() -> ValueKind[Path | None]:
    """A path or a `file://` URL of this machine; nothing is `None`."""

    def read(value: str) -> Path | None:
        if "://" not in value:
            folder = optional_path().read(value)
        else:
            parts = urlsplit(value)
            if (
                parts.scheme != "file"
                or parts.netloc not in {"", "localhost"}
                or parts.query
                or parts.fragment
            ):
                raise ValueError("not a file URL of this machine")
            folder = Path(unquote(parts.path))
        if folder is not None and not folder.is_absolute():
            raise ValueError("not absolute")
        return folder

    return ValueKind("an absolute path or a file:///… URL, or nothing", read, lambda value: str(value or ""))


def host() -> ValueKind[str]:
    def read(value: str) -> str:
        bare = value[1:-1] if value.startswith("[") and value.endswith("]") else value
        if is_address(bare) or _HOST_NAME.fullmatch(bare):
            return bare
        raise ValueError("not a host")

    return ValueKind("an address or a host name", read, str)


def networks() -> ValueKind[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]]:
    """Addresses and networks such as 10.0.0.0/8, comma-separated."""

    def read(value: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
        items = filter(None, (part.strip() for part in value.split(",")))
        return tuple(ipaddress.ip_network(item, strict=False) for item in items)

    return ValueKind(
        "addresses or networks such as 10.0.0.0/8, comma-separated",
        read,
        lambda value: ",".join(map(str, value)),
        many=True,
    )


def url(*schemes: str, or_path: bool = False, has_many_hosts: bool = False) -> ValueKind[str]:
    """A URL with one of the schemes, or nothing. Shown without its password.

    With `has_many_hosts` it may name several hosts with commas between, each with its port: `a:1,b:2`.
    """
    listed = ", ".join(f"{scheme}://…" for scheme in schemes)

    def read(value: str) -> str:
        if not value or (or_path and "://" not in value):
            return value
        parts = urlsplit(value)
        if parts.scheme not in schemes or not (parts.netloc or parts.path):
            raise ValueError("another scheme")
        place = parts.netloc.rpartition("@")[2]
        for host in place.split(",") if has_many_hosts else [place]:
            _ = urlsplit(f"//{host}").port  # raises ValueError for a malformed port
        return value

    expected = f"a path or a URL of {listed}" if or_path else f"a URL of {listed}"
    return ValueKind(expected, read, without_password)


def server_url(*schemes: str) -> ValueKind[str]:
    """A URL like `url`. With a scheme of several servers (`…+…`) it names them with commas between: `a:1,b:2`; a number
    after the last of two parts of its path is the database."""
    one = url(*schemes)

    def read(value: str) -> str:
        parts = urlsplit(value)
        if not value or parts.scheme not in schemes or parts.scheme == "unix":
            return one.read(value)
        hosts, path = parts.netloc.rpartition("@")[2], parts.path.strip("/")
        is_several = "+" in parts.scheme
        for host in hosts.split(",") if is_several else [hosts]:
            _check_host(host)
        database = path.partition("/")[2] if is_several else path
        if database and not database.isdecimal():
            raise MalformedPartError("its database (the last part of its path) is wrong, expected a number")
        return value

    return ValueKind(one.expected, read, without_password)


def _check_host(text: str) -> None:
    parts = urlsplit(f"//{text}")
    try:
        port = parts.port
    except ValueError:
        raise MalformedPartError("a port is wrong, expected a number from 1 to 65535") from None
    if port == 0:
        raise MalformedPartError("a port is wrong, expected a number from 1 to 65535")
    if not parts.hostname:
        raise MalformedPartError("a host is missing, expected host:port")


def api_keys() -> ValueKind[tuple[ApiKey, ...]]:
    """`team:key` or a bare `key` of the team `default`, comma-separated. No key may be given twice."""

    def read(value: str) -> tuple[ApiKey, ...]:
        found: list[ApiKey] = []
        for item in filter(None, (part.strip() for part in value.split(","))):
            team, colon, key = item.partition(":")
            one = ApiKey(team.strip(), key.strip()) if colon else ApiKey("default", item)
            if not one.key or any(c.isspace() for c in one.key) or not _TEAM.fullmatch(one.team):
                raise ValueError("malformed key")
            found.append(one)
        if len({one.key for one in found}) < len(found):
            raise ValueError("a key given twice")
        return tuple(found)

    expected = "team:key or key, comma-separated, each key once (teams of letters, digits, dots, dashes)"
    return ValueKind(expected, read, lambda _: "set", secret=True, many=True)


def read_duration(value: str) -> float:
    """Seconds of `3m`, `60s`, `200ms`, `1h30m` or `0`; each unit at most once. Raises ValueError."""
    if value == "0":
        return 0.0
    if not _DURATION.fullmatch(value):
        raise ValueError("not a duration")
    parts = _DURATION_PART.findall(value)
    if len({unit for _, unit in parts}) < len(parts):
        raise ValueError("a unit given twice")
    return round(sum(float(amount) * _SECONDS[unit] for amount, unit in parts), 6)


def write_duration(seconds: float) -> str:
    """The shortest text that `read_duration` reads as the same milliseconds."""
    left_ms, words = round(seconds * 1000), ""
    for unit, unit_s in _SECONDS.items():
        amount, left_ms = divmod(left_ms, round(unit_s * 1000))
        words += f"{amount}{unit}" if amount else ""
    return words or "0"


def read_size(value: str, *, bare_unit: str = "B") -> int:
    """Bytes of `50MB`, `1.5 GB` or a bare number; units are powers of 1024. Raises ValueError."""
    match = _SIZE.fullmatch(value)
    if match is None:
        raise ValueError("not a size")
    return round(float(match[1]) * _BYTES[(match[2] or bare_unit).upper()])


def write_size(size_bytes: int) -> str:
    """The text with the largest unit that leaves a whole number."""
    unit = next((name for name in reversed(_BYTES) if size_bytes and size_bytes % _BYTES[name] == 0), "B")
    return f"{size_bytes // _BYTES[unit]}{unit}"


def without_password(value: str) -> str:
    """The URL with its password and query values masked, so that it can be shown."""
    if "://" not in value:
        return value
    parts = urlsplit(value)
    user, at, place = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    netloc = f"{name}{':***' if colon else ''}{at}{place}"
    query = re.sub(r"=[^&]*", "=***", parts.query)
    return parts._replace(netloc=netloc, query=query).geturl()


def is_address(value: str) -> bool:
    """Whether the text is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def _within(value: N, least: N, most: N) -> N:
    if not least <= value <= most:  # also refuses NaN
        raise ValueError("out of bounds")
    return value


@dataclass(frozen=True)
class Declaration:
    """One setting: where it lives (`section`, `attribute`), how it is read, what it means."""

    name: str
    default: str
    kind: ValueKind[Any]
    description: str
    section: str = ""
    attribute: str = ""


def setting(name: str, default: str, kind: ValueKind[T], description: str) -> T:
    declaration = Declaration(name, default, kind, description)
    # A URL may carry a password, so it stays out of `repr` like any other secret.
    shown = not kind.secret and kind.write is not without_password
    return field(default=kind.read(default), repr=shown, metadata={"declaration": declaration})
