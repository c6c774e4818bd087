"""`POST /extract` for uploads, jobs and documents of the vault, with a service whose AI is the simulator."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from quire.client import AsyncQuire, Filters, InvalidError, NotFoundError
from quire.simulator.simulator_thread import RunningSimulator
from tests.support.serving import Server
from tests.support.vault_client import VaultClient

Pdf = Callable[..., bytes]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"berth": {"type": "integer"}, "owner": {"type": "string"}},
}
TABLE_SCHEMA = {
    "type": "object",
    "properties": {**SCHEMA["properties"], "wet": {"type": "boolean"}},
}


def truth(*names: str) -> dict[str, Any]:
    answer = {
        "berth": {"value": 417, "quote": "Berth 417", "page": 1},
        "owner": {"value": "Nobody At All", "quote": "owned by Nobody At All", "page": 1},
        "wet": {"value": True, "quote": "Berth 417", "page": 1},
    }
    return {"truth": dict.fromkeys(names, answer)}


async def test_values_come_with_their_proof_from_an_upload_a_job_and_a_document(
    asking: VaultClient, ai_vault: Server, sim: RunningSimulator, make_pdf: Pdf
) -> None:
    sim.play(truth("up.pdf", "kept.pdf"))
    form = aiohttp.FormData()
    for name, value in {"schema": json.dumps(SCHEMA), "mode": "local"}.items():
        form.add_field(name, value)
    form.add_field("file", make_pdf("Berth 417 in the new harbour"), filename="up.pdf")
    first = await asking.post("/extract", data=form)
    assert first.status == 200, first.body
    found = first.json
    assert found["values"] == {"berth": 417, "owner": None}
    berth, owner = found["fields"]
    assert (berth["path"], berth["match"], berth["flags"]) == ("/berth", "exact", [])
    (citation,) = berth["citations"]
    assert (citation["page"], citation["quote"]) == (1, "Berth 417")
    page = (await asking.get(f"/jobs/{found['job_id']}/pages/1/elements")).json
    assert citation["box"] == page["elements"][0]["box"]
    assert (owner["value"], owner["rejected"], owner["flags"]) == (None, "Nobody At All", ["ungrounded"])

    twice = aiohttp.FormData()
    twice.add_field("schema", json.dumps(SCHEMA))
    twice.add_field("file", make_pdf("Berth 417 in the new harbour"), filename="up.pdf")
    twice.add_field("schema", json.dumps({"properties": {"a": {"type": "string", "pattern": "("}}}))
    refused = await asking.post("/extract", data=twice)
    assert (refused.status, "schema" in refused.json["error"]) == (400, True), refused.body

    body = {"job_id": found["job_id"], "schema": SCHEMA}
    again = await asking.post("/extract", json=body)
    assert (again.json["values"], again.json["usage"]["calls"]) == (found["values"], 0)

    document_id = await asking.add("kept.pdf", make_pdf("Berth 417 in the old harbour"), mode="local")
    await asking.settled(document_id)
    async with AsyncQuire(ai_vault.url, "key-of-alpha") as quire:
        kept = await quire.extract(document_id=document_id, schema=SCHEMA, ungrounded="keep")
        assert kept.values == {"berth": 417, "owner": "Nobody At All"}
        assert kept.field("/owner").match == "none"
        path = make_pdf("Berth 417 in the new harbour")
        uploaded = await quire.extract(path, name="up.pdf", schema=SCHEMA, mode="local")
        assert uploaded.values == found["values"]
        assert (uploaded.valid, uploaded.complete) == (True, True)


async def test_another_team_and_bad_requests_are_refused(
    asking: VaultClient, ai_vault: Server, connect: Callable[..., VaultClient], make_pdf: Pdf
) -> None:
    document_id = await asking.add("own.pdf", make_pdf("Berth 9 is ours"), mode="local")
    job_id = (await asking.settled(document_id))["jobs"]["process"]
    beta = connect(ai_vault, "key-of-beta")
    for body in ({"job_id": job_id}, {"document_id": document_id}):
        assert (await beta.post("/extract", json={**body, "schema": SCHEMA})).status == 404
    wrong: list[dict[str, Any]] = [
        {"schema": SCHEMA},
        {"job_id": job_id},
        {"job_id": job_id, "document_id": document_id, "schema": SCHEMA},
        {"job_id": job_id, "schema": {"type": "string"}},
        {"job_id": job_id, "schema": SCHEMA, "ungrounded": "perhaps"},
        {"job_id": job_id, "schema": SCHEMA, "pages": "first"},
        {"job_id": job_id, "schema": SCHEMA, "mode": "ai"},
        {"job_id": 7, "schema": SCHEMA},
    ]
    for body in wrong:
        answer = await asking.post("/extract", json=body)
        assert (answer.status, answer.json["code"]) == (400, "bad_request"), body
    assert (await asking.post("/extract", data=b"x", headers={"Content-Type": "text/plain"})).status == 415


async def test_a_saved_schema_is_applied_to_the_documents_that_a_filter_chooses(
    asking: VaultClient, ai_vault: Server, sim: RunningSimulator, make_pdf: Pdf, tmp_path: Path
) -> None:
    sim.play(truth("table.pdf"))
    document_id = await asking.add("table.pdf", make_pdf("Berth 417 of Zanzibar"), mode="local")
    await asking.settled(document_id)
    broken = await asking.add("broken.pdf", b"%PDF-1.4 no table")
    await asking.settled(broken)
    async with AsyncQuire(ai_vault.url, "key-of-alpha") as quire:
        vault = quire.documents
        await vault.save_schema("berths", TABLE_SCHEMA)
        with pytest.raises(InvalidError, match="schema"):
            await vault.save_schema("bad", {"properties": {"a": {"type": "string", "pattern": "("}}})
        assert "berths" in await vault.schemas()
        assert "bad" not in await vault.schemas()
        path = await vault.apply_schema("berths", tmp_path / "a.jsonl", query="zanzibar")
        rows = {row["document_id"]: row for row in map(json.loads, path.read_text().splitlines())}
        assert rows[document_id]["values"] == {"berth": 417, "owner": None, "wet": True}
        assert rows[document_id]["flags"] == ["/owner: ungrounded", "/wet: fuzzy"]
        path = await vault.apply_schema("berths", tmp_path / "a.csv", format="csv", query="zanzibar")
        table = list(csv.DictReader(path.open(newline="")))
        assert [
            (row["berth"], row["owner"], row["status"]) for row in table if row["filename"] == "table.pdf"
        ] == [("417", "", "extracted")]
        path = await vault.apply_schema(
            "berths", tmp_path / "b.csv", format="csv", filters=Filters(status="failed")
        )
        failed = {row["document_id"]: row for row in csv.DictReader(path.open(newline=""))}
        assert failed[broken]["status"] == "failed"
        assert failed[broken]["error"]
        path = await vault.apply_schema("berths", tmp_path / "none.csv", format="csv", query="no such words")
        assert path.read_text().splitlines() == [
            "document_id,filename,title,status,error,complete,valid,flags,berth,owner,wet"
        ]
        kept = await quire.extract(document_id=document_id, saved_schema="berths")
        assert kept.values == {"berth": 417, "owner": None, "wet": True}
        async with AsyncQuire(ai_vault.url, "key-of-beta") as beta:
            assert "berths" not in await beta.documents.schemas()
            with pytest.raises(NotFoundError):
                await beta.documents.apply_schema("berths", tmp_path / "x.csv")
        await vault.delete_schema("berths")
        with pytest.raises(NotFoundError):
            await vault.delete_schema("berths")
