"""Which documents of a source a plan takes, by patterns, times and keys, and how it is cut into shards."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from quire.errors import ObjectsError


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """Which documents of the source are wanted. `excluded` is a prefix: the target, where it is inside the source."""

    pattern: str = ""
    since: float = 0.0
    keys: frozenset[str] | None = None
    excluded: str = ""

    def matches(self, key: str) -> bool:
        """Whether a key is wanted, whatever its version."""
        if self.excluded and key.startswith(self.excluded):
            return False
        if self.keys is not None and key not in self.keys:
            return False
        return not self.pattern or _matcher(self.pattern).match(key) is not None


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """`shard_pages` is an estimate by size. `limit` is for a first try: the other documents are left to later runs."""

    shard_pages: int = 1_000
    limit: int | None = None
    dedupe: bool = True
    wanted: DocumentFilter = field(default_factory=DocumentFilter)
    row_options: dict[str, str] = field(default_factory=dict)


def split_pattern(source: str) -> tuple[str, str]:
    """Splits `folder/**/*.pdf` into the place to list and the pattern of keys below it."""
    segments = source.split("/")
    for place, segment in enumerate(segments):
        if any(mark in segment for mark in "*?["):
            return "/".join(segments[:place]) or ("/" if source.startswith("/") else "."), "/".join(
                segments[place:]
            )
    return source, ""


def keys_from(lines: Iterable[str]) -> frozenset[str]:
    """Returns the keys of a manifest: one on each line, bare or as JSON with a field `key`. Raises ObjectsError."""
    found: set[str] = set()
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        if text.startswith("{"):
            try:
                text = str(msgspec.json.decode(text.encode())["key"])
            except (msgspec.DecodeError, KeyError, TypeError) as error:
                raise ObjectsError(
                    f"Line {number} of the manifest is no JSON object with a `key`.", retryable=False
                ) from error
        found.add(text)
    return frozenset(found)


def _matcher(pattern: str) -> re.Pattern[str]:
    found = _MATCHERS.get(pattern)
    if found is None:
        found = _MATCHERS[pattern] = re.compile(_expression(pattern))
    return found


_MATCHERS: dict[str, re.Pattern[str]] = {}


def _expression(pattern: str) -> str:
    """`**/` is any number of folders; `*` and `?` stay within one."""
    pieces: list[str] = []
    for segment in pattern.split("/"):
        if segment == "**":
            pieces.append("(?:[^/]+/)*")
            continue
        pieces.append("".join(_translated(one) for one in _TOKENS.findall(segment)) + "/")
    text = "".join(pieces)
    return (text[:-1] if text.endswith("/") else text + "[^/]*") + r"\Z"


_TOKENS = re.compile(r"\[[^\]]+\]|.", re.DOTALL)


def _translated(token: str) -> str:
    if token in _WILD:
        return _WILD[token]
    if len(token) > 1:
        return (
            "[" + ("^" if token[1] == "!" else "") + token[1:-1].removeprefix("!").replace("\\", "\\\\") + "]"
        )
    return re.escape(token)


_WILD = {"*": "[^/]*", "?": "[^/]"}
