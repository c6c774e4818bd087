"""Values as rows of a table."""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from quire.extraction.field_schema import read_schema
from quire.extraction.value_table import cell, value_columns
from quire.pipeline.extraction.extraction_question import ExtractionRequest
from quire.pipeline.extraction.extraction_run import Extraction
from quire.pipeline.extraction.schema_table import SchemaTable

SCHEMA = {
    "type": "object",
    "properties": {
        "total": {"type": "number"},
        "account": {"type": "number"},
        "count": {"type": "integer"},
        "seller": {"type": "object", "properties": {"name": {"type": "string"}, "vat": {"type": "boolean"}}},
        "lines": {"type": "array", "items": {"type": "string"}},
        "mixed": {"type": ["string", "integer"]},
    },
}
VALUES = {
    "total": 2.5,
    "account": (1 << 53) + 1,
    "count": 1 << 70,
    "seller": {"name": "=A1", "vat": True},
    "lines": ["é", "b"],
    "mixed": 7,
}


def test_nested_values_and_lists_have_columns() -> None:
    columns = value_columns(read_schema(SCHEMA))
    assert [(one.name, one.kind) for one in columns] == [
        ("total", "number"),
        ("account", "number"),
        ("count", "integer"),
        ("seller.name", "string"),
        ("seller.vat", "boolean"),
        ("lines", "string"),
        ("mixed", "string"),
    ]
    assert [cell(VALUES, one) for one in columns] == [
        *(2.5, (1 << 53) + 1, 1 << 70, "=A1", True),
        *('["é","b"]', "7"),
    ]
    assert [cell(None, one) for one in columns] == [None] * 7


def test_no_two_columns_have_the_same_name() -> None:
    leaf = {"type": "string"}
    given = {"Title": leaf, "total": leaf, "a": {"type": "object", "properties": {"b": leaf}}, "a.b": leaf}
    columns = value_columns(read_schema({"type": "object", "properties": given}), ["title"])
    assert [one.name for one in columns] == ["values.Title", "total", "a.b", "values.a.b"]
    values = {"Title": "T", "total": "t", "a": {"b": "inner"}, "a.b": "outer"}
    assert [cell(values, one) for one in columns] == ["T", "t", "inner", "outer"]


async def rows() -> AsyncGenerator[dict[str, Any], None]:
    head = {"document_id": "1", "filename": "a.pdf", "title": None, "status": "extracted", "error": None}
    yield {**head, "complete": True, "valid": False, "flags": ["/total: page"], "values": VALUES}
    yield {**head, "document_id": "2", "status": "failed", "error": "no"}


async def test_a_spreadsheet_gets_no_formula_and_parquet_has_types() -> None:
    table = SchemaTable(cast(Extraction, None), ExtractionRequest.of(SCHEMA))
    written = b"".join([piece async for piece in table.written("csv", rows())]).decode().splitlines()
    assert written[1] == (
        "1,a.pdf,,extracted,,true,false,/total: page,2.5,9007199254740993,1180591620717411303424,"
        """'=A1,true,"[""é"",""b""]",7"""
    )
    assert written[2] == "2,a.pdf,,failed,no,,,,,,,,,,"
    pytest.importorskip("arro3.io")
    from arro3.io import read_parquet

    content = b"".join([piece async for piece in table.written("parquet", rows())])
    found = read_parquet(io.BytesIO(content)).read_all()
    assert found["total"].to_pylist() == [2.5, None]
    assert found["seller.name"].to_pylist() == ["=A1", None]
    assert found["account"].to_pylist() == ["9007199254740993", None], "no digit is lost"
    assert found["count"].to_pylist() == [str(1 << 70), None]
