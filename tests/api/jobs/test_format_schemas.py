"""The published JSON Schemas: every format that they describe is valid against them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pymupdf
import pytest
from jsonschema import Draft202012Validator, ValidationError

from quire.api.jobs.format_routes import format_schemas
from tests.support.environment import ROOT
from tests.support.office_files import docx, p, run
from tests.support.serving import Client
from tests.support.submitted_documents import converted

Pdf = Callable[..., bytes]


def strict(schema: Any) -> Any:
    """The same schema that takes no field beyond those it names."""
    if isinstance(schema, dict):
        closed = {"additionalProperties": False} if "properties" in schema else {}
        return {name: strict(value) for name, value in schema.items()} | closed
    return [strict(one) for one in schema] if isinstance(schema, list) else schema


async def schema_of(client: Client, name: str) -> Draft202012Validator:
    answer = await client.get(f"/formats/{name}.schema.json")
    assert answer.status == 200
    Draft202012Validator.check_schema(answer.json)
    return Draft202012Validator(strict(answer.json))


@pytest.mark.parametrize(
    "name", ["tables.pdf", "photo-of-text.png", "notes.md", "odd-rotated.pdf", "pictures.pdf"]
)
async def test_elements_and_chunks_of_a_sample_are_valid_when_read(client: Client, name: str) -> None:
    job_id = await converted(client, (ROOT / "samples" / name).read_bytes())
    elements = await client.get(f"/jobs/{job_id}/elements?include=lines,words")
    (await schema_of(client, "elements-1")).validate(elements.json)
    assert any(page["elements"] for page in elements.json["pages"])
    chunks = await client.get(f"/jobs/{job_id}/chunks")
    (await schema_of(client, "chunks-1")).validate(chunks.json)
    assert chunks.json["chunks"]


def detailed_pdf() -> bytes:
    """Has a link, a bookmark, a form field, an attached file and hidden text."""
    with pymupdf.open() as made:
        page = made.new_page()
        page.insert_text((72, 72), "Harbour fees")
        page.insert_text((72, 100), "unseen", render_mode=3)
        page.insert_link(
            {"kind": pymupdf.LINK_URI, "from": pymupdf.Rect(72, 60, 150, 80), "uri": "https://a.example"}
        )
        field = pymupdf.Widget()
        field.field_name, field.field_value = "berth", "twelve"
        field.field_type, field.rect = pymupdf.PDF_WIDGET_TYPE_TEXT, pymupdf.Rect(72, 200, 300, 220)
        page.add_widget(field)
        made.set_toc([[1, "Fees", 1]])
        made.embfile_add("prices.txt", b"twelve", desc="of the harbour")
        return bytes(made.tobytes())


async def test_details_of_a_file_are_valid_when_asked_for(client: Client) -> None:
    job_id = await converted(client, detailed_pdf())
    names = ("links", "outline", "form_fields", "embedded_files", "hidden_text")
    found = (await client.get(f"/jobs/{job_id}/elements?include={','.join(names)}")).json
    (await schema_of(client, "elements-1")).validate(found)
    assert all(found["details"][name] for name in names)


async def test_changes_of_a_document_are_valid_when_asked_for(client: Client) -> None:
    gone = '<w:del w:id="1" w:author="Ann"><w:r><w:delText>old</w:delText></w:r></w:del>'
    body = p(runs=run("new") + gone + run(" unseen", "<w:vanish/>"))
    job_id = await converted(client, docx(body))
    found = (await client.get(f"/jobs/{job_id}/elements?include=changes,hidden_text")).json
    (await schema_of(client, "elements-1")).validate(found)
    assert found["details"]["changes"] == [
        {"page": 1, "kind": "deletion", "text": "old", "author": "Ann", "date": None}
    ]
    assert [one["text"] for one in found["details"]["hidden_text"]] == ["unseen"]
    assert [one["text"] for one in found["pages"][0]["elements"]] == ["new"]


async def test_values_of_other_kinds_are_refused_by_the_schema(client: Client, make_pdf: Pdf) -> None:
    job_id = await converted(client, make_pdf("One line."))
    found = (await client.get(f"/jobs/{job_id}/elements")).json
    validator = await schema_of(client, "elements-1")
    validator.validate(found)
    for name, value in (("kind", "poem"), ("box", [1, 2, 3]), ("confidence", 1.5), ("table", [])):
        wrong = json.loads(json.dumps(found))
        wrong["pages"][0]["elements"][0][name] = value
        with pytest.raises(ValidationError):
            validator.validate(wrong)


async def test_unknown_schema_is_404_and_names_those_there_are(client: Client) -> None:
    answer = await client.get("/formats/elements-9.schema.json")
    assert answer.status == 404
    assert "elements-1" in answer.json["error"]


@pytest.mark.parametrize("name", sorted(format_schemas()))
def test_schema_in_the_docs_is_the_one_that_is_served(name: str) -> None:
    kept = json.loads((ROOT / "docs" / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))
    assert kept == format_schemas()[name], "write it anew: python -m tests.api.jobs.test_format_schemas"


if __name__ == "__main__":
    for name, schema in format_schemas().items():
        target = ROOT / "docs" / "schemas" / f"{name}.schema.json"
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(schema, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
