"""The interfaces of Unstructured (as unstructured-client sends its requests) and of MinerU."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from functools import partial

import aiohttp
import pytest

from tests.support.serving import Client, Server
from tests.support.submitted_documents import form as multipart_form
from tests.support.submitted_documents import fresh

Pdf = Callable[..., bytes]
TABLE = "# Harbour\n\nWords.\n\n## Fees\n\n| Port | Fee |\n|---|---|\n| Mole | 3 |\n\n- one item\n"


form = partial(multipart_form, file_field="files")


async def test_elements_have_types_parents_and_pages_when_a_document_is_partitioned(
    server: Server, make_pdf: Pdf
) -> None:
    text = fresh("partition")
    async with aiohttp.ClientSession(headers={"unstructured-api-key": "key-of-alpha"}) as session:
        client = Client(server.url, session)
        data = form(
            ("a.pdf", make_pdf(text, "second")),
            strategy="hi_res",
            coordinates="true",
            starting_page_number="21",
            include_page_breaks="true",
        )
        found = (await client.post("/general/v0/general", data=data)).json
        assert [one["type"] for one in found if one["type"] == "PageBreak"] == ["PageBreak"]
        words = [one for one in found if one["type"] != "PageBreak"]
        assert [(one["text"], one["metadata"]["page_number"]) for one in words] == [
            (text, 21),
            ("second", 22),
        ]
        place = words[0]["metadata"]["coordinates"]
        assert place["layout_width"] > place["points"][2][0] > place["points"][0][0]
        data = form(("a.md", f"{TABLE}\n{text}\n".encode()), languages="en")
        found = (await client.post("/general/v0/general", data=data)).json
        assert found[0]["metadata"]["languages"] == ["eng"]
        job = (await client.get("/jobs?limit=1")).json["jobs"][0]
        assert (await client.get(f"/jobs/{job['job_id']}")).json["options"]["ocr_languages"] == "eng"
        kinds = [one["type"] for one in found]
        assert kinds == ["Title", "NarrativeText", "Title", "Table", "ListItem", "NarrativeText"]
        assert [one["metadata"].get("parent_id") for one in found] == [
            None,
            *[found[0]["element_id"]] * 2,
            *[found[2]["element_id"]] * 3,
        ]
        assert "<th>Port</th>" in found[3]["metadata"]["text_as_html"]
        assert len({one["element_id"] for one in found}) == len(found)
        assert (await client.get("/general/docs")).status == 200


async def test_chunks_come_as_composite_elements_when_asked_for(client: Client) -> None:
    text = "\n\n".join(fresh(f"paragraph {n}") for n in range(12))
    data = form(
        ("a.md", f"# A\n\n{text}\n".encode()),
        ("b.md", b"# B\n"),
        chunking_strategy="by_title",
        max_characters="200",
    )
    first, second = (await client.post("/general/v0/general", data=data)).json
    assert len(first) > 2
    assert {one["type"] for one in first} == {"CompositeElement"}
    assert max(len(one["text"]) for one in first) <= 200
    assert [one["text"] for one in second] == ["# B"]


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"strategy": "best"}, 400, "Invalid strategy: best"),
        ({"chunking_strategy": "by_word"}, 400, "Invalid chunking strategy"),
        ({"chunking_strategy": "basic", "max_characters": "5"}, 400, "max_characters"),
        ({"output_format": "text/csv"}, 400, "output_format"),
        ({"languages": "xyz"}, 400, "ocr_languages"),
        ({}, 415, "Linux program"),
    ],
)
async def test_unstructured_errors_have_a_detail(
    client: Client, fields: dict[str, str], status: int, words: str
) -> None:
    data = form(("x", b"\x7fELF" + b"\0" * 50 if not fields else b"# a"), **fields)
    answer = await client.post("/general/v0/general", data=data)
    assert (answer.status, list(answer.json)) == (status, ["detail"])
    assert words in answer.json["detail"]


async def test_mineru_answers_with_the_markdown_under_the_name_of_each_file(
    client: Client, make_pdf: Pdf
) -> None:
    pages = [fresh("mineru one"), fresh("mineru two"), "three"]
    files = (("a.pdf", make_pdf(*pages)), ("bad.pdf", b"%PDF-1.4 no"))
    data = form(*files, return_md="true", return_content_list="true", end_page_id="1")
    answer = (await client.post("/file_parse", data=data)).json
    assert answer["backend"] == "quire"
    assert answer["results"]["a"]["md_content"] == "\n\n".join(pages[:2])
    rows = json.loads(answer["results"]["a"]["content_list"])
    assert [(row["text"], row["page_idx"]) for row in rows] == [(pages[0], 0), (pages[1], 1)]
    assert all(0 <= at <= 1000 for row in rows for at in row["bbox"])
    assert list(answer["results"]["bad"]) == ["error"]
    unsafe = (files[0], ("../../bad.pdf", files[1][1]), ("sub/a.pdf", files[0][1]))
    sent = aiohttp.FormData({"response_format_zip": "true"}, default_to_multipart=True, quote_fields=False)
    for name, content in unsafe:
        sent.add_field("files", content, filename=name)
    packed = await client.post("/file_parse", data=sent)
    with zipfile.ZipFile(io.BytesIO(packed.body)) as found:
        assert found.namelist() == ["a/a.md", "bad/error.txt", "a-2/a-2.md"]
        assert found.read("a/a.md").decode() == "\n\n".join(pages)


@pytest.mark.parametrize(
    ("fields", "status"), [({"parse_method": "x"}, 400), ({"start_page_id": "-1"}, 400), ({}, 422)]
)
async def test_mineru_errors_have_its_shape(client: Client, fields: dict[str, str], status: int) -> None:
    answer = await client.post("/file_parse", data=form(("bad.pdf", b"%PDF-1.4 no"), **fields))
    assert (answer.status, list(answer.json)) == (status, ["error"])
