"""From an upload to a document that is named, tagged and found again, with nothing but this machine."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import aiohttp
from aiohttp import web

from tests.support.vault_client import VaultClient
from tests.support.vault_fixtures import on_both
from tests.support.waiting import DEADLINE_S, until

INVOICE = b"""# RECHNUNG

Muster GmbH | Hauptstrasse 5 | 10115 Berlin

Rechnungsnummer: RE-2026-0815
Rechnungsdatum: 14.03.2026

| Pos | Bezeichnung | Preis |
|---|---|---|
| 1 | Beratung Datenbank | 800,00 EUR |
| 2 | Schulung Datenbank | 400,00 EUR |

Bitte \xc3\xbcberweisen Sie den Betrag bis zum 28.03.2026 auf unser Konto. Vielen Dank f\xc3\xbcr Ihren Auftrag.
"""


def note(number: int, *, text: str = "") -> bytes:
    return (
        f"# Note {number} about copper wires\n\nDate: 2026-01-{1 + number % 28:02d}\n\n"
        f"The copper wires of plant {number} were tested and found good. {text}\n"
    ).encode()


@on_both
async def test_document_is_named_and_found_when_no_ai_is_configured(alpha: VaultClient) -> None:
    document = await alpha.kept("scan0001.md", INVOICE)

    assert document["status"] == document["state"] == "completed"
    assert document["title"] == "Rechnung RE-2026-0815 – Muster GmbH"
    assert (document["date"], document["language"], document["classified_by"]) == (
        "2026-03-14",
        "de",
        "local",
    )
    assert document["tags"][0] == "rechnung"
    assert document["type"] == "md"
    assert document["pages"] == 1
    assert document["error"] is None
    found = (await alpha.get("/search?q=Schulung")).json
    hit = next(one for one in found["hits"] if one["document"]["document_id"] == document["document_id"])
    assert "<mark>Schulung</mark>" in hit["snippet"]["html"]
    assert "".join(piece["text"] for piece in hit["snippet"]["pieces"]).count("Schulung") == 1


async def test_every_step_is_a_job_of_its_own(alpha: VaultClient) -> None:
    document = await alpha.kept("note.md", note(1))

    jobs = document["jobs"]
    main = (await alpha.get(f"/jobs/{jobs['process']}")).json
    assert (main["type"], main["status"]) == ("main", "completed")
    named = (await alpha.get(f"/jobs/process-doc_alpha_{document['document_id']}")).json
    assert named["job_id"] == jobs["process"]
    classify = await alpha.over(jobs["classify"])
    assert (classify["type"], classify["status"], classify["attempts"]) == ("classify", "completed", 1)
    assert classify["document_id"] == document["document_id"]
    assert classify["parent_job_id"] == jobs["process"]
    embed = await _made(alpha, jobs["embed"])
    assert (embed["type"], embed["status"]) == ("embed", "completed")


async def test_content_and_original_come_back_as_they_were(alpha: VaultClient) -> None:
    document = await alpha.kept("memo <b>.md", note(2))
    place = f"/documents/{document['document_id']}"

    original = await alpha.get(f"{place}/download")
    bare = await alpha.get(f"{place}/content")
    as_json = await alpha.get(f"{place}/content?format=json")

    assert original.body == note(2)
    assert original.headers["Content-Disposition"].startswith("attachment; ")
    assert original.headers["X-Content-Type-Options"] == "nosniff"
    assert original.headers["Content-Type"] == "application/octet-stream"
    assert "copper wires of plant 2" in bare.body.decode()
    assert bare.headers["Content-Type"].startswith("text/markdown")
    assert as_json.json["document_id"] == document["document_id"]
    assert as_json.json["result"]["markdown"] == bare.body.decode()
    as_html = await alpha.get(f"{place}/content?format=html")
    assert as_html.headers["Content-Type"].startswith("text/html")
    assert "copper wires of plant 2" in as_html.body.decode()
    assert "<b>.md" not in as_html.body.decode()
    chunks = (await alpha.get(f"{place}/chunks")).json
    assert chunks["document_id"] == document["document_id"]
    assert "copper wires of plant 2" in " ".join(chunk["text"] for chunk in chunks["chunks"])


@on_both
async def test_same_bytes_are_the_same_document_unless_forced(alpha: VaultClient) -> None:
    data = note(3, text="Sent twice.")
    answers = await asyncio.gather(*(alpha.put((f"{n}.md", data)) for n in range(4)))
    taken = [one.json["documents"][0] for one in answers]

    again = (await alpha.put(("again.md", data))).json["documents"][0]
    forced = (await alpha.put(("again.md", data), fields={"force": "true"})).json["documents"][0]

    assert len({one["document_id"] for one in taken}) == 1
    assert sorted(one["deduplicated"] for one in taken) == [False, True, True, True]
    assert (again["document_id"], again["deduplicated"]) == (taken[0]["document_id"], True)
    assert forced["document_id"] != again["document_id"]
    assert not forced["deduplicated"]


@on_both
async def test_same_key_gives_the_same_documents_when_sent_again(alpha: VaultClient) -> None:
    files = (("a.md", note(4, text="a")), ("b.md", note(4, text="b")))
    key = {"Idempotency-Key": "bulk-1"}

    first = await alpha.put(*files, headers=key)
    second = await alpha.put(*files, headers=key)
    other = await alpha.put(("a.md", note(5)), headers=key)

    ids = [one["document_id"] for one in first.json["documents"]]
    assert len(set(ids)) == 2
    assert [one["document_id"] for one in second.json["documents"]] == ids
    assert all(one["deduplicated"] for one in second.json["documents"])
    assert (other.status, other.json["code"]) == (409, "conflict")


async def test_good_files_are_taken_when_others_of_the_request_are_not(alpha: VaultClient) -> None:
    answer = await alpha.put(
        ("good.md", note(6)), ("empty.md", b""), ("large.txt", b"x" * (5 << 20)), ("also.md", note(7))
    )

    assert answer.status == 202
    assert [one["filename"] for one in answer.json["documents"]] == ["good.md", "also.md"]
    assert [(one["filename"], one["code"]) for one in answer.json["rejected"]] == [
        ("empty.md", "bad_request"),
        ("large.txt", "too_large"),
    ]
    alone = await alpha.put(("large.txt", b"x" * (5 << 20)))
    assert (alone.status, alone.json["code"]) == (413, "too_large")


@on_both
async def test_unsupported_type_completes_untouched(alpha: VaultClient) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inside.bin", bytes(range(256)))
    document = await alpha.kept("things.zip", packed.getvalue())
    place = f"/documents/{document['document_id']}"

    again = await alpha.post(f"{place}/reprocess")
    content = await alpha.get(f"{place}/content")

    assert (document["status"], document["title"]) == ("completed", None)
    assert document["state"] == "unsupported"
    assert document["error"]["code"] == "unsupported_type"
    assert document["type"] == "zip"
    assert (again.status, again.json["outcome"], again.json["status"]) == (200, "skipped", "completed")
    assert (content.status, content.json["code"]) == (409, "conflict")
    assert (await alpha.get(f"{place}/download")).body == packed.getvalue()


@on_both
async def test_document_fails_with_a_reason_when_it_cannot_be_read(
    alpha: VaultClient, make_pdf: Callable[..., bytes]
) -> None:
    locked = make_pdf("The secret report of the harbour.", password="open sesame")
    document = await alpha.kept("locked.pdf", locked)
    place = f"/documents/{document['document_id']}"

    assert (document["status"], document["state"]) == ("failed", "failed")
    assert document["error"]["code"] == "password_required"
    wrong = await alpha.post(f"{place}/reprocess", json={"password": "wrong"})
    assert wrong.json["outcome"] == "started"
    assert (await alpha.settled(document["document_id"], 2))["error"]["code"] == "password_wrong"
    await alpha.post(f"{place}/reprocess", json={"password": "open sesame"})
    opened = await alpha.settled(document["document_id"], 3)
    assert (opened["status"], opened["error"]) == ("completed", None)
    assert "harbour" in (await alpha.get(f"{place}/content")).body.decode()


@on_both
async def test_list_is_filtered_and_paged(alpha: VaultClient) -> None:
    documents = await asyncio.gather(
        *(alpha.kept(f"page{n}.md", note(40 + n, text="Paged reading matter.")) for n in range(5))
    )
    ids = {one["document_id"] for one in documents}

    seen: list[str] = []
    cursor = ""
    while True:
        page = (await alpha.get(f"/documents?q=paged+matter&limit=2{cursor}")).json
        assert len(page["documents"]) <= 2
        seen += [one["document_id"] for one in page["documents"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"

    assert len(seen) == len(set(seen))
    assert set(seen) == ids
    dated = (await alpha.get("/documents?q=paged+matter&date_from=2026-01-15&date_to=2026-01-16")).json
    assert {one["date"] for one in dated["documents"]} == {"2026-01-15", "2026-01-16"}
    assert (await alpha.get("/documents?q=paged+matter&status=failed")).json["documents"] == []
    assert (await alpha.get("/documents?date_from=tomorrow")).status == 400
    assert (await alpha.get("/documents?cursor=nonsense")).status == 400


@on_both
async def test_tags_are_suggested_and_filtered_by(alpha: VaultClient) -> None:
    await alpha.kept("r.md", INVOICE.replace(b"0815", b"0816"))

    suggested = (await alpha.get("/tags?prefix=rech")).json["tags"]
    tagged = (await alpha.get("/documents?tag=Rechnung")).json["documents"]

    assert suggested[0]["name"] == "rechnung"
    assert suggested[0]["documents"] >= 1
    assert len(tagged) == suggested[0]["documents"]
    assert all("rechnung" in one["tags"] for one in tagged)


async def test_hostile_text_stays_text_in_search_results(alpha: VaultClient) -> None:
    hostile = (
        b"# <script>alert(1)</script> zebra\n\nA zebra & <img src=x onerror=alert(2)> crosses the road.\n"
    )
    document = await alpha.kept("<img>.md", hostile)

    hits = (await alpha.get("/search?q=zebra")).json["hits"]
    hit = next(one for one in hits if one["document"]["document_id"] == document["document_id"])

    shown = hit["snippet"]["html"] + (hit["title"] or {"html": ""})["html"]
    assert "<script" not in shown
    assert "<img" not in shown
    assert "<mark>zebra</mark>" in shown


@on_both
async def test_export_holds_every_document_with_its_metadata(alpha: VaultClient) -> None:
    documents = [await alpha.kept(f"x{n}.md", note(60 + n, text="Exportable goods.")) for n in range(3)]

    answer = await alpha.get("/documents/export?q=exportable&originals=true")

    assert answer.headers["Content-Type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        for document in documents:
            folder = next(name for name in names if document["document_id"][:8] in name).split("/")[0]
            known = json.loads(archive.read(f"{folder}/metadata.json"))
            assert known["document_id"] == document["document_id"]
            assert known["title"] == document["title"]
            assert b"Exportable goods" in archive.read(f"{folder}/document.md")
            assert b"Exportable goods" in archive.read(f"{folder}/original/{document['filename']}")
    assert len(names) == 9


async def test_schema_is_refused_before_the_first_row_when_no_model_is_configured(alpha: VaultClient) -> None:
    """The newest document has failed, so it is the first row; the older one needs a model."""
    await alpha.kept("quuxberth.md", b"# Quuxberth\n\nThe quuxberth has number 417.\n")
    broken = await alpha.add("quuxberth.pdf", b"%PDF-1.4\nno pages at all")

    async def has_failed() -> bool:
        return bool((await alpha.get(f"/documents/{broken}")).json["status"] == "failed")

    await until(has_failed, "the newest document has failed")
    schema = {"type": "object", "properties": {"berth": {"type": "integer"}}}
    async with alpha.session.put(f"{alpha.url}/schemas/quuxberth", json={"schema": schema}) as saved:
        assert saved.status in (200, 201), await saved.text()
    async with alpha.session.post(f"{alpha.url}/schemas/quuxberth/apply") as refused:
        assert (refused.status, (await refused.json())["code"]) == (409, "ai_not_configured")


async def test_changes_are_told_to_who_listens(alpha: VaultClient) -> None:
    async with alpha.session.get(f"{alpha.url}/documents/events") as response:
        lines = response.content
        assert "event: hello" in await _event(lines)
        document_id = await alpha.add("live.md", note(70))
        seen = ""
        async with asyncio.timeout(DEADLINE_S):
            while f'"{document_id}", "status": "completed"' not in seen:
                seen += await _event(lines)
    assert f'"{document_id}", "status": "pending"' in seen


async def _event(lines: aiohttp.StreamReader) -> str:
    """Everything up to the next blank line that ends an event."""
    found = ""
    while True:
        line = (await lines.readline()).decode()
        if not line.strip() and "data:" in found:
            return found
        found += line


async def _made(client: VaultClient, job_id: str) -> dict[str, Any]:
    """A step's job once it exists and is over."""

    async def made() -> bool:
        return (await client.get(f"/jobs/{job_id}")).status != 404

    await until(made)
    return await client.over(job_id)


async def test_link_is_fetched_kept_and_tried_again(alpha: VaultClient) -> None:
    answers = {
        "/report.md": (200, note(80)),
        "/missing.md": (404, b""),
        "/film.bin": (200, bytes(range(256)) * 40),
    }

    async def answer(request: web.Request) -> web.Response:
        status, body = answers[request.path]
        return web.Response(status=status, body=body)

    app = web.Application()
    app.router.add_get("/{name}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        links = {
            name: await alpha.post("/documents", json={"source": f"{base}{name}?token=x"}) for name in answers
        }
        ids = {name: one.json["documents"][0]["document_id"] for name, one in links.items()}
        report = await alpha.settled(ids["/report.md"])
        missing = await alpha.settled(ids["/missing.md"])
        film = await alpha.settled(ids["/film.bin"])
        answers["/missing.md"] = (200, note(81))
        await alpha.post(f"/documents/{ids['/missing.md']}/reprocess")
        found = await alpha.settled(ids["/missing.md"], 2)
    finally:
        await runner.cleanup()

    assert (report["status"], report["filename"], report["size"]) == ("completed", "report.md", len(note(80)))
    assert report["source"] == f"{base.rsplit(':', 1)[0]}/report.md"
    assert "token" not in json.dumps(report)
    assert (await alpha.get(f"/documents/{report['document_id']}/download")).body == note(80)
    assert (missing["status"], missing["error"]["code"]) == ("failed", "download_failed")
    assert (film["status"], film["error"]["code"], film["title"]) == ("completed", "unsupported_type", None)
    assert found["status"] == "completed"
    assert (await alpha.post("/documents", json={"source": "file:///etc/passwd"})).status == 400
    assert (await alpha.post("/documents", json={})).status == 400
