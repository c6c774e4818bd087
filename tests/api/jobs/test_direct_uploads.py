"""Direct uploads: a large file is put first and named afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from tests.support.serving import Client
from tests.support.submitted_documents import fresh
from tests.support.waiting import eventually

Pdf = Callable[..., bytes]


async def begun(client: Client, data: bytes, **more: Any) -> dict[str, Any]:
    """An upload whose file has been put, by our own address as the store is a directory."""
    answer = await client.post("/uploads", json={"size": len(data), "filename": "large.pdf", **more})
    assert (answer.status, answer.headers["Location"]) == (201, f"/uploads/{answer.json['upload_id']}")
    upload: dict[str, Any] = answer.json
    assert (upload["signed"], upload["method"], upload["headers"]) == (False, "PUT", {})
    put = await client.ask("PUT", upload["url"].removeprefix(client.url), data=data)
    assert put.status == 204, put.body
    return upload


async def test_upload_is_converted_when_its_address_is_the_source(client: Client, make_pdf: Pdf) -> None:
    text = fresh("a direct upload")
    data = make_pdf(text)
    upload = await begun(client, data, sha256=hashlib.sha256(data).hexdigest())
    done = await client.post("/convert?wait=240", json={"source": upload["source"]})
    assert (done.status, done.json["result"]["markdown"]) == (200, text)
    job = (await client.get(f"/jobs/{done.json['job_id']}")).json
    assert (job["source"], job["filename"], job["size"]) == ({"kind": "upload"}, "large.pdf", len(data))
    assert (await client.get(f"/jobs/{job['job_id']}/original")).body == data
    again = await client.ask("PUT", f"/uploads/{upload['upload_id']}", data=b"x" * len(data))
    assert again.status == 204
    kept = (await client.get(f"/jobs/{job['job_id']}/original")).body
    assert kept == data, "a file that is put later does not change a job"
    assert (await client.ask("PUT", f"/uploads/{upload['upload_id']}", data=data)).status == 204

    batch = (await client.post("/batches", json={"sources": [upload["source"], "upload://none"]})).json
    assert [one["error"] and one["error"]["code"] for one in batch["items"]] == [None, "not_found"]


async def test_upload_is_refused_when_it_is_not_what_was_announced(
    client: Client, beta: Client, make_pdf: Pdf
) -> None:
    data = make_pdf(fresh("announced"))
    other = await begun(client, data, sha256="0" * 64)
    failed = await client.post("/convert?wait=240", json={"source": other["source"]})
    assert failed.status == 400
    assert "not the one announced" in failed.json["error"]

    place = f"/uploads/{other['upload_id']}"
    assert (await client.ask("PUT", place, data=data + b"x")).status == 413
    assert (await client.ask("PUT", place, data=data[:-1])).status == 400
    assert (await beta.ask("PUT", place, data=data)).status == 404, "it is another team's"
    assert (await beta.post("/convert", json={"source": other["source"]})).status == 404

    early = (await client.post("/uploads", json={"size": 5})).json
    missing = await client.post("/convert", json={"source": early["source"]})
    assert (missing.status, missing.json["code"]) == (409, "conflict")
    for wrong in ({"size": 0}, {"size": 1, "sha256": "x"}, {"size": 1, "more": 1}, {}):
        assert (await client.post("/uploads", json=wrong)).status in (400, 422), wrong
    assert (await client.post("/uploads", json={"size": 5 << 20})).status == 413


async def test_upload_goes_into_the_vault(client: Client, make_pdf: Pdf) -> None:
    upload = await begun(client, make_pdf(fresh("for the vault")))
    taken = (await client.post("/documents", json={"source": upload["source"]})).json["documents"][0]

    async def filed() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get(f"/documents/{taken['document_id']}")).json
        return found if found["status"] != "pending" else None

    document = await eventually(filed, "the document is filed")
    assert (document["status"], document["filename"], document["type"]) == ("completed", "large.pdf", "pdf")
