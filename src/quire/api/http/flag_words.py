"""The words that say yes and no in forms, headers and query strings."""

from __future__ import annotations

from typing import Any

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


def is_true(value: Any) -> bool:
    """Whether the value is True or a word for it."""
    return value is True or (isinstance(value, str) and value.strip().lower() in _TRUE)


def is_false(value: Any) -> bool:
    """Whether the value is False or a word for it."""
    return value is False or (isinstance(value, str) and value.strip().lower() in _FALSE)
