"""Reads the caller's JSON Schema as a tree of records, lists and leaves, and writes the schema of a model's answer.

Supported: objects with properties, arrays with items, scalars, enum and const, null as an alternative, and references
inside the schema. Every leaf may be null in a result: null means that the document does not say it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quire.errors import RequestError

MOST_BYTES = 64 << 10
MOST_LEAVES = 500
_MOST_DEPTH = 12
_SCALARS = ("string", "number", "integer", "boolean")
_UNSUPPORTED = ("allOf", "not", "if", "patternProperties", "prefixItems", "dependentSchemas", "$dynamicRef")
_LEAF_RULES = (
    *("type", "enum", "const", "description", "title", "format", "pattern", "minimum", "maximum"),
    *("exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
)
_LIST_RULES = ("minItems", "maxItems", "uniqueItems")
_NULL = {"type": "null"}
_TOO_DEEP = f"schema: at most {_MOST_DEPTH} levels are allowed."


@dataclass(frozen=True, slots=True)
class SchemaLeaf:
    """A value that a document may say. `kinds` are its JSON types without null; `choices` those of an enum."""

    kinds: tuple[str, ...]
    rules: dict[str, Any]
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaList:
    items: SchemaNode
    rules: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SchemaRecord:
    fields: dict[str, SchemaNode]


SchemaNode = SchemaLeaf | SchemaList | SchemaRecord


def read_schema(given: Any) -> SchemaRecord:
    """The tree of a schema. Raises RequestError that names the place where it is wrong or not supported."""
    if isinstance(given, str | bytes):
        try:
            given = json.loads(given)
        except RecursionError as error:
            raise RequestError(_TOO_DEEP) from error
        except ValueError as error:
            raise RequestError("schema: expected a JSON Schema, but this is not JSON.") from error
    if not isinstance(given, Mapping):
        raise RequestError("schema: expected a JSON Schema: an object.")
    try:
        size = len(json.dumps(given))
    except RecursionError as error:
        raise RequestError(_TOO_DEEP) from error
    except (TypeError, ValueError) as error:
        raise RequestError("schema: expected a JSON Schema.") from error
    if size > MOST_BYTES:
        raise RequestError(f"schema: at most {MOST_BYTES >> 10} KB are allowed.")
    try:
        root = _SchemaReader(given).node(given, "", ())
    except RecursionError as error:  # alternatives and references add no step to the path
        raise RequestError(_TOO_DEEP) from error
    if not isinstance(root, SchemaRecord):
        raise RequestError('schema: the outermost type must be "object" with properties.')
    return root


class _SchemaReader:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._leaves = 0

    def node(self, given: Any, path: str, refs: tuple[str, ...]) -> SchemaNode:
        where = path or "/"
        if not isinstance(given, Mapping):
            raise RequestError(f"schema: {where}: expected a schema object.")
        if path.count("/") > _MOST_DEPTH:
            raise RequestError(f"schema: {where}: at most {_MOST_DEPTH} levels are allowed.")
        unsupported = next((word for word in _UNSUPPORTED if word in given), None)
        if unsupported:
            raise RequestError(f"schema: {where}: {unsupported} is not supported.")
        if "$ref" in given:
            return self._referred(given, path, refs)
        if "anyOf" in given or "oneOf" in given:
            return self._alternatives(given, path, refs)
        kinds = _kinds(given, where)
        if "object" in kinds or "properties" in given:
            return self._record(given, path, refs)
        if "array" in kinds or "items" in given:
            if "items" not in given:
                raise RequestError(f"schema: {where}: an array needs items.")
            rules = {word: given[word] for word in _LIST_RULES if word in given}
            return SchemaList(self.node(given["items"], f"{path}/items", refs), rules)
        return self._leaf(given, kinds, where)

    def _record(self, given: Mapping[str, Any], path: str, refs: tuple[str, ...]) -> SchemaRecord:
        properties = given.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            raise RequestError(f"schema: {path or '/'}: an object needs properties.")
        return SchemaRecord(
            {
                str(name): self.node(one, f"{path}/{_step(str(name))}", refs)
                for name, one in properties.items()
            }
        )

    def _leaf(self, given: Mapping[str, Any], kinds: tuple[str, ...], where: str) -> SchemaLeaf:
        self._leaves += 1
        if self._leaves > MOST_LEAVES:
            raise RequestError(f"schema: at most {MOST_LEAVES} values are allowed.")
        rules = {word: given[word] for word in _LEAF_RULES if word in given}
        choices = given.get("enum", [given["const"]] if "const" in given else [])
        if not isinstance(choices, list):
            raise RequestError(f"schema: {where}: enum is a list.")
        return SchemaLeaf(kinds or _SCALARS, rules, tuple(one for one in choices if one is not None))

    def _referred(self, given: Mapping[str, Any], path: str, refs: tuple[str, ...]) -> SchemaNode:
        ref = given["$ref"]
        if not isinstance(ref, str) or not ref.startswith("#/"):
            raise RequestError(
                f"schema: {path or '/'}: only references inside the schema (#/…) are supported."
            )
        if ref in refs:
            raise RequestError(f"schema: {path or '/'}: {ref} refers to itself, which is not supported.")
        found: Any = self._root
        for step in ref[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                raise RequestError(f"schema: {path or '/'}: {ref} does not exist.")
            found = found[name]
        return self.node(found, path, (*refs, ref))

    def _alternatives(self, given: Mapping[str, Any], path: str, refs: tuple[str, ...]) -> SchemaNode:
        """One alternative beside null, or several scalars, which become one leaf of all their types."""
        listed = given.get("anyOf") or given.get("oneOf")
        if not isinstance(listed, list):
            raise RequestError(f"schema: {path or '/'}: anyOf and oneOf are lists.")
        nodes = [self.node(one, path, refs) for one in listed if one != _NULL]
        if len(nodes) == 1:
            return nodes[0]
        leaves = [one for one in nodes if isinstance(one, SchemaLeaf)]
        if not leaves or len(leaves) < len(nodes) or any(one.choices for one in leaves):
            raise RequestError(f"schema: {path or '/'}: alternatives other than null are not supported.")
        kinds = tuple(dict.fromkeys(kind for one in leaves for kind in one.kinds))
        return SchemaLeaf(kinds, {"anyOf": [one.rules for one in leaves]})


def _kinds(given: Mapping[str, Any], where: str) -> tuple[str, ...]:
    found = given.get("type", [])
    listed = [found] if isinstance(found, str) else found
    known = (*_SCALARS, "null", "object", "array")
    if not isinstance(listed, list) or any(one not in known for one in listed):
        raise RequestError(f"schema: {where}: expected a type of {', '.join(known)}.")
    return tuple(one for one in listed if one != "null")


def _step(name: str) -> str:
    """A name as one step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def pointer(path: tuple[str | int, ...]) -> str:
    """The JSON pointer of a path."""
    return "".join(f"/{_step(str(step))}" for step in path)


def answer_schema(node: SchemaNode) -> dict[str, Any]:
    """The schema of a model's answer: in place of each leaf its value, the words it was read from, and their page.

    It has only what strict structured output of every provider takes: no rules but types and enums.
    """
    if isinstance(node, SchemaRecord):
        fields = {name: answer_schema(one) for name, one in node.fields.items()}
        return _object(fields)
    if isinstance(node, SchemaList):
        return {"type": "array", "items": answer_schema(node.items)}
    value: dict[str, Any] = {"type": [*node.kinds, "null"]}
    if node.choices:
        value["enum"] = [*node.choices, None]
    if isinstance(node.rules.get("description"), str):
        value["description"] = node.rules["description"]
    return _object(
        {"value": value, "quote": {"type": ["string", "null"]}, "page": {"type": ["integer", "null"]}}
    )


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(fields),
        "properties": fields,
    }


def result_schema(node: SchemaNode) -> dict[str, Any]:
    """The schema that the values of a result must satisfy: the caller's rules, with null allowed for every leaf."""
    if isinstance(node, SchemaRecord):
        return _object({name: result_schema(one) for name, one in node.fields.items()})
    if isinstance(node, SchemaList):
        return {"type": "array", "items": result_schema(node.items), **node.rules}
    return {"anyOf": [_NULL, node.rules]}


def empty_values(node: SchemaNode) -> Any:
    """What a result has where nothing was found: null for leaves, empty lists."""
    if isinstance(node, SchemaRecord):
        return {name: empty_values(one) for name, one in node.fields.items()}
    return [] if isinstance(node, SchemaList) else None
