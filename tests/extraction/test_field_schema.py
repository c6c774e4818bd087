"""The caller's schema as a tree, and the schemas that are made from it."""

from __future__ import annotations

from typing import Any

import pytest

from quire.errors import RequestError
from quire.extraction.field_schema import (
    SchemaLeaf,
    SchemaList,
    SchemaRecord,
    answer_schema,
    empty_values,
    read_schema,
    result_schema,
)
from quire.extraction.model_answer import AnswerProblem, parse_answer, read_claims
from quire.extraction.schema_validation import check_schema, schema_problems

SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {"money": {"type": ["number", "null"], "minimum": 0}},
    "properties": {
        "kind": {"enum": ["a", "b", None]},
        "total": {"$ref": "#/$defs/money"},
        "rows": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "properties": {"code": {"type": "string", "pattern": "^X"}}},
        },
        "either": {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "integer"}]},
    },
}


def test_a_schema_is_read_as_records_lists_and_leaves() -> None:
    root = read_schema(SCHEMA)
    assert isinstance(root.fields["rows"], SchemaList)
    assert isinstance(root.fields["rows"].items, SchemaRecord)
    kind, total, either = (root.fields[name] for name in ("kind", "total", "either"))
    assert isinstance(kind, SchemaLeaf)
    assert kind.choices == ("a", "b")
    assert isinstance(total, SchemaLeaf)
    assert total.kinds == ("number",)
    assert isinstance(either, SchemaLeaf)
    assert either.kinds == ("string", "integer")
    assert empty_values(root) == {"kind": None, "total": None, "rows": [], "either": None}


def test_the_answer_has_a_quotation_and_a_page_for_each_value_and_no_rules() -> None:
    shape = answer_schema(read_schema(SCHEMA))
    assert shape["required"] == ["kind", "total", "rows", "either"]
    code = shape["properties"]["rows"]["items"]["properties"]["code"]
    assert list(code["properties"]) == ["value", "quote", "page"]
    assert code["properties"]["value"] == {"type": ["string", "null"]}
    assert "minItems" not in shape["properties"]["rows"]


def test_values_are_validated_with_the_callers_rules_and_null() -> None:
    import json

    schema = json.dumps(result_schema(read_schema(SCHEMA)))
    good = {"kind": None, "total": 3.5, "rows": [{"code": "X1"}, {"code": None}], "either": 4}
    assert schema_problems(schema, json.dumps(good)) == []
    bad = {"kind": "c", "total": -1, "rows": [{"code": "Y"}], "either": None}
    assert {tuple(one.path) for one in schema_problems(schema, json.dumps(bad))} == {
        ("kind",),
        ("total",),
        ("rows", 0, "code"),
    }
    assert [one.path for one in schema_problems(schema, json.dumps({**good, "rows": []}))] == [["rows"]]


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        found = {"anyOf": [found]}
    return found


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "not JSON"),
        (17, "an object"),
        ({"type": "string"}, "outermost"),
        ({"type": "object"}, "needs properties"),
        ({"properties": {"a": {"type": "array"}}}, "/a: an array needs items"),
        ({"properties": {"a": {"type": "money"}}}, "/a: expected a type"),
        ({"properties": {"a": {"allOf": []}}}, "allOf is not supported"),
        ({"properties": {"a": {"$ref": "https://example.org/x"}}}, "inside the schema"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "does not exist"),
        ({"$defs": {"b": {"$ref": "#/$defs/b"}}, "properties": {"a": {"$ref": "#/$defs/b"}}}, "itself"),
        ({"properties": {"a": 3}}, "/a: expected a schema"),
        ({"properties": {"a": {"anyOf": [True]}}}, "/a: expected a schema"),
        ({"properties": {"a": {"enum": 5}}}, "/a: enum is a list"),
        ("[" * 100_000, "at most 12 levels"),
        ({"properties": {"a": nested(800)}}, "at most 12 levels"),
        ({"properties": {"a": nested(20_000)}}, "at most 12 levels"),
        ({"properties": {str(n): {"type": "string"} for n in range(501)}}, "at most 500"),
        ({"properties": {"a": {"description": "x" * 70_000}}}, "at most 64 KB"),
    ],
)
def test_a_schema_that_can_not_be_used_is_refused_in_words(schema: Any, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        read_schema(schema)


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(RequestError, match="schema: "):
        check_schema('{"type": "object", "properties": {"a": {"minimum": "low"}}}')


def test_an_answer_is_read_in_the_types_of_the_schema() -> None:
    given = {
        "kind": {"value": "a", "quote": "A", "page": 1},
        "total": {"value": "1,234.50", "quote": "x", "page": "2"},
        "rows": [{"code": "bare"}, 7],
        "either": {"other": 1},
    }
    claims, problems = read_claims(read_schema(SCHEMA), given)
    assert isinstance(claims, dict)
    assert (claims["kind"].value, claims["kind"].page) == ("a", 1)
    assert (claims["total"].value, claims["total"].page) == (1234.5, None)
    assert [one["code"].value for one in claims["rows"]] == ["bare", None]
    assert claims["either"].malformed
    assert {one.path for one in problems} == {"/rows/1", "/either"}
    assert AnswerProblem("/rows/1", "expected an object") in problems


def test_an_answer_in_a_fence_is_read_and_half_an_answer_is_not() -> None:
    assert parse_answer('```json\n{"a": 1}\n```') == {"a": 1}
    assert parse_answer('{"a": [1, 2') is None
    assert parse_answer("[1]") is None
