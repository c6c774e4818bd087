"""Reads a model's answer as claims in the shape of the schema, and says what is wrong with it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quire.extraction.citation_check import ValueClaim
from quire.extraction.field_schema import SchemaLeaf, SchemaList, SchemaNode, SchemaRecord, pointer
from quire.extraction.normal_forms import numbers

ClaimTree = ValueClaim | list[Any] | dict[str, Any]
"""Claims in the shape of the schema: a claim, a list of trees, or trees by name."""

_MOST_ITEMS = 5_000
_QUOTE_CHARS = 1_000
_ANSWER_FIELDS = frozenset({"value", "quote", "page"})


@dataclass(frozen=True, slots=True)
class AnswerProblem:
    """What is wrong with the value at a JSON pointer."""

    path: str
    message: str


def parse_answer(text: str) -> dict[str, Any] | None:
    """The JSON object of an answer; a code fence around it is accepted. None if there is no whole object."""
    raw = text.strip()
    if raw.startswith("```"):
        raw = raw.partition("\n")[2].rpartition("```")[0]
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_claims(node: SchemaNode, given: Any) -> tuple[ClaimTree, list[AnswerProblem]]:
    """The claims of an answer. What has a wrong shape or type becomes a claim of null and a problem."""
    problems: list[AnswerProblem] = []
    return _tree(node, given, (), problems), problems


def _tree(
    node: SchemaNode, given: Any, path: tuple[str | int, ...], problems: list[AnswerProblem]
) -> ClaimTree:
    if isinstance(node, SchemaRecord):
        if given is not None and not isinstance(given, Mapping):
            problems.append(AnswerProblem(pointer(path), "expected an object"))
        fields = given if isinstance(given, Mapping) else {}
        return {
            name: _tree(one, fields.get(name), (*path, name), problems) for name, one in node.fields.items()
        }
    if isinstance(node, SchemaList):
        if given is not None and not isinstance(given, list):
            problems.append(AnswerProblem(pointer(path), "expected a list"))
        items = given[:_MOST_ITEMS] if isinstance(given, list) else []
        return [_tree(node.items, one, (*path, place), problems) for place, one in enumerate(items)]
    return _claim(node, given, path, problems)


def _claim(
    leaf: SchemaLeaf, given: Any, path: tuple[str | int, ...], problems: list[AnswerProblem]
) -> ValueClaim:
    quote: Any = ""
    page: Any = None
    value = given
    if isinstance(given, Mapping):
        if not _ANSWER_FIELDS.issuperset(given):
            problems.append(AnswerProblem(pointer(path), "expected an object of value, quote and page"))
            return ValueClaim(None, malformed=True)
        value, quote, page = given.get("value"), given.get("quote"), given.get("page")
    fitting = _fitting(leaf, value)
    if value is not None and fitting is None:
        problems.append(AnswerProblem(pointer(path), f"the value must be of type {' or '.join(leaf.kinds)}"))
    return ValueClaim(
        fitting,
        quote[:_QUOTE_CHARS] if isinstance(quote, str) else "",
        page if isinstance(page, int) and not isinstance(page, bool) else None,
        malformed=value is not None and fitting is None,
    )


def _fitting(leaf: SchemaLeaf, value: Any) -> Any:
    """The value in a type that the leaf has; None where that would be a guess."""
    kinds = leaf.kinds
    if isinstance(value, bool):
        return value if "boolean" in kinds else None
    if isinstance(value, str):
        return (value.strip() or None) if "string" in kinds else _number(value, kinds)
    if isinstance(value, int) and ("integer" in kinds or "number" in kinds):
        return value
    if isinstance(value, float) and math.isfinite(value):
        if "number" in kinds:
            return value
        if "integer" in kinds and value.is_integer():
            return int(value)
    return str(value) if isinstance(value, int | float) and "string" in kinds else None


def _number(text: str, kinds: tuple[str, ...]) -> int | float | None:
    """The number that a text says, where it can mean only one."""
    found = [one.meanings for one in numbers(text)]
    if len(found) != 1 or len(found[0]) != 1 or not {"number", "integer"}.intersection(kinds):
        return None
    (meaning,) = found[0]
    number = float(str(meaning))
    if number.is_integer():
        return int(number)
    return number if "number" in kinds else None
