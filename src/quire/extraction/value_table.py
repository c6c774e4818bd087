"""Writes extracted values as the row of a table: a column for each value, a list as JSON text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
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


def value_columns(root: SchemaRecord, taken: Iterable[str] = ()) -> list[ValueColumn]:
    """The columns of a schema, in its order; the names of nested fields are joined by points.

    A name that another column or `taken` has, in any case, gets `values.` before it: many readers of tables refuse, or
    mix up, columns of the same name.
    """
    names = {name.casefold() for name in taken}
    found: list[ValueColumn] = []
    for path, kind in _columns(root, ()):
        name = _SEPARATOR.join(path)
        while name.casefold() in names:
            name = f"values{_SEPARATOR}{name}"
        names.add(name.casefold())
        found.append(ValueColumn(name, path, kind))
    return found


def _columns(node: SchemaNode, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(node, SchemaRecord):
        for name, inner in node.fields.items():
            yield from _columns(inner, (*path, name))
        return
    single = isinstance(node, SchemaLeaf) and len(node.kinds) == 1 and not node.choices
    yield path, node.kinds[0] if isinstance(node, SchemaLeaf) and single else "string"


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
