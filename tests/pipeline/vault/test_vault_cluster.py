"""The vault on a Redis Cluster, where every script must stay within one slot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quire.domain.job import UnitKind, conversion_job_id
from quire.errors import MissingError
from quire.pipeline.vault.vault_sweeper import VaultSweeper
from quire.simulator.simulator_thread import RunningSimulator
from tests.pipeline.vault import traces
from tests.support.coordination_servers import cluster
from tests.support.office_files import mail
from tests.support.serving import Server
from tests.support.vault_client import VaultClient
from tests.support.vault_fixtures import ai_settings
from tests.support.vault_links import follow, site
from tests.support.vault_running import TEAM, add, row_of, settled, vault_at
from tests.support.waiting import DEADLINE_S, until

MARKER = "megalosaurus"
NOTE = (
    f"# Report on the {MARKER}\n\nThe {MARKER} was seen on Holborn Hill on 2026-11-05 in the mud.\n".encode()
)


@pytest.fixture(scope="module")
def cluster_url() -> Iterator[str]:
    with cluster() as url:
        yield url


async def test_whole_life_of_a_document_on_a_cluster(
    tmp_path: Path, cluster_url: str, sim: RunningSimulator
) -> None:
    settings = ai_settings(sim) | {
        "REDIS_URL": cluster_url,
        "EMBEDDING_PROVIDER": "local",
        "VAULT_SWEEP_INTERVAL": "1d",
    }
    async with vault_at(tmp_path, **settings) as (one, vault):
        catalog = await vault.catalog()
        kept = await add(vault, b"# Another document\n\nIt stays where it is, with all that belongs to it.\n")
        document_id = await add(vault, NOTE)
        first = await settled(vault, document_id)
        await settled(vault, kept)
        embedder = vault.embedder
        assert embedder is not None

        async def embedded() -> bool:
            return await catalog.document_to_embed(TEAM, document_id, embedder.model) is None

        await until(embedded, "the document's vector")
        found = await catalog.search(TEAM, MARKER)
        sim.play({"rules": [{"fault": "server_error"}]})
        again = await vault.reprocess(TEAM, document_id)
        failed = await settled(vault, document_id, 2)
        sim.play({})
        outcomes = await asyncio.gather(*(vault.reprocess(TEAM, document_id) for _ in range(6)))
        mended = await settled(vault, document_id, 3)
        words = (MARKER, document_id, conversion_job_id(TEAM, document_id))
        assert await traces.in_redis(one, *words)

        await vault.delete(TEAM, document_id)

        async def gone() -> bool:
            return await traces.in_redis(one, *words) == []

        await until(gone, "no trace in Redis")
        assert traces.in_files(tmp_path / "data" / "objects", *words) == []
        assert await traces.in_catalog(one, *words) == []
        with pytest.raises(MissingError):
            await vault.delete(TEAM, document_id)
        assert (await row_of(vault, kept)).title == "Another document"
        assert await VaultSweeper(vault, "test").revive() == 0
        assert await VaultSweeper(vault, "test").embed() == 0

    assert (first.status, first.title) == ("completed", f"Report on the {MARKER}")
    assert [hit.document.id for hit in found.hits] == [document_id]
    assert (again.outcome, failed.status, (failed.error or {})["code"]) == ("started", "completed", "server")
    assert sorted(each.outcome for each in outcomes) == ["running"] * 5 + ["started"]
    assert (mended.title, mended.error) == (first.title, None)


async def test_twins_and_attachments_are_filed_on_a_cluster(tmp_path: Path, cluster_url: str) -> None:
    settings = {
        "REDIS_URL": cluster_url,
        "LOCAL_CLASSIFIER": "0",
        "EMBEDDING_PROVIDER": "off",
        "ALLOW_PRIVATE_URLS": "true",
    }
    async with site({"a.md": NOTE}) as base, vault_at(tmp_path, **settings) as (one, vault):
        first = await add(vault, NOTE)
        await settled(vault, first)
        second = await follow(vault, f"{base}/a.md")

        async def merged() -> bool:
            found = await vault.find(TEAM, second)
            return found is not None and found.id == first

        await until(merged, "a second id of the same document")
        row = await settled(
            vault, await add(vault, mail("Both.", files={"a.md": NOTE + b"More."}).as_bytes())
        )
        attached = await settled(vault, row.metadata["attachments"][0]["document_id"])

        async def gone() -> bool:
            return await traces.in_redis(one, second, conversion_job_id(TEAM, second)) == []

        await until(gone, "no trace of the second link")

    assert (attached.status, attached.metadata["parent"]) == ("completed", row.id)


async def test_rest_is_deleted_when_whoever_deletes_dies_half_way_on_a_cluster(
    tmp_path: Path, cluster_url: str
) -> None:
    settings = {"REDIS_URL": cluster_url, "LOCAL_CLASSIFIER": "0", "EMBEDDING_PROVIDER": "off"}
    async with vault_at(tmp_path, **settings) as (one, vault):
        document_id = await add(vault, NOTE)
        await settled(vault, document_id)
        job_id = conversion_job_id(TEAM, document_id)
        await vault.steps.mark_deleted(job_id)
        await (await vault.catalog()).delete(TEAM, document_id)
        await vault.steps.expire_at(job_id, vault.parts.clock.now())

        async def gone() -> bool:
            return await traces.in_redis(one, document_id, job_id) == []

        await until(gone, "the housekeeper's deletion")
        assert traces.in_files(tmp_path / "data" / "objects", job_id) == []


async def test_stale_document_is_taken_up_on_a_cluster(tmp_path: Path, cluster_url: str) -> None:
    settings = {
        "REDIS_URL": cluster_url,
        "LOCAL_CLASSIFIER": "0",
        "EMBEDDING_PROVIDER": "off",
        "VAULT_STALE_AFTER": "100ms",
        "VAULT_SWEEP_INTERVAL": "100ms",
    }
    kinds = [kind for kind in UnitKind if kind is not UnitKind.VAULT]
    async with vault_at(tmp_path, kinds=kinds, **settings) as (one, vault):
        document_id = await add(vault, NOTE)
        await one.engine.wait(TEAM, conversion_job_id(TEAM, document_id), 60)
        row = await settled(
            vault, document_id
        )  # no worker takes its `vault` unit: only the sweeper advances it

    assert (row.status, row.pages) == ("completed", 1)


async def test_documents_are_sent_found_and_tried_again_together_on_a_cluster(
    cluster_url: str,
    start_vault: Callable[..., Server],
    connect: Callable[..., VaultClient],
    sim: RunningSimulator,
) -> None:
    client = connect(start_vault(**ai_settings(sim), REDIS_URL=cluster_url))
    sim.play({"rules": [{"fault": "rejected"}]})
    async with client.session.get(f"{client.url}/documents/events") as news:
        live = await client.add("live.md", b"# Live\n\nIt is told of.\n")
        async with asyncio.timeout(DEADLINE_S):
            told = b""
            while f'"{live}", "status": "completed"'.encode() not in told:
                told += await news.content.readline()
    assert (await client.ask("DELETE", f"/documents/{live}")).status == 204
    texts = [f"# Letter {n}\n\nThe {MARKER} number {n} is on its way.\n".encode() for n in range(4)]
    answers = await asyncio.gather(*(client.put((f"{n}.md", text)) for n, text in enumerate(texts)))
    ids = [one.json["documents"][0]["document_id"] for one in answers]
    twins = await asyncio.gather(*(client.put(("twin.md", texts[0])) for _ in range(3)))
    unnamed = [await client.settled(one) for one in ids]
    sim.play({})

    bulk = await client.post("/documents/reprocess", json={"status": "needs_classification"})
    named = [await client.settled(one, 2) for one in ids]
    hits = (await client.get(f"/search?q={MARKER}")).json["hits"]
    keyed = [
        (await client.put(("k.md", b"# With a key\n\nText.\n"), headers={"Idempotency-Key": "k"})).json
        for _ in range(2)
    ]
    letters = await client.get("/dlq?queue=classify")
    removed = [await client.ask("DELETE", f"/documents/{one}") for one in ids]

    assert {one.json["documents"][0]["document_id"] for one in twins} == {ids[0]}
    assert [one["state"] for one in unnamed] == ["needs_classification"] * 4
    assert (bulk.status, bulk.json["started"]) == (202, 4)
    assert [one["title"] for one in named] == [f"Letter {n}" for n in range(4)]
    assert {hit["document"]["document_id"] for hit in hits} == set(ids)
    assert keyed[0]["documents"][0]["document_id"] == keyed[1]["documents"][0]["document_id"]
    assert letters.status == 200
    assert [one.status for one in removed] == [204] * 4
    assert (await client.get("/documents/counts")).json["total"] == 1
