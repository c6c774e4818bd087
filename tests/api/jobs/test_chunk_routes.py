"""A document's chunks over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO

import pytest
from arro3.io import read_parquet

from tests.support.serving import Client, Server, client_of
from tests.support.submitted_documents import converted, fresh

Pdf = Callable[..., bytes]


async def test_chunks_have_their_pages_elements_and_boxes(client: Client, make_pdf: Pdf) -> None:
    texts = [fresh(f"page {n}") for n in range(1, 4)]
    job_id = await converted(client, make_pdf(*texts))
    whole = (await client.get(f"/jobs/{job_id}/chunks?max_tokens=64")).json
    assert (whole["job_id"], whole["tokenizer"], whole["max_tokens"]) == (job_id, "utf8-bytes/4", 64)
    assert (whole["schema_version"], whole["pages_without_text"]) == (1, [])
    elements = {
        one["id"]: (page["page_number"], one)
        for page in (await client.get(f"/jobs/{job_id}/elements")).json["pages"]
        for one in page["elements"]
    }
    assert [text for chunk in whole["chunks"] for text in texts if text in chunk["text"]] == texts
    for index, chunk in enumerate(whole["chunks"]):
        assert chunk["index"] == index
        assert 0 < chunk["tokens"] <= 64
        assert chunk["pages"] == sorted({elements[one][0] for one in chunk["elements"]})
        for place in chunk["boxes"]:
            page, element = elements[place["element"]]
            assert (place["page"], place["box"]) == (page, element["box"])
            assert element["text"] in chunk["text"]
    lines = await client.get(f"/jobs/{job_id}/chunks?max_tokens=64&format=jsonl")
    assert lines.headers["Content-Type"] == "application/x-ndjson"
    assert [json.loads(line) for line in lines.body.decode().splitlines()] == whole["chunks"]
    table = await client.get(f"/jobs/{job_id}/chunks?max_tokens=64&format=parquet")
    assert table.headers["Content-Type"] == "application/vnd.apache.parquet"
    read = read_parquet(BytesIO(table.body)).read_all()
    assert read.schema.metadata_str["quire.job_id"] == job_id
    columns = {name: read.column(name).to_pylist() for name in read.column_names}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    assert [row | {"boxes": json.loads(row["boxes"])} for row in rows] == whole["chunks"]


async def test_hashes_stay_when_the_document_is_read_again(client: Client, make_pdf: Pdf) -> None:
    pdf = make_pdf(fresh("read twice"), fresh("with two pages"))
    first, second = [await converted(client, pdf, force="true") for _ in range(2)]
    assert first != second
    found = [(await client.get(f"/jobs/{one}/chunks")).json["chunks"] for one in (first, second)]
    assert [one["hash"] for one in found[0]] == [one["hash"] for one in found[1]]


async def test_a_section_has_its_headings_when_the_source_is_markdown(client: Client) -> None:
    text = f"# Harbour\n\n{fresh('about')}\n\n## Fees\n\nThey rise.\n\n| Port | Fee |\n|---|---|\n" + "".join(
        f"| Harbour {n} | {n} |\n" for n in range(60)
    )
    answer = await client.upload(text.encode(), wait=240, name="harbour.md")
    found = (await client.get(f"/jobs/{answer.json['job_id']}/chunks?max_tokens=100")).json["chunks"]
    assert found[0]["headings"] == ["Harbour"]
    assert all(one["headings"] == ["Harbour", "Fees"] for one in found[1:])
    tables = [one for one in found if one["kind"] == "table"]
    assert len(tables) > 1
    assert all(one["text"].startswith("| Port | Fee |\n|---|---|\n| Harbour ") for one in tables)
    assert sum(one["text"].count("| Harbour ") for one in found) == 60


@pytest.mark.parametrize(
    "query", ["max_tokens=8", "max_tokens=many", "max_tokens=64&overlap=40", "overlap=-1", "format=csv"]
)
async def test_chunks_are_refused_in_words_when_a_parameter_is_wrong(
    client: Client, make_pdf: Pdf, query: str
) -> None:
    answer = await client.get(f"/jobs/0123456789abcdef/chunks?{query}")
    assert answer.status == 400
    assert answer.json["error"].startswith(("max_tokens", "overlap", "format"))


async def test_chunks_are_not_ready_while_the_job_waits(
    client: Client, idle_server: Server, make_pdf: Pdf
) -> None:
    assert (await client.get("/jobs/0123456789abcdef/chunks")).status == 404
    assert (await client.get("/documents/0123456789abcdef/chunks")).status == 404
    async with client_of(idle_server) as idle:
        waiting = (await idle.upload(make_pdf(fresh("waits for chunks")))).json["job_id"]
        answer = await idle.get(f"/jobs/{waiting}/chunks")
        assert (answer.status, answer.json["code"]) == (409, "not_ready")
