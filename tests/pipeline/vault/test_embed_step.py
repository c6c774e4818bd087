"""Vectors by the bundled model and by OpenAI's protocol. Whatever becomes of them, no document's status changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.dispatch.remote_embedder import NoEmbedderFreeError
from quire.domain.vault_document import Snippet
from quire.pipeline.vault.embed_step import query_vector
from quire.pipeline.vault.vault import Vault
from quire.pipeline.vault.vault_sweeper import VaultSweeper
from quire.simulator.simulator_thread import RunningSimulator
from tests.support.vault_running import TEAM, add, settled, vault_at
from tests.support.waiting import until

NOTE = b"# Contract for the delivery of apples\n\nThe orchard delivers apples and pears to the market every Friday.\n"
BY_OPENAI = {
    "EMBEDDING_PROVIDER": "openai",
    "EMBEDDING_MODEL": "small",
    "EMBEDDING_DIMENSIONS": "16",
    "OPENAI_API_KEY": "sk-test",
    "PRIMARY_ENGINE": "none",
    "SECONDARY_ENGINE": "none",
    "BREAKER_BASE_BACKOFF": "20ms",
    "BREAKER_MAX_BACKOFF": "50ms",
    "VAULT_SWEEP_INTERVAL": "1d",
}


async def _embedded(vault: Vault, document_id: str) -> None:
    assert vault.embedder is not None
    catalog, model = await vault.catalog(), vault.embedder.model

    async def has_vectors() -> bool:
        missing = await catalog.document_to_embed(TEAM, document_id, model)
        chunks = await catalog.has_chunks_to_embed(TEAM, document_id, model, 2_000)
        return missing is None and not chunks and not await catalog.tags_to_embed(TEAM, document_id, model)

    await until(has_vectors, f"vectors of {model}")


async def test_bundled_model_finds_by_meaning(tmp_path: Path) -> None:
    async with vault_at(tmp_path, VAULT_SWEEP_INTERVAL="1d") as (_, vault):
        apples = await add(vault, NOTE)
        cars = await add(
            vault, b"# Repair of the delivery van\n\nThe garage replaced the brakes on Monday.\n"
        )
        for one in (apples, cars):
            await settled(vault, one)
            await _embedded(vault, one)
        catalog = await vault.catalog()
        query = "fruit harvest"
        found = await catalog.search(TEAM, query, query_vector=await query_vector(vault, TEAM, query))

    assert found.hits
    assert found.hits[0].document.id == apples


async def test_hit_by_meaning_has_a_box_and_documents_of_an_earlier_version_get_vectors_of_their_chunks(
    tmp_path: Path, make_pdf: Any
) -> None:
    fruit, cars = (
        "The orchard sells apples, pears and plums.",
        "The garage repairs brakes and engines of cars.",
    )
    pages = ["\n".join([one] * 60) for one in (fruit, cars)]
    async with vault_at(tmp_path, VAULT_SWEEP_INTERVAL="1d") as (_, vault):
        document_id = await add(vault, make_pdf(*pages))
        await settled(vault, document_id)
        await _embedded(vault, document_id)
        catalog, query = await vault.catalog(), "automobile mechanic"

        async def shown() -> Snippet | None:
            vector = await query_vector(vault, TEAM, query)
            hits = (await catalog.search(TEAM, query, query_vector=vector)).hits
            return hits[0].snippet if hits else None

        async def forget(connection: AsyncConnection) -> None:
            await connection.execute(text("DELETE FROM document_chunk_embeddings"))

        first = await shown()
        await catalog._database.write(forget)
        bare = await shown()
        swept = [await VaultSweeper(vault, "test").embed_chunks() for _ in range(2)]
        again = await shown()

    assert first is not None
    assert (first.page, first.highlights) == (2, ())
    assert first.chunk is not None
    assert {(one.page, one.box is not None) for one in first.places} == {(2, True)}
    assert bare is None, "its title and summary say nothing of cars"
    assert swept[0] >= 2
    assert swept[1] == 0
    assert again == first


async def test_chunks_get_no_vectors_when_that_is_switched_off(tmp_path: Path, sim: RunningSimulator) -> None:
    settings = BY_OPENAI | {"OPENAI_BASE_URL": sim.openai_url, "EMBEDDING_CHUNKS": "0"}
    async with vault_at(tmp_path, **settings) as (_, vault):
        document_id = await add(vault, NOTE)
        await settled(vault, document_id)
        catalog = await vault.catalog()

        async def embedded() -> bool:
            missing = await catalog.document_to_embed(TEAM, document_id, "openai:small:16")
            return missing is None and not await catalog.tags_to_embed(TEAM, document_id, "openai:small:16")

        await until(embedded, "vectors of the document and its tags")
        swept = await VaultSweeper(vault, "test").embed_chunks()
        missing = await catalog.has_chunks_to_embed(TEAM, document_id, "openai:small:16", 1)

    assert (swept, missing) == (0, True)


async def test_vectors_come_from_openai_and_are_made_anew_after_a_change_of_model(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    settings = BY_OPENAI | {"OPENAI_BASE_URL": sim.openai_url}
    async with vault_at(tmp_path, **settings) as (_, vault):
        document_id = await add(vault, NOTE)
        row = await settled(vault, document_id)
        await _embedded(vault, document_id)
        assert vault.embedder is not None
        assert vault.embedder.model == "openai:small:16"
        vector = await query_vector(vault, TEAM, "apples")
        again = await query_vector(vault, TEAM, "apples")
        calls = sim.stats()["models"]["small"]["calls"]
    settings |= {"EMBEDDING_MODEL": "large", "VAULT_SWEEP_INTERVAL": "100ms"}
    async with vault_at(tmp_path, **settings) as (_, vault):
        await _embedded(vault, document_id)
        after = await settled(vault, document_id)

    assert vector is not None
    assert again is not None
    assert len(vector.values) == 16
    assert calls <= 4  # document, tags, and the query once
    assert sim.stats()["models"]["large"]["calls"] >= 1
    assert (after.status, after.attempt, after.title) == (row.status, 1, row.title)


async def test_document_stays_completed_when_embedding_fails(tmp_path: Path, sim: RunningSimulator) -> None:
    sim.play({"rules": [{"fault": "server_error"}]})
    settings = BY_OPENAI | {"OPENAI_BASE_URL": sim.openai_url, "JOB_MAX_ATTEMPTS": "2"}
    async with vault_at(tmp_path, **settings) as (one, vault):
        document_id = await add(vault, NOTE)
        row = await settled(vault, document_id)

        async def given_up() -> bool:
            step = await one.parts.jobs.get(f"embed-tags_{TEAM}_{document_id}")
            return step is not None and step.status.terminal

        await until(given_up, "the end of the embedding")
        step = await one.parts.jobs.get(f"embed-tags_{TEAM}_{document_id}")
        after = await settled(vault, document_id)
        vector = await query_vector(vault, TEAM, "apples")
        catalog = await vault.catalog()
        found = await catalog.search(TEAM, "apples", query_vector=vector)
        sim.play({})

        async def swept() -> bool:
            try:
                return await VaultSweeper(vault, "test").embed() > 0
            except NoEmbedderFreeError:  # the breaker is open for a moment
                return False

        await until(swept, "what failed was embedded later")

    assert step is not None
    assert (step.status, (step.error or {})["code"]) == ("failed", "server")
    assert (after.status, after.error, after.title) == ("completed", None, row.title)
    assert vector is None
    assert [hit.document.id for hit in found.hits] == [document_id]


async def test_nothing_is_embedded_and_the_document_is_found_by_its_words_when_the_team_has_reached_its_ceiling(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    settings = BY_OPENAI | {
        "OPENAI_BASE_URL": sim.openai_url,
        "AI_PRICES": json.dumps({"openai:small": {"input": 1_000_000, "output": 0}}),
        "MAX_COST_PER_TEAM": "0.5",
    }
    async with vault_at(tmp_path, **settings) as (one, vault):
        document_id = await add(vault, NOTE)
        row = await settled(vault, document_id)

        async def begun() -> bool:
            step = await one.parts.jobs.get(f"embed-tags_{TEAM}_{document_id}")
            return step is not None and not step.status.terminal and step.started_at is not None

        await until(begun, "the embedding to be begun")
        vector = await query_vector(vault, TEAM, "apples")
        catalog = await vault.catalog()
        found = await catalog.search(TEAM, "apples", query_vector=vector)
        calls = sim.stats()["models"].get("small", {}).get("calls", 0)

    assert calls == 0
    assert vector is None
    assert row.status == "completed"
    assert [hit.document.id for hit in found.hits] == [document_id]
