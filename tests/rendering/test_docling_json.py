"""Elements as a DoclingDocument, checked with the schema that docling-core generates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from quire.domain.element import CellSpan, Element, ElementKind, PageElements, TableGrid
from quire.rendering.docling_json import docling_dict, document_origin

SCHEMA = json.loads(Path(__file__).with_name("docling_document.schema.json").read_text())
BOX = (10.0, 20.0, 110.5, 40.0)
GRID = TableGrid((("Name", ""), ("a", "1")), 1, (CellSpan(0, 0, 1, 2),))
PAGE = PageElements(
    1,
    (
        Element("e1", ElementKind.HEADING, "Fees", BOX, level=2),
        Element("e2", ElementKind.LIST_ITEM, "one", BOX, marker="1."),
        Element("e3", ElementKind.LIST_ITEM, "inner", BOX, marker="-", depth=1, parent="e2"),
        Element("e4", ElementKind.LIST_ITEM, "two", BOX, marker="2."),
        Element("e5", ElementKind.TABLE, "", BOX, table=GRID),
        Element("e6", ElementKind.CAPTION, "Table 1", BOX, parent="e5"),
        Element("e7", ElementKind.FIGURE, "A ship.", BOX),
        Element("e8", ElementKind.CODE, "x = 1", language="python"),
        Element("e9", ElementKind.FORMULA, "E", latex="E = mc^2"),
        Element("e10", ElementKind.RUNNING_HEADER, "Report", BOX, repeated=True),
    ),
    "mupdf",
    595.0,
    842.0,
)


def problems(document: dict[str, Any]) -> list[str]:
    return [one.message for one in Draft202012Validator(SCHEMA).iter_errors(document)]


def references_hold(document: dict[str, Any]) -> None:
    """Every item is where its reference says, and its parent lists it once among its children."""
    items = {
        one["self_ref"]: one for name in ("groups", "texts", "tables", "pictures") for one in document[name]
    }
    assert [*items] == [
        f"#/{name}/{place}"
        for name in ("groups", "texts", "tables", "pictures")
        for place in range(len(document[name]))
    ]
    holders = {**items, "#/body": document["body"], "#/furniture": document["furniture"]}
    held = [child["$ref"] for holder in holders.values() for child in holder["children"]]
    assert sorted(held) == sorted(items)
    for ref, item in items.items():
        assert {"$ref": ref} in holders[item["parent"]["$ref"]]["children"]


def test_every_kind_of_element_has_its_place_in_a_docling_document() -> None:
    found = docling_dict("fees", document_origin("application/pdf", "ab" * 32, "fees.pdf"), [(PAGE, "")])
    assert problems(found) == []
    references_hold(found)
    labels = {one["text"]: one["label"] for one in found["texts"]}
    assert labels == {
        "Fees": "section_header",
        "one": "list_item",
        "inner": "list_item",
        "two": "list_item",
        "Table 1": "caption",
        "x = 1": "code",
        "E = mc^2": "formula",
        "Report": "page_header",
    }
    assert [one["parent"]["$ref"] for one in found["groups"]] == ["#/body", "#/texts/1"]
    (table,) = found["tables"]
    assert (table["data"]["num_rows"], table["data"]["num_cols"]) == (2, 2)
    assert [(one["text"], one["col_span"]) for one in table["data"]["table_cells"]] == [
        ("Name", 2),
        ("a", 1),
        ("1", 1),
    ]
    assert table["captions"] == [{"$ref": "#/texts/4"}]
    assert found["pictures"][0]["annotations"][0]["text"] == "A ship."
    assert found["texts"][0]["prov"] == [
        {
            "page_no": 1,
            "bbox": {"l": 10.0, "t": 20.0, "r": 110.5, "b": 40.0, "coord_origin": "TOPLEFT"},
            "charspan": [0, 4],
        }
    ]
    assert found["pages"] == {"1": {"size": {"width": 595.0, "height": 842.0}, "page_no": 1}}


def test_a_page_that_could_not_be_read_has_its_note() -> None:
    found = docling_dict("x", None, [(PageElements(1), "*Page 1 could not be read.*"), (PAGE, "")])
    assert problems(found) == []
    references_hold(found)
    assert found["texts"][0]["text"] == "*Page 1 could not be read.*"
    assert found["texts"][0]["prov"] == []
    assert "origin" not in found


@pytest.mark.parametrize("mime", [None, "image/heic", "application/x-elf"])
def test_an_origin_that_docling_would_refuse_is_left_out(mime: str | None) -> None:
    assert document_origin(mime, "ab" * 32, "a.bin") is None


ELEMENTS = st.builds(
    Element,
    id=st.just(""),
    kind=st.sampled_from(ElementKind),
    text=st.text(max_size=5),
    box=st.sampled_from([None, BOX]),
    level=st.integers(0, 9),
    depth=st.integers(0, 3),
    marker=st.sampled_from(["", "-", "3.", "a)"]),
    table=st.sampled_from([None, GRID]),
    language=st.sampled_from(["", "python", "klingon"]),
)


@settings(max_examples=60)
@given(st.lists(st.lists(ELEMENTS, max_size=6), max_size=3))
def test_any_elements_give_a_valid_document_with_references_that_hold(pages: list[list[Element]]) -> None:
    numbered = [
        PageElements(
            number,
            tuple(
                Element(**{**_fields(one), "id": f"p{number}-e{place}"}) for place, one in enumerate(listed)
            ),
        )
        for number, listed in enumerate(pages, 1)
    ]
    found = docling_dict("any", None, [(page, "") for page in numbered])
    assert problems(found) == []
    references_hold(found)


def _fields(element: Element) -> dict[str, Any]:
    return {name: getattr(element, name) for name in Element.__slots__}
