"""Document batches over HTTP: files, archives, links and local files under one id."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quire.links import verify
from tests.api.conftest import CALLBACK_SECRET
from tests.support.document_site import Site
from tests.support.serving import Client
from tests.support.submitted_documents import form, fresh
from tests.support.waiting import eventually, until

Pdf = Callable[..., bytes]


def archive(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(name.replace("__", "/"), data)
        made.writestr("__MACOSX/._x", b"x")
    return out.getvalue()


async def over(client: Client, batch_id: str) -> dict[str, Any]:
    async def ended() -> dict[str, Any] | None:
        batch: dict[str, Any] = (await client.get(f"/batches/{batch_id}")).json
        return batch if batch["progress"] == 100 else None

    return await eventually(ended, f"the end of batch {batch_id}")


async def test_files_and_archives_are_one_batch_with_one_export(
    client: Client, beta: Client, make_pdf: Pdf
) -> None:
    texts = [fresh("alone"), fresh("in the archive"), fresh("twice named")]
    packed = archive(
        **{"in__a.pdf": make_pdf(texts[1]), "b__a.pdf": make_pdf(texts[2]), "no.bin": b"\x7fELF" + b"\0" * 64}
    )
    answer = await client.post("/batches", data=form(("one.pdf", make_pdf(texts[0])), ("all.zip", packed)))
    assert (answer.status, answer.headers["Location"]) == (202, f"/batches/{answer.json['batch_id']}")
    batch = await over(client, answer.json["batch_id"])
    assert (batch["status"], batch["total"], batch["completed"], batch["failed"]) == ("completed", 4, 3, 1)
    names = [one["name"] for one in batch["items"]]
    assert names == ["one.pdf", "in/a.pdf", "b/a.pdf", "no.bin"]
    assert batch["items"][3]["error"]["code"] == "unsupported_type"
    export = await client.get(f"/batches/{batch['batch_id']}/export")
    with zipfile.ZipFile(io.BytesIO(export.body)) as found:
        assert found.namelist() == ["one.md", "a.md", "a-2.md", "failures.json"]
        assert [found.read(name).decode() for name in found.namelist()[:3]] == texts
        assert json.loads(found.read("failures.json"))[0]["name"] == "no.bin"
    lines = (await client.get(f"/batches/{batch['batch_id']}/export?format=jsonl")).text.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row.get("markdown") for row in rows] == [*texts, None]
    assert rows[0]["metadata"]["pages"] == 1
    for path in (f"/batches/{batch['batch_id']}", f"/batches/{batch['batch_id']}/export", "/batches/x"):
        assert (await beta.get(path)).status == 404


async def test_sources_are_one_batch_with_one_callback(
    client: Client, site: Site, files_base: Path, make_pdf: Pdf
) -> None:
    site.files["/a.pdf"] = make_pdf(fresh("by link"))
    (files_base / "local.md").write_text(f"# {fresh('local')}\n")
    sources = [f"{site.url}/a.pdf", f"file://{files_base}/local.md", "gopher://x/y", f"{site.url}/none.pdf"]
    asked = {"sources": sources, "mode": "local", "callback_url": f"{site.url}/hook?key=secret-of-hook"}
    first = await client.post("/batches", json=asked, headers={"Idempotency-Key": fresh("batch")})
    await until(lambda: len(site.posts) == 1)
    headers, body = site.posts[0]
    assert verify(body, CALLBACK_SECRET, headers["X-Quire-Signature"], time.time())
    told = json.loads(body)
    batch = await over(client, first.json["batch_id"])
    names = ("status", "total", "completed", "failed", "cancelled", "expired")
    counts = {name: batch[name] for name in names}
    assert counts == dict(zip(names, ("completed", 4, 2, 2, 0, 0), strict=True))
    assert {name: told[name] for name in counts} == counts
    assert told["batch_id"] == batch["batch_id"]
    assert "secret-of-hook" not in str(batch)


async def test_a_repeated_key_gives_the_same_batch(client: Client) -> None:
    key = {"Idempotency-Key": fresh("again")}
    found = [
        (await client.post("/batches", data=form(("a.md", b"# A\n")), headers=key)).json["batch_id"]
        for _ in range(2)
    ]
    assert found[0] == found[1]


async def test_a_running_batch_has_no_export_and_is_cancelled(idle: Client, make_pdf: Pdf) -> None:
    data = form(("a.pdf", make_pdf(fresh("waits"))))
    batch = (await idle.post("/batches", data=data)).json
    assert (batch["status"], batch["queued"], batch["progress"]) == ("queued", 1, 0)
    refused = await idle.get(f"/batches/{batch['batch_id']}/export")
    assert (refused.status, refused.json["code"]) == (409, "not_ready")
    cancelled = (await idle.post(f"/batches/{batch['batch_id']}/cancel")).json
    assert (cancelled["status"], cancelled["cancelled"]) == ("failed", 1)


async def test_a_bad_batch_is_refused(client: Client) -> None:
    for options, words in (
        ({"json": {"sources": []}}, "no documents"),
        ({"json": {"sources": "x"}}, "sources"),
        ({"json": {"sources": ["https://example.org/a"], "mode": "best"}}, "mode"),
        ({"json": {"sources": ["https://example.org/a"], "callback_url": "gopher://x"}}, ""),
        ({"json": {"sources": ["https://example.org/a"], "result_to": "s3://b/c"}}, "result_to"),
        ({"data": form(mode="auto")}, "no file"),
    ):
        answer = await client.post("/batches", **options)  # type: ignore[arg-type]
        assert answer.status == 400, (options, answer.text)
        assert words in answer.json["error"]


async def test_a_deleted_result_is_a_failure_of_the_export(client: Client) -> None:
    answer = await client.post(
        "/batches", data=form(("a.md", f"# {fresh('a')}".encode()), ("b.md", f"# {fresh('b')}".encode()))
    )
    batch = await over(client, answer.json["batch_id"])
    for kept in (1, 0):
        await client.ask("DELETE", f"/jobs/{batch['items'][kept]['job_id']}")
        found = (await client.get(f"/batches/{batch['batch_id']}")).json
        assert (found["status"], found["expired"]) == (("expired", 2), ("completed", 1))[kept]
        export = await client.get(f"/batches/{batch['batch_id']}/export?format=jsonl")
        rows = [json.loads(line) for line in export.text.splitlines()]
        assert [row["status"] for row in rows] == [one["status"] for one in found["items"]]
        assert "deleted" in rows[1]["error"]["error"]


async def test_no_job_is_created_when_a_batch_has_too_many_documents(idle: Client) -> None:
    many = archive(**{f"{number}.md": b"# a" for number in range(1_000)})
    for options in (
        {"json": {"sources": ["https://example.org/a"] * 1_001}},
        {"data": form(("a.md", b"# one"), ("many.zip", many))},
    ):
        answer = await idle.post("/batches", **options)  # type: ignore[arg-type]
        assert (answer.status, "at most 1000" in answer.text) == (400, True), answer.text
        assert (await idle.get("/jobs?status=queued")).json["jobs"] == []
