"""The same bytes by link and by upload: one document, whichever way they came, whenever a process dies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quire.domain.job import JobOptions, JobSecrets, JobStatus, UnitKind, conversion_job_id
from quire.domain.vault_document import DocumentStatus, VaultDocument
from quire.errors import MissingError
from quire.pipeline.object_keys import job_prefix
from quire.pipeline.vault.vault import Vault
from quire.pipeline.vault.vault_intake import VaultIntake
from tests.pipeline.vault import traces
from tests.support.running import at_rest, quire
from tests.support.vault_client import VaultClient
from tests.support.vault_fixtures import on_both
from tests.support.vault_links import follow, site
from tests.support.vault_running import TEAM, Submission, settled, vault_at
from tests.support.waiting import until

NOTE = b"# The dredging of the outer basin\n\nThe outer basin was dredged on 2026-04-02 to a depth of nine metres.\n"
QUIET = {
    "LOCAL_CLASSIFIER": "0",
    "EMBEDDING_PROVIDER": "off",
    "VAULT_SWEEP_INTERVAL": "1d",
    "ALLOW_PRIVATE_URLS": "true",
}


async def _all(vault: Vault) -> list[VaultDocument]:
    return list((await (await vault.catalog()).list(TEAM)).documents)


async def _known_as(vault: Vault, document_id: str, kept: str) -> None:
    """Waits until one id is an alias of another document."""

    async def merged() -> bool:
        found = await vault.find(TEAM, document_id)
        return found is not None and found.id == kept

    await until(merged, f"{document_id} as a second id of {kept}")


async def test_second_link_becomes_an_id_of_the_first_when_the_bytes_are_the_same(
    tmp_path: Path, database: dict[str, str]
) -> None:
    async with site({"a.md": NOTE, "b.md": NOTE}) as base, vault_at(tmp_path, **QUIET, **database) as found:
        one, vault = found
        first = await follow(vault, f"{base}/a.md")
        before = await settled(vault, first)
        second = await follow(vault, f"{base}/b.md")
        await _known_as(vault, second, first)
        job_id = conversion_job_id(TEAM, second)

        async def gone() -> bool:  # the worker that fetched it may still be at its last step
            left = await traces.in_redis(one, second, job_id)
            return not left and not await vault.parts.objects.keys(job_prefix(job_id))

        await until(gone, "no trace of the second but its id")
        assert await traces.in_catalog(one, second, job_id) == ["document_aliases"]
        assert [row.id for row in await _all(vault)] == [first]
        assert await vault.find("another", second) is None
        assert (await vault.reprocess(TEAM, second)).document.id == first
        await settled(vault, first, 2)
        await vault.delete(TEAM, second)
        assert await vault.find(TEAM, first) is None
        assert await traces.in_catalog(one, second, first) == []
        with pytest.raises(MissingError):
            await vault.delete(TEAM, second)

    assert (before.size_bytes, before.status, before.pages) == (len(NOTE), "completed", 1)
    assert before.content_hash


async def test_links_and_an_upload_are_one_document_when_they_come_at_once(
    tmp_path: Path, database: dict[str, str]
) -> None:
    async with site({"a.md": NOTE}) as base, vault_at(tmp_path, **QUIET, **database) as (_, vault):
        links = [follow(vault, f"{base}/a.md?{n}") for n in range(4)]
        ids = list(await asyncio.gather(*links, _upload(vault, NOTE)))

        async def one_left() -> bool:
            return len(await _all(vault)) == 1

        await until(one_left, "one document")
        [kept] = await _all(vault)
        row = await settled(vault, kept.id)
        found = [await vault.find(TEAM, one) for one in ids]
        again = await _upload(vault, NOTE)

    assert [one.id for one in found if one] == [kept.id] * 5
    assert (row.status, row.pages) == ("completed", 1)
    assert again == kept.id


async def test_upload_is_answered_with_the_document_of_a_link_when_it_has_its_bytes(tmp_path: Path) -> None:
    async with site({"a.md": NOTE}) as base, vault_at(tmp_path, **QUIET) as (_, vault):
        linked = await follow(vault, f"{base}/a.md")
        await settled(vault, linked)
        assert await _upload(vault, NOTE) == linked


async def test_link_has_a_document_of_its_own_when_that_was_asked_for(tmp_path: Path) -> None:
    async with site({"a.md": NOTE}) as base, vault_at(tmp_path, **QUIET) as (_, vault):
        first = await follow(vault, f"{base}/a.md")
        await settled(vault, first)
        forced = await follow(vault, f"{base}/a.md", force=True)
        keyed = await follow(vault, f"{base}/a.md", key="mine")
        called = await _called_back(vault, f"{base}/a.md")
        for document_id in (forced, keyed, called):
            assert (await settled(vault, document_id)).status == "completed"
        assert await follow(vault, f"{base}/a.md", key="mine") == keyed
        assert {row.id for row in await _all(vault)} == {first, forced, keyed, called}


async def test_failed_twin_is_tried_again_with_the_password_of_the_link(
    tmp_path: Path, make_pdf: Any
) -> None:
    locked = make_pdf("The soundings of the basin.", password="x")
    async with site({"a.pdf": locked}) as base, vault_at(tmp_path, **QUIET) as (_, vault):
        first = await follow(vault, f"{base}/a.pdf")
        failed = await settled(vault, first)
        second = await follow(vault, f"{base}/a.pdf", password="x")
        await _known_as(vault, second, first)
        opened = await settled(vault, first, 2)

    assert (failed.error or {})["code"] == "password_required"
    assert (opened.status, opened.pages) == ("completed", 1)


async def test_twin_is_found_after_the_conversion_when_nobody_looked_after_the_download(
    tmp_path: Path,
) -> None:
    """As where the link was fetched by a process without the vault, or by one that died right after it."""
    plain = [kind for kind in UnitKind if kind not in (UnitKind.VAULT, UnitKind.CLASSIFY, UnitKind.EMBED)]
    async with site({"a.md": NOTE}) as base:
        async with vault_at(tmp_path, **QUIET) as (_, vault):
            first = await _upload(vault, NOTE)
            await settled(vault, first)
        async with vault_at(tmp_path, kinds=None, **QUIET) as (_, vault):
            second = await follow(vault, f"{base}/a.md")
        async with quire(tmp_path, kinds=plain, ALLOW_PRIVATE_URLS="true") as one:
            job_id = conversion_job_id(TEAM, second)
            job = await one.engine.wait(TEAM, job_id, 60)
        async with vault_at(tmp_path, kinds=None, **QUIET) as (_, vault):
            row = await (await vault.catalog()).find(TEAM, second)
            await vault.advance(TEAM, second)
            await _known_as(vault, second, first)
            left = await vault.parts.objects.keys(job_prefix(job_id))
            again = await vault.advance(TEAM, second)

    assert job.status is JobStatus.COMPLETED
    assert row is not None
    assert (row.status, row.content_hash) == (DocumentStatus.PENDING, "")
    assert left == []
    assert not again


async def test_rest_of_a_link_goes_when_whoever_merges_it_dies_half_way(
    tmp_path: Path, database: dict[str, str]
) -> None:
    settings = QUIET | database | {"CLASSIFY_WAIT": "1s"}
    async with site({"a.md": NOTE}) as base, vault_at(tmp_path, **settings) as (one, vault):
        first = await _upload(vault, NOTE)
        await settled(vault, first)
        second = await follow(vault, f"{base}/a.md", force=True)
        job_id = conversion_job_id(TEAM, second)
        await settled(vault, second)
        await at_rest(one)  # the end of a step advances its document once more
        catalog = await vault.catalog()
        assert await catalog.begin_processing(TEAM, second) == 2
        # What is done when the process dies right after the transaction.
        await vault.expect_deletion(job_id)
        assert await catalog.merge(TEAM, second, 2, into=first)
        await vault.steps.expire_at(job_id, vault.parts.clock.now())

        async def gone() -> bool:
            left = await traces.in_redis(one, second, job_id)
            return not left and not await vault.parts.objects.keys(job_prefix(job_id))

        await until(gone, "the housekeeper's deletion")
        await _known_as(vault, second, first)
        assert await vault.parts.objects.keys(job_prefix(conversion_job_id(TEAM, first)))


@on_both
async def test_second_id_answers_over_http_to_its_team(alpha: VaultClient, beta: VaultClient) -> None:
    text = NOTE + b"Sent by two links.\n"
    async with site({"a.md": text, "b.md": text}) as base:
        taken = [
            (await alpha.post("/documents", json={"source": f"{base}/{name}"})).json["documents"][0]
            for name in ("a.md", "b.md")
        ]
        ids = [one["document_id"] for one in taken]

        async def one_document() -> bool:
            return len({(await alpha.document(one))["document_id"] for one in ids}) == 1

        await until(one_document, "one document")
        document = await alpha.settled(ids[0])
        other = next(one for one in ids if one != document["document_id"])
        place = f"/documents/{other}"
        original = await alpha.get(f"{place}/download")
        content = await alpha.get(f"{place}/content")
        bulk = await alpha.post("/documents/reprocess", json={"document_ids": [other]})
        await alpha.settled(document["document_id"], 2)
        walled = [
            await beta.get(place),
            await beta.get(f"{place}/content"),
            await beta.post(f"{place}/reprocess"),
            await beta.ask("DELETE", place),
        ]
        removed = await alpha.ask("DELETE", place)

    assert document["sha256"]
    assert original.body == text
    assert b"dredged" in content.body
    assert bulk.json["results"][0]["outcome"] == "started"
    assert [one.status for one in walled] == [404] * 4
    assert removed.status == 204
    assert (await alpha.get(f"/documents/{document['document_id']}")).status == 404
    assert (await alpha.get(place)).status == 404


async def _upload(vault: Vault, data: bytes) -> str:
    submission = Submission(team=TEAM, options=JobOptions(), filename="u.md")
    intake = VaultIntake(vault)
    upload = await intake.begin_upload(submission)
    async with upload.writer:
        await upload.write(data)
    return (await intake.accept_upload(submission, upload)).document.id


async def _called_back(vault: Vault, url: str) -> str:
    secrets = JobSecrets(source_url=url, callback_url=f"{url}?called")
    submission = Submission(team=TEAM, options=JobOptions(), secrets=secrets)
    return (await VaultIntake(vault).accept_source(submission)).document.id
