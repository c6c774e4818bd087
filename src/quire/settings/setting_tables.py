"""Settings that are tables: a mapping in the configuration file, JSON in the environment.

Their kinds raise `ValueError` for malformed values, like the simple ones, and never show the value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from quire.settings import setting_kinds
from quire.settings.setting_kinds import ValueKind

T = TypeVar("T")

RESERVED_PROVIDERS = ("openai", "anthropic", "ocr", "dolphin")
"""Names that a server in AI_SERVERS may not have."""

LIMIT_NAMES = ("rpm", "tpm", "max_inflight")
NO_PROVIDER = "none"

_SERVER_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_MODEL = re.compile(r"[!-~]{1,200}")


@dataclass(frozen=True)
class AiServer:
    """A server that speaks OpenAI's protocol: vLLM, Ollama, Azure and the like."""

    name: str
    base_url: str = field(repr=False)
    api_key: str = field(repr=False)
    primary_model: str
    secondary_model: str
    fast_model: str


@dataclass(frozen=True)
class AiLimit:
    """What an account may use of a model in a minute, and the calls at a time; 0 is unknown."""

    provider: str
    model: str
    rpm: int = 0
    tpm: int = 0
    max_inflight: int = 0


@dataclass(frozen=True)
class AiPrice:
    """US dollars for a million tokens."""

    provider: str
    model: str
    usd_in: float
    usd_out: float


def api_key() -> ValueKind[str]:
    """A key that is valid in an HTTP header."""

    def read(value: str) -> str:
        if value and not _is_key(value):
            raise ValueError("not a key")
        return value

    return ValueKind("a key without spaces, in plain characters", read, lambda _: "set", secret=True)


def model() -> ValueKind[str]:
    def read(value: str) -> str:
        if not _MODEL.fullmatch(value):
            raise ValueError("not a model's name")
        return value

    return ValueKind("the name of a model, without spaces", read, str)


def provider() -> ValueKind[str]:
    def read(value: str) -> str:
        if value and not _SERVER_NAME.fullmatch(value.lower()):
            raise ValueError("not a provider's name")
        return "" if value.lower() == NO_PROVIDER else value.lower()

    expected = f"openai, anthropic, dolphin, ocr, a name of AI_SERVERS, or {NO_PROVIDER}"
    return ValueKind(expected, read, lambda name: name or NO_PROVIDER)


def providers() -> ValueKind[tuple[str, ...]]:
    def read(value: str) -> tuple[str, ...]:
        return tuple(provider().read(part) for part in (one.strip() for one in value.split(",")) if part)

    expected = "names of providers, comma-separated"
    return ValueKind(expected, read, ",".join, many=True)


def ai_servers() -> ValueKind[tuple[AiServer, ...]]:
    """`{name: {base_url, api_key, primary_model, secondary_model, fast_model}}`; the first and a model are needed."""

    def read_one(name: str, given: Mapping[str, Any]) -> AiServer:
        words = _words(given, "base_url", "api_key", "primary_model", "secondary_model", "fast_model")
        primary = words["primary_model"]
        one = AiServer(
            name,
            setting_kinds.url("http", "https").read(words["base_url"]),
            api_key().read(words["api_key"]),
            model().read(primary),
            model().read(words["secondary_model"] or primary),
            model().read(words["fast_model"] or primary),
        )
        if not one.base_url or name in (*RESERVED_PROVIDERS, NO_PROVIDER) or not _SERVER_NAME.fullmatch(name):
            raise ValueError("no address, or a name that is taken")
        return one

    expected = (
        "a table of servers, each with base_url and primary_model and, if wanted, api_key, secondary_model and "
        f"fast_model, under names of small letters other than {', '.join(RESERVED_PROVIDERS)}"
    )
    return _table(expected, read_one, secret=True)


def ai_limits() -> ValueKind[tuple[AiLimit, ...]]:
    """`{"provider:model": {rpm, tpm, max_inflight}}`."""

    def read_one(name: str, given: Mapping[str, Any]) -> AiLimit:
        words = _words(given, *LIMIT_NAMES)
        return AiLimit(*_target(name), *(limit().read(words[one] or "0") for one in LIMIT_NAMES))

    return _table(
        "a table of limits such as openai:gpt-4.1 with rpm, tpm and max_inflight, 0 for unknown", read_one
    )


def limit() -> ValueKind[int]:
    return setting_kinds.integer(0, 10**12)


def ai_prices() -> ValueKind[tuple[AiPrice, ...]]:
    """`{"provider:model": {input, output}}`."""

    def read_one(name: str, given: Mapping[str, Any]) -> AiPrice:
        words = _words(given, "input", "output")
        dollars = setting_kinds.number(0, 1e9)
        return AiPrice(*_target(name), dollars.read(words["input"]), dollars.read(words["output"]))

    return _table("a table of prices such as vllm:qwen with input and output", read_one)


def _table(
    expected: str, read_one: Callable[[str, Mapping[str, Any]], T], *, secret: bool = False
) -> ValueKind[tuple[T, ...]]:
    def read(value: str) -> tuple[T, ...]:
        if not value:
            return ()
        data = json.loads(value, object_pairs_hook=_unique)  # JSONDecodeError is a ValueError
        if not isinstance(data, dict) or not all(isinstance(one, dict) for one in data.values()):
            raise ValueError("not a table of tables")
        return tuple(read_one(name, given) for name, given in data.items())

    def write(rows: tuple[T, ...]) -> str:
        return "; ".join(str(row) for row in rows)

    return ValueKind(expected, read, write, secret=secret, table=True)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name given twice")
    return found


def _words(given: Mapping[str, Any], *names: str) -> dict[str, str]:
    """The values as texts, empty where missing. Any other name is a mistake."""
    if not set(given) <= set(names):
        raise ValueError("an unknown name")
    if any(isinstance(value, bool | list | dict) for value in given.values()):
        raise ValueError("not a single value")
    return {name: str(value) if (value := given.get(name)) is not None else "" for name in names}


def _target(name: str) -> tuple[str, str]:
    """`provider:model`. The model's own name may have colons, as Ollama's do."""
    left, _, right = name.partition(":")
    found = provider().read(left)
    if not found:
        raise ValueError("no provider")
    return found, model().read(right)


def _is_key(value: str) -> bool:
    return value.isascii() and value.isprintable() and " " not in value
