"""The interface of docling-serve: the requests of Open WebUI, RAGFlow and its own clients."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from tests.support.serving import Client
from tests.support.submitted_documents import form as multipart_form
from tests.support.submitted_documents import fresh
from tests.support.waiting import eventually

Pdf = Callable[..., bytes]


def form(*files: bytes, **fields: str | list[str]) -> aiohttp.FormData:
    named = [(f"file{number}.pdf", data) for number, data in enumerate(files, 1)]
    return multipart_form(*named, file_field="files", file_type="application/pdf", **fields)


def source(data: bytes, name: str = "inline.pdf") -> dict[str, str]:
    return {"kind": "file", "base64_string": base64.b64encode(data).decode(), "filename": name}


async def test_pages_are_split_at_the_placeholder_when_open_webui_sends_a_file(
    client: Client, make_pdf: Pdf
) -> None:
    pages = [fresh("one"), fresh("two"), fresh("three")]
    fields = {"image_export_mode": "placeholder", "md_page_break_placeholder": "\f", "do_ocr": "true"}
    answer = await client.post("/v1/convert/file", data=form(make_pdf(*pages), **fields))
    assert (answer.status, answer.json["status"], answer.json["errors"]) == (200, "success", [])
    document = answer.json["document"]
    assert document["filename"] == "file1.pdf"
    assert [page.strip() for page in document["md_content"].split("\f")] == pages
    assert [document[name] for name in ("json_content", "html_content", "doctags_content")] == [None] * 3
    plain = (await client.post("/v1/convert/file", data=form(make_pdf(*pages)))).json["document"]
    assert plain["md_content"] == "\n\n".join(pages)


async def test_every_format_is_written_when_ragflow_sends_base64(client: Client, make_pdf: Pdf) -> None:
    text = fresh("in base64")
    pdf = make_pdf(text, "x" * 40, *(fresh("filler") for _ in range(20)))
    assert len(pdf) > 4096  # so that it is decoded while it arrives
    formats = ["md", "json", "html", "text", "doctags"]
    body = {"options": {"to_formats": formats, "unknown": 1}, "sources": [source(pdf)]}
    answer = await client.post("/v1/convert/source", json=body)
    document = answer.json["document"]
    assert document["filename"] == "inline.pdf"
    assert document["json_content"]["schema_name"] == "DoclingDocument"
    assert text in json.dumps(document["json_content"])
    assert all(text in document[name] for name in ("md_content", "html_content", "text_content"))
    older = {"options": {}, "file_sources": [{k: v for k, v in source(b"# Short\n").items() if k != "kind"}]}
    short = await client.post("/v1alpha/convert/source", json=older)
    assert short.json["document"]["md_content"] == "# Short"


async def test_several_files_come_as_a_zip_with_what_failed(client: Client, make_pdf: Pdf) -> None:
    texts = [fresh("first of two"), fresh("second of two")]
    data = form(make_pdf(texts[0]), b"%PDF-1.4 broken", make_pdf(texts[1]), to_formats=["md", "text"])
    answer = await client.post("/v1/convert/file", data=data)
    assert answer.headers["Content-Type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.body)) as found:
        assert set(found.namelist()) == {
            *("file1.md", "file1.txt", "file3.md", "file3.txt"),
            "failures.json",
        }
        assert found.read("file3.md").decode() == texts[1]
        assert [one["filename"] for one in json.loads(found.read("failures.json"))] == ["file2.pdf"]


async def task_end(client: Client, task_id: str) -> dict[str, Any]:
    async def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get(f"/v1/status/poll/{task_id}?wait=5")).json
        return None if found["task_status"] in ("pending", "started") else found

    return await eventually(ended, f"the end of task {task_id}")


async def test_a_task_is_polled_and_its_result_fetched(client: Client, beta: Client, make_pdf: Pdf) -> None:
    text = fresh("as a task")
    data = form(make_pdf(text, "and more"), md_page_break_placeholder="<break>")
    task = (await client.post("/v1/convert/file/async", data=data)).json
    assert task["task_type"] == "convert"
    assert task["task_meta"]["num_docs"] == 1
    address = f"/v1/status/poll/{task['task_id']}"
    found = await task_end(client, task["task_id"])
    assert (found["task_status"], found["task_meta"]["num_succeeded"]) == ("success", 1)
    result = (await client.get(f"/v1/result/{task['task_id']}")).json
    assert result["document"]["md_content"] == f"{text}\n\n<break>\n\nand more"
    for path in (address, f"/v1/result/{task['task_id']}", "/v1/result/nothing"):
        walled = await beta.get(path)
        assert (walled.status, list(walled.json)) == (404, ["detail"])


async def test_a_task_fails_with_the_reason_when_no_document_is_read(client: Client) -> None:
    task = (await client.post("/v1/convert/source/async", json={"sources": [source(b"%PDF-1.4 no")]})).json
    found = await task_end(client, task["task_id"])
    assert (found["task_status"], found["task_meta"]["num_failed"]) == ("failure", 1)
    assert found["error_message"]
    result = await client.get(f"/v1/result/{task['task_id']}")
    assert (result.status, result.json["detail"]) == (422, found["error_message"])


async def test_chunks_have_boxes_and_references_into_the_document(client: Client, make_pdf: Pdf) -> None:
    texts = [fresh("chunk one"), fresh("chunk two")]
    fields = {"include_converted_doc": "true", "convert_to_formats": "json", "chunking_max_tokens": "64"}
    answer = await client.post("/v1/chunk/hybrid/file", data=form(make_pdf(*texts), **fields))
    found = answer.json
    chunks = found["chunks"]
    assert [one["chunk_index"] for one in chunks] == list(range(len(chunks)))
    assert sorted({page for one in chunks for page in one["page_numbers"]}) == [1, 2]
    document = found["documents"][0]["document"]["json_content"]
    for chunk in chunks:
        assert chunk["metadata"]["boxes"][0]["page"] in chunk["page_numbers"]
        for ref in chunk["doc_items"]:
            _, section, place = ref.split("/")
            assert document[section][int(place)]["text"] in chunk["raw_text"]
    whole = await client.post("/v1/chunk/hierarchical/source", json={"sources": [source(make_pdf(*texts))]})
    assert len(whole.json["chunks"]) >= 1
    assert whole.json["documents"] == []


@pytest.mark.parametrize(
    ("path", "body", "status", "place"),
    [
        ("source", {"sources": []}, 422, "sources"),
        ("source", {"sources": [{"kind": "ftp"}]}, 422, "sources.0.kind"),
        ("source", {"sources": [{"kind": "file", "base64_string": "!", "filename": "a"}]}, 422, "sources.0"),
        ("source", {"sources": [source(b"# a")], "options": {"to_formats": ["pdf"]}}, 422, "to_formats"),
        ("source", {"sources": [source(b"# a")], "options": {"page_range": [3, 1]}}, 422, "page_range"),
        ("source", {"sources": [source(b"# a")], "target": {"kind": "put"}}, 422, "target"),
        ("source", {"sources": [source(b"\x7fELF" + b"\0" * 50)]}, 415, ""),
        ("source", {"sources": [{"kind": "http", "url": "gopher://x"}]}, 400, ""),
        ("file", None, 422, "files"),
    ],
)
async def test_a_bad_request_gets_a_detail(
    client: Client, path: str, body: Any, status: int, place: str
) -> None:
    options = {"json": body} if body is not None else {"data": form(do_ocr="true")}
    answer = await client.post(f"/v1/convert/{path}", **options)
    assert answer.status == status, answer.text
    assert list(answer.json) == ["detail"]
    if place:
        assert place in answer.json["detail"][0]["loc"][1]


async def test_a_refused_document_is_reported_and_the_others_are_converted(client: Client) -> None:
    text = f"# {fresh('kept')}\n"
    sources = [
        source(b"\x7fELF" + b"\0" * 50, "program.bin"),
        source(text.encode(), "failures.md"),
        {"kind": "http", "url": "gopher://x/y.pdf"},
    ]
    body = {"sources": sources, "options": {"to_formats": ["json", "md"]}}
    answer = await client.post("/v1/convert/source", json=body)
    with zipfile.ZipFile(io.BytesIO(answer.body)) as found:
        assert found.namelist() == ["failures-2.json", "failures.md", "failures.json"]
        assert found.read("failures.md").decode() == text.strip()
        failures = json.loads(found.read("failures.json"))
    assert [one["filename"] for one in failures] == ["program.bin", "y.pdf"]
    assert "Linux program" in failures[0]["error"]


@pytest.mark.parametrize(
    "body",
    [
        {"chunking_options": {"max_tokens": 1}, "sources": [source(b"# a")]},
        {"chunking_options": "small", "sources": [source(b"# a")]},
        {"sources": [source(b"# a"), {"kind": "file", "base64_string": "!", "filename": "b"}]},
    ],
)
async def test_no_job_is_left_behind_when_an_option_or_a_later_source_is_bad(
    idle: Client, body: dict[str, Any]
) -> None:
    answer = await idle.post("/v1/chunk/hybrid/source/async", json=body)
    assert answer.status == 422, answer.text
    assert (await idle.get("/jobs?status=queued")).json["jobs"] == []


async def test_a_task_whose_job_was_deleted_is_no_success(client: Client) -> None:
    body = {"sources": [source(f"# {fresh('deleted')}".encode(), "a.md")]}
    task = (await client.post("/v1/convert/source/async", json=body)).json
    await task_end(client, task["task_id"])
    result = await client.get(f"/v1/result/{task['task_id']}")
    assert (await client.ask("DELETE", f"/jobs/{result.json['quire']['job_id']}")).status in (200, 204)
    found = await task_end(client, task["task_id"])
    assert (found["task_status"], found["task_meta"]["num_succeeded"]) == ("failure", 0)
    gone = await client.get(f"/v1/result/{task['task_id']}")
    assert (gone.status, "deleted" in gone.json["detail"]) == (404, True)


async def test_docling_client_is_told_in_its_words_that_a_target_is_not_there(
    client: Client, make_pdf: Pdf
) -> None:
    """`docling.service_client` then sends the document again with the target `inbody`."""
    asked = form(make_pdf("A page"), target_type="presigned_url")
    refused = await client.post("/v1/convert/file/async", data=asked)
    version = await client.get("/version", headers={"Accept-Docling-Document-Version": "1.10.0"})
    assert refused.status == 400
    assert "artifact storage to be configured" in refused.json["detail"]
    assert list(version.json) == ["quire"]


async def test_probes_are_answered(client: Client) -> None:
    assert (await client.get("/ready")).json == {"status": "ok"}
    for path in ("/openapi.json", "/docs", "/health"):
        assert (await client.get(path)).status == 200
    assert (await client.get("/v1/convert/source")).status == 405
