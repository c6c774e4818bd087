"""Writes extracted values as the row of a table: a column for each value, a list as JSON text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from quire.extraction.field_schema import SchemaLeaf, SchemaNode, SchemaRecord

_SEPARATOR = "."


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """A column: its name, the place of its values, and their JSON type (`string` for lists and mixed types)."""

    name: str
    path: tuple[str, ...]
    kind: str


def value_columns(root: SchemaRecord) -> list[ValueColumn]:
    """The columns of a schema, in its order; the names of nested fields are joined by points."""
    return list(_columns(root, ()))


def _columns(node: SchemaNode, path: tuple[str, ...]) -> Iterator[ValueColumn]:
    if isinstance(node, SchemaRecord):
        for name, inner in node.fields.items():
            yield from _columns(inner, (*path, name))
        return
    single = isinstance(node, SchemaLeaf) and len(node.kinds) == 1 and not node.choices
    kind = node.kinds[0] if isinstance(node, SchemaLeaf) and single else "string"
    yield ValueColumn(_SEPARATOR.join(path), path, kind)


def cell(values: Any, column: ValueColumn) -> Any:
    """The value of one column: a scalar, or JSON text for a list and for what is no text in a text column."""
    for step in column.path:
        if not isinstance(values, dict):
            return None
        values = values.get(step)
    if isinstance(values, list | dict):
        return json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    if column.kind == "string" and values is not None and not isinstance(values, str):
        return json.dumps(values)
    return values
