"""DELETE /jobs/{id}: a finished job goes with all its data, and nothing else does."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable
from email.message import EmailMessage

from tests.support.serving import Client, Server

Pdf = Callable[..., bytes]


def stored(server: Server, job_id: str) -> list[str]:
    folder = server.data_dir / "objects" / "jobs" / job_id
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


async def converted(client: Client, pdf: bytes, name: str = "report.pdf") -> str:
    answer = await client.upload(pdf, {"mode": "local"}, wait=240, name=name)
    assert answer.status == 200, answer.body
    return str(answer.json["job_id"])


async def test_a_job_and_its_data_are_gone_when_deleted(
    client: Client, server: Server, make_pdf: Pdf
) -> None:
    pdf = make_pdf(f"to be deleted {uuid.uuid4()}")
    job_id = await converted(client, pdf)
    assert stored(server, job_id)
    assert (await client.ask("DELETE", f"/jobs/{job_id}")).status == 204
    for path in ("", "/result", "/pages", "/original", "-p1", "-split"):
        assert (await client.get(f"/jobs/{job_id}{path}")).status == 404
    assert job_id not in [job["job_id"] for job in (await client.get("/jobs?limit=500")).json["jobs"]]
    assert stored(server, job_id) == []
    assert (await client.ask("DELETE", f"/jobs/{job_id}")).status == 404
    # The same document is read anew: no deleted job answers for it.
    again = await client.upload(pdf, {"mode": "local"}, wait=240)
    assert (again.status, again.json["job_id"] != job_id) == (200, True)


async def test_another_teams_job_stays_when_deleted(client: Client, beta: Client, make_pdf: Pdf) -> None:
    job_id = await converted(client, make_pdf(f"of alpha {uuid.uuid4()}"))
    assert (await beta.ask("DELETE", f"/jobs/{job_id}")).status == 404
    assert (await client.get(f"/jobs/{job_id}/result")).status == 200


async def test_a_running_job_is_refused_when_deleted(idle: Client, make_pdf: Pdf) -> None:
    job_id = (await idle.upload(make_pdf(f"waits {uuid.uuid4()}"))).json["job_id"]
    refused = await idle.ask("DELETE", f"/jobs/{job_id}")
    assert (refused.status, refused.json["code"]) == (409, "conflict")
    assert "cancel it first" in refused.json["error"]
    await idle.post(f"/jobs/{job_id}/cancel")
    assert (await idle.ask("DELETE", f"/jobs/{job_id}")).status == 204
    assert (await idle.get(f"/jobs/{job_id}")).status == 404


async def test_a_child_is_refused_when_deleted(client: Client, make_pdf: Pdf) -> None:
    job_id = await converted(client, make_pdf(f"has children {uuid.uuid4()}"))
    refused = await client.ask("DELETE", f"/jobs/{job_id}-p1")
    assert (refused.status, f"DELETE /jobs/{job_id}" in refused.json["error"]) == (400, True)


async def test_a_vault_documents_job_is_refused_when_deleted(client: Client, make_pdf: Pdf) -> None:
    answer = await client.post(
        "/documents", data={"file": io.BytesIO(make_pdf(f"in the vault {uuid.uuid4()}"))}
    )
    document = answer.json["documents"][0] if "documents" in answer.json else answer.json
    document_id = document.get("document_id") or document["id"]
    job_id = f"process-doc_alpha_{document_id}"
    await client.over(job_id)
    refused = await client.ask("DELETE", f"/jobs/{job_id}")
    assert refused.status == 409
    assert f"DELETE /documents/{document_id}" in refused.json["error"]


async def test_attachments_are_deleted_when_their_mail_is(
    client: Client, server: Server, make_pdf: Pdf
) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@example.org", "b@example.org", f"a mail {uuid.uuid4()}"
    mail.set_content("The body.")
    mail.add_attachment(make_pdf(f"attached {uuid.uuid4()}"), "application", "pdf", filename="a.pdf")
    mail_id = await converted(client, mail.as_bytes(), name="mail.eml")
    [child] = (await client.get(f"/jobs/{mail_id}")).json["children"]
    await client.over(child["job_id"])
    assert (await client.ask("DELETE", f"/jobs/{mail_id}")).status == 204
    assert (await client.get(f"/jobs/{child['job_id']}")).status == 404
    assert stored(server, child["job_id"]) == []
