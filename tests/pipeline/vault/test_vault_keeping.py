"""What the vault holds stays, whatever JOB_TTL says; what is deleted leaves no trace in any plane."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quire.bootstrap import Runtime
from quire.coordination import keys
from quire.coordination.answer_index import AnswerIndex
from quire.dispatch.answer_cache import AnswerCache, CachedAnswer
from quire.domain.job import conversion_job_id
from quire.errors import MissingError
from quire.pipeline.object_keys import job_prefix
from quire.simulator.simulator_thread import RunningSimulator
from tests.pipeline.vault import traces
from tests.support.running import at_rest
from tests.support.vault_fixtures import ai_settings
from tests.support.vault_running import TEAM, add, row_of, settled, vault_at
from tests.support.waiting import until

MARKER = "quetzalcoatlus"
NOTE = f"# Report on the {MARKER}\n\nThe {MARKER} was seen over the coast on 2026-01-05 and photographed.\n".encode()
QUIET = {"LOCAL_CLASSIFIER": "0", "EMBEDDING_PROVIDER": "off", "VAULT_SWEEP_INTERVAL": "1d"}


async def _forget_jobs(one: Runtime) -> None:
    """Redis lets go of all finished jobs, as it does after JOB_TTL."""
    for key in await one.connection.command("KEYS", "job:*"):
        await one.connection.command("DEL", key)


async def test_job_pages_and_objects_stay_when_their_time_is_up(
    tmp_path: Path, database: dict[str, str]
) -> None:
    async with vault_at(tmp_path, **QUIET, **database) as (one, vault):
        document_id = await add(vault, NOTE)
        row = await settled(vault, document_id)
        job_id = conversion_job_id(TEAM, document_id)
        before = await one.engine.job(TEAM, job_id)
        await _forget_jobs(one)

        job = await one.engine.job(TEAM, job_id)
        pages = await one.engine.pages(job)
        with pytest.raises(MissingError):
            await one.engine.job("another", job_id)
        await one.connection.command("ZADD", keys.EXPIRY, 1, job_id)

        async def asked() -> bool:
            return float(await one.connection.command("ZSCORE", keys.EXPIRY, job_id)) > 1

        await until(asked, "the housekeeper's look")
        original = await vault.parts.objects.get(row.content_ref)
        again = await vault.reprocess(TEAM, document_id)
        mended = await settled(vault, document_id, 2)

    assert (job.status, job.result, job.total_pages) == (before.status, before.result, 1)
    assert [page.number for page in pages] == [1]
    assert original == NOTE
    assert again.outcome == "started"
    assert (mended.status, mended.result_ref) == ("completed", row.result_ref)


async def test_reprocess_changes_nothing_when_it_is_refused(tmp_path: Path) -> None:
    async with vault_at(tmp_path, **QUIET) as (_, vault):
        document_id = await add(vault, NOTE)
        row = await settled(vault, document_id)
        catalog = await vault.catalog()
        await catalog.begin_processing(TEAM, document_id, seen=row.attempt)  # another request was first
        before = await catalog.get(TEAM, document_id)
        refused = await vault.reprocess(TEAM, document_id, password="another")
        assert refused.outcome == "running"
        assert await catalog.get(TEAM, document_id) == before


async def test_nothing_is_expired_by_a_process_without_the_vault(tmp_path: Path) -> None:
    from tests.support.running import quire

    async with vault_at(tmp_path, **QUIET) as (one, vault):
        document_id = await add(vault, NOTE)
        row = await settled(vault, document_id)
        job_id = conversion_job_id(TEAM, document_id)
        await _forget_jobs(one)
        await one.connection.command("ZADD", keys.EXPIRY, 1, job_id)
    async with quire(tmp_path) as plain:

        async def asked() -> bool:
            return float(await plain.connection.command("ZSCORE", keys.EXPIRY, job_id)) > 1

        await until(asked, "the housekeeper's look")
        assert await plain.parts.objects.get(row.content_ref) == NOTE


async def test_delete_leaves_no_trace_in_any_plane(
    tmp_path: Path, sim: RunningSimulator, database: dict[str, str]
) -> None:
    """With a model, so that there are kept answers too; one of its calls fails, so that there is a dead letter."""
    # One round only: an answer of a later round could arrive after the deletion, and it is deleted much later.
    settings = ai_settings(sim) | QUIET | database | {"CLASSIFY_MAX_ATTEMPTS": "1", "CLASSIFY_WAIT": "1s"}
    async with vault_at(tmp_path, **settings) as (one, vault):
        kept = await add(vault, b"# Another document\n\nIt stays where it is, with all that belongs to it.\n")
        await settled(vault, kept)
        document_id = await add(vault, NOTE)
        await settled(vault, document_id)
        sim.play({"rules": [{"fault": "server_error"}]})
        await vault.reprocess(TEAM, document_id)
        await settled(vault, document_id, 2)
        await at_rest(one)
        sim.play({})
        job_id = conversion_job_id(TEAM, document_id)
        words = (MARKER, document_id, job_id)
        assert await traces.in_redis(one, *words)
        assert traces.in_files(tmp_path / "data" / "objects", *words)
        assert await traces.in_catalog(one, *words)

        await vault.delete(TEAM, document_id)

        async def gone() -> bool:  # entries of a job that was just ended are taken out a moment later
            return await traces.in_redis(one, *words) == []

        await until(gone, "no trace in Redis")
        assert traces.in_files(tmp_path / "data" / "objects", *words) == []
        assert await traces.in_catalog(one, *words) == []
        with pytest.raises(MissingError):
            await vault.delete(TEAM, document_id)
        assert (await row_of(vault, kept)).title == "Another document"
        assert await vault.parts.objects.size((await row_of(vault, kept)).result_ref or "")


async def test_rest_is_deleted_when_whoever_deletes_dies_half_way(
    tmp_path: Path, database: dict[str, str]
) -> None:
    async with vault_at(tmp_path, **QUIET, **database) as (one, vault):
        document_id = await add(vault, NOTE)
        await settled(vault, document_id)
        job_id = conversion_job_id(TEAM, document_id)
        # What `delete` has done when its process dies right after the row is gone.
        await vault.steps.mark_deleted(job_id)
        await (await vault.catalog()).delete(TEAM, document_id)
        await vault.steps.expire_at(job_id, vault.parts.clock.now())

        async def gone() -> bool:
            return not await vault.parts.objects.keys(job_prefix(job_id)) and not await traces.in_redis(
                one, document_id, job_id
            )

        await until(gone, "the housekeeper's deletion")


async def test_late_answer_of_a_model_goes_when_its_document_was_deleted(tmp_path: Path) -> None:
    async with vault_at(tmp_path, **QUIET) as (one, vault):
        document_id = await add(vault, NOTE)
        await settled(vault, document_id)
        job_id = conversion_job_id(TEAM, document_id)
        await vault.delete(TEAM, document_id)
        # A call that was in flight meanwhile has ended, and its worker stored the answer.
        cache = AnswerCache(AnswerIndex(one.connection), vault.parts.objects, vault.parts.jobs, ttl_s=3600)
        await cache.keep("late", CachedAnswer(f"All about the {MARKER}.", 1.0), job_id)
        assert traces.in_files(tmp_path / "data" / "objects", MARKER)
        await vault.steps.expire_at(job_id, vault.parts.clock.now())

        async def gone() -> bool:
            return not traces.in_files(tmp_path / "data" / "objects", MARKER)

        await until(gone, "the end of the late answer")
        assert await cache.find(["late"]) is None


async def test_housekeeper_comes_back_soon_when_a_document_is_just_being_deleted(tmp_path: Path) -> None:
    async with vault_at(tmp_path, **QUIET) as (one, vault):
        document_id = await add(vault, NOTE)
        await settled(vault, document_id)
        job_id = conversion_job_id(TEAM, document_id)
        # What `delete` has done while it waits for a slow catalog to let go of the row.
        await vault.steps.mark_deleted(job_id)
        await one.connection.command("ZADD", keys.EXPIRY, 1, job_id)

        async def look() -> float:
            return float(await one.connection.command("ZSCORE", keys.EXPIRY, job_id)) / 1000

        async def asked() -> bool:
            return await look() > 1

        await until(asked, "the housekeeper's look")
        assert await look() - vault.parts.clock.now() < 120
        assert (await row_of(vault, document_id)).status == "completed"


async def test_document_that_is_deleted_while_it_is_read_stays_deleted(
    tmp_path: Path, make_pdf: Any, database: dict[str, str]
) -> None:
    async with vault_at(tmp_path, **QUIET, **database) as (one, vault):
        ids = [await add(vault, make_pdf(f"{MARKER} {n}", *["page"] * 5), name="a.pdf") for n in range(4)]
        for document_id in ids:
            await vault.delete(TEAM, document_id)

        async def at_rest() -> bool:
            depths = [await one.parts.queues.depth(kind) for kind in keys.QUEUES]
            return not any(depth["waiting"] or depth["delayed"] for depth in depths)

        await until(at_rest, "empty queues")
        catalog = await vault.catalog()
        assert [await catalog.find(TEAM, document_id) for document_id in ids] == [None] * 4
        assert await traces.in_catalog(one, MARKER) == []
