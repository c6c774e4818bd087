"""A mail that is kept in the vault: its attachments are documents of the vault, made once, and lives of their own."""

from __future__ import annotations

from email.message import EmailMessage
from pathlib import Path
from typing import Any

from quire.domain.job import JobStatus, UnitKind, attachment_document_id, conversion_job_id
from quire.domain.vault_document import DocumentStatus, NewDocument, VaultDocument
from quire.pipeline.object_keys import attached_key, job_prefix
from quire.pipeline.vault.vault import Vault
from tests.pipeline.vault import traces
from tests.support.office_files import mail
from tests.support.vault_client import VaultClient
from tests.support.vault_fixtures import on_both
from tests.support.vault_running import TEAM, add, settled, vault_at
from tests.support.waiting import until

TABLE = b"ship,port,day\nAnna,Bremen,2026-01-02\nBerta,Oslo,2026-01-03\n"
NOTE = b"# Orders for the pilot\n\nThe pilot boards at the outer buoy at six.\n"
QUIET = {"LOCAL_CLASSIFIER": "0", "EMBEDDING_PROVIDER": "off", "VAULT_SWEEP_INTERVAL": "1d"}
NOT_FILED = [kind for kind in UnitKind if kind is not UnitKind.VAULT]


async def _all(vault: Vault) -> dict[str, VaultDocument]:
    return {row.filename: row for row in (await (await vault.catalog()).list(TEAM)).documents}


@on_both
async def test_attachments_are_documents_that_are_named_and_found(
    alpha: VaultClient, make_pdf: Any, catalog_kind: str
) -> None:
    files = {
        "report.pdf": make_pdf("The hydrographer's report about sandbanks."),
        "ships.csv": TABLE + b"Carla,Gent,2026-01-04\n",
        "box.zip": b"PK\x05\x06" + bytes(18),
    }
    document = await alpha.kept(
        "letter.eml", mail("Please read the sandbank report.", files=files).as_bytes()
    )
    attached = {one["filename"]: one["document_id"] for one in document["attachments"]}

    assert (document["status"], document["type"], document["parent_id"]) == ("completed", "eml", None)
    assert set(attached) == {"report.pdf", "ships.csv"}
    report = await alpha.settled(attached["report.pdf"])
    assert (report["state"], report["source"], report["type"]) == ("completed", "attachment", "pdf")
    assert (report["parent_id"], report["attachments"]) == (document["document_id"], [])
    assert report["title"]
    original = await alpha.get(f"/documents/{report['document_id']}/download")
    assert original.body == files["report.pdf"]
    hits = (await alpha.get("/search?q=hydrographer")).json["hits"]
    assert [hit["document"]["document_id"] for hit in hits] == [report["document_id"]]

    gone = await alpha.ask("DELETE", f"/documents/{document['document_id']}")
    assert gone.status == 204
    stays = await alpha.document(report["document_id"])
    assert (stays["status"], stays["parent_id"]) == ("completed", document["document_id"])
    assert (await alpha.get(f"/documents/{document['document_id']}")).status == 404


async def test_attachment_is_made_once_when_the_mail_is_split_and_filed_again(
    tmp_path: Path, database: dict[str, str]
) -> None:
    async with vault_at(tmp_path, **QUIET, **database) as (one, vault):
        mail_id = await add(vault, mail("Twice.", files={"a.csv": TABLE, "b.md": NOTE}).as_bytes())
        first = await settled(vault, mail_id)
        before = await _all(vault)
        await settled(vault, before["a.csv"].id)
        await settled(vault, before["b.md"].id)
        job = await one.engine.job(TEAM, conversion_job_id(TEAM, mail_id))
        assert await one.engine.retry(job, f"{job.id}-split") == "started"
        second = await settled(vault, mail_id, 2)
        after = await _all(vault)
        prefix = job_prefix(conversion_job_id(TEAM, before["a.csv"].id))
        originals = [key for key in await vault.parts.objects.keys(prefix) if "/original-" in key]

    assert {row.id for row in after.values()} == {row.id for row in before.values()}
    assert len(after) == 3
    assert after["a.csv"].attempt == 1
    assert second.metadata["attachments"] == first.metadata["attachments"]
    assert len(originals) == 1


async def test_every_attachment_is_made_when_whoever_files_the_mail_dies_half_way(
    tmp_path: Path, database: dict[str, str]
) -> None:
    async with vault_at(tmp_path, kinds=NOT_FILED, **QUIET, **database) as (one, vault):
        mail_id = await add(vault, mail("Half.", files={"a.csv": TABLE, "b.md": NOTE}).as_bytes())
        job = await one.engine.wait(TEAM, conversion_job_id(TEAM, mail_id), 60)
        assert job.status is JobStatus.COMPLETED
        # The first row is written, and nothing after it.
        entry = job.info["attachments"][0]
        key, size = attached_key(entry["job_id"]), entry["size"]
        made = NewDocument(
            TEAM, entry["document_id"], "a.csv", key, entry["sha256"], size, source="attachment"
        )
        await (await vault.catalog()).create(made)
        assert set(await _all(vault)) == {"note.md", "a.csv"}
    async with vault_at(tmp_path, **QUIET, **database) as (_, vault):
        row = await settled(vault, mail_id)
        found = await _all(vault)
        ends = [await settled(vault, one["document_id"]) for one in row.metadata["attachments"]]

    assert set(found) == {"note.md", "a.csv", "b.md"}
    assert [(end.status, end.pages) for end in ends] == [(DocumentStatus.COMPLETED, 1)] * 2


async def test_attachment_that_the_team_has_is_that_document(tmp_path: Path) -> None:
    files = {"a.csv": TABLE, "copy.csv": TABLE, "b.md": NOTE}
    async with vault_at(tmp_path, **QUIET) as (_, vault):
        known = await add(vault, NOTE, name="orders.md")
        await settled(vault, known)
        mail_id = await add(vault, mail("Known.", files=files).as_bytes(), force=False)
        row = await settled(vault, mail_id)
        attached = [one["document_id"] for one in row.metadata["attachments"]]
        found = await _all(vault)
        unused = conversion_job_id(TEAM, attachment_document_id(TEAM, mail_id, 2))
        left = await vault.parts.objects.keys(job_prefix(unused))

    assert attached == [found["a.csv"].id, found["a.csv"].id, known]
    assert set(found) == {"note.md", "orders.md", "a.csv"}
    assert found["orders.md"].metadata.get("parent") is None
    assert left == []


async def test_attachment_stays_deleted_when_the_mail_is_tried_again(tmp_path: Path) -> None:
    async with vault_at(tmp_path, **QUIET) as (one, vault):
        mail_id = await add(vault, mail("Gone.", files={"a.csv": TABLE}).as_bytes())
        row = await settled(vault, mail_id)
        [attached] = row.metadata["attachments"]
        await settled(vault, attached["document_id"])
        await vault.delete(TEAM, attached["document_id"])
        job = await one.engine.job(TEAM, conversion_job_id(TEAM, mail_id))
        assert await one.engine.retry(job, f"{job.id}-split") == "started"
        await settled(vault, mail_id, 2)
        assert set(await _all(vault)) == {"note.md"}
        gone = conversion_job_id(TEAM, attached["document_id"])
        assert await vault.parts.objects.keys(job_prefix(gone)) == []


async def test_mails_in_mails_are_documents_up_to_the_bounds(tmp_path: Path) -> None:
    message = _nested(4)
    async with vault_at(tmp_path, MAX_ATTACHMENT_DEPTH="2", **QUIET) as (_, vault):
        outermost = await settled(vault, await add(vault, message.as_bytes()))
        chain = [outermost]
        while attached := chain[-1].metadata.get("attachments"):
            chain.append(await settled(vault, attached[0]["document_id"]))
        many = await settled(
            vault,
            await add(vault, mail("Many.", files={f"{n}.md": NOTE * n for n in range(1, 9)}).as_bytes()),
        )
    async with vault_at(tmp_path / "few", MAX_ATTACHMENTS="3", **QUIET) as (_, vault):
        few = await settled(
            vault, await add(vault, mail("Few.", files={f"{n}.md": NOTE * n for n in range(1, 9)}).as_bytes())
        )

    assert [row.metadata.get("parent") for row in chain] == [None, chain[0].id, chain[1].id]
    assert len(many.metadata["attachments"]) == 8
    assert len(few.metadata["attachments"]) == 3


async def test_nothing_is_left_of_attachments_when_a_mail_is_deleted_before_it_is_filed(
    tmp_path: Path,
) -> None:
    async with vault_at(tmp_path, kinds=NOT_FILED, **QUIET) as (one, vault):
        mail_id = await add(vault, mail("Never.", files={"a.md": b"# The manatee\n\nIt swims.\n"}).as_bytes())
        job = await one.engine.wait(TEAM, conversion_job_id(TEAM, mail_id), 60)
        assert job.status is JobStatus.COMPLETED
        assert traces.in_files(tmp_path / "data" / "objects", "manatee")
        await vault.delete(TEAM, mail_id)

        async def gone() -> bool:
            return await traces.in_redis(one, mail_id, "manatee") == []

        await until(gone, "no trace in Redis")
        assert traces.in_files(tmp_path / "data" / "objects", "manatee", mail_id) == []


async def test_password_of_the_mail_opens_its_attachments(tmp_path: Path, make_pdf: Any) -> None:
    locked = make_pdf("The combination of the safe.", password="x")
    async with vault_at(tmp_path, **QUIET) as (_, vault):
        mail_id = await add(vault, mail("Locked.", files={"a.pdf": locked}).as_bytes(), password="x")
        row = await settled(vault, mail_id)
        opened = await settled(vault, row.metadata["attachments"][0]["document_id"])

    assert (opened.status, opened.error and opened.error["code"]) == ("completed", "no_classifier")


def _nested(depth: int) -> EmailMessage:
    message = mail("innermost", files={"x.csv": TABLE})
    for level in range(depth):
        outer = mail(f"level {level}")
        outer.add_attachment(message)
        message = outer
    return message
