"""Stale documents: the sweeper resumes them, or fails them with a reason. No document waits for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from quire.bootstrap import Runtime
from quire.coordination import keys
from quire.domain.job import (
    JobSecrets,
    JobStatus,
    JobType,
    UnitKind,
    conversion_job_id,
    new_job_id,
    step_job_id,
)
from quire.domain.vault_document import DocumentStatus, NewDocument, VaultDocument
from quire.pipeline.object_keys import original_key
from quire.pipeline.vault.vault import Vault
from quire.pipeline.vault.vault_sweeper import VaultSweeper
from tests.support.vault_running import TEAM, add, row_of, settled, vault_at
from tests.support.waiting import until

NOTE = b"# The tide table of the northern harbour\n\nHigh water comes an hour later each day of the week.\n"
_PLAIN = {"LOCAL_CLASSIFIER": "0", "VAULT_STALE_AFTER": "100ms", "EMBEDDING_PROVIDER": "off"}
QUICK = _PLAIN | {"VAULT_SWEEP_INTERVAL": "100ms"}
NO_SWEEPER = _PLAIN | {"VAULT_SWEEP_INTERVAL": "1d"}


async def _row_without_a_job(vault: Vault) -> str:
    """What a process leaves behind that dies right after it wrote the row."""
    document_id = new_job_id()
    key = original_key(conversion_job_id(TEAM, document_id))
    await vault.parts.objects.put(key, NOTE)
    new = NewDocument(TEAM, document_id, "tides.md", key, "hash", len(NOTE), "md", "text/markdown", "upload")
    await (await vault.catalog()).create(new)
    return document_id


async def test_document_is_taken_up_when_its_maker_died_before_the_job(
    tmp_path: Path, database: dict[str, str]
) -> None:
    async with vault_at(tmp_path, **QUICK, **database) as (_, vault):
        row = await settled(vault, await _row_without_a_job(vault))

    _is_filed(row)


async def test_document_is_taken_up_when_its_job_was_lost(tmp_path: Path, database: dict[str, str]) -> None:
    kinds = [kind for kind in UnitKind if kind is not UnitKind.CLASSIFY]
    async with vault_at(tmp_path, kinds=kinds, **NO_SWEEPER, **database) as (one, vault):
        document_id = await add(vault, NOTE)

        async def waits_for_classification() -> bool:
            return await vault.steps.get(JobType.CLASSIFY, TEAM, document_id) is not None

        await until(waits_for_classification, "the classification's job")
        await one.connection.command("FLUSHALL")  # Redis was lost, whole
    async with vault_at(tmp_path, **QUICK, **database) as (_, vault):
        row = await settled(vault, document_id)

    _is_filed(row)


async def test_usable_document_is_classified_when_its_step_was_never_started(
    tmp_path: Path, database: dict[str, str]
) -> None:
    kinds = [kind for kind in UnitKind if kind is not UnitKind.CLASSIFY]
    async with vault_at(tmp_path, kinds=kinds, CLASSIFY_WAIT="0", **NO_SWEEPER, **database) as (one, vault):
        document_id = await add(vault, NOTE)
        row = await settled(vault, document_id)
        assert (row.error or {})["code"] == "classifying"
        # What a process leaves behind that dies when it has filed the text and before it starts the step.
        step = keys.JobKeys.of(step_job_id(JobType.CLASSIFY, TEAM, document_id))
        await one.connection.command("DEL", *step.all())
        assert await vault.advance(TEAM, document_id)
        assert await vault.steps.get(JobType.CLASSIFY, TEAM, document_id) is not None
        assert not await vault.advance(TEAM, document_id)


async def test_document_fails_with_a_reason_when_it_never_gets_further(
    tmp_path: Path, database: dict[str, str]
) -> None:
    kinds = [kind for kind in UnitKind if kind is not UnitKind.VAULT]
    async with vault_at(tmp_path, kinds=kinds, VAULT_MAX_REVIVALS="2", **NO_SWEEPER, **database) as (
        one,
        vault,
    ):
        document_id = await add(vault, NOTE)
        job = await _converted(one, document_id)
        await vault.parts.objects.put((job.result or {})["pages_key"], b"not the pages")
        sweeper = VaultSweeper(vault, "test")

        async def stale() -> bool:
            row = await row_of(vault, document_id)
            return row.is_stale(vault.parts.clock.now(), 0.1)

        await until(stale, "a stale document")
        claim = keys.vault_revived(TEAM, document_id, 1)
        await one.connection.command("SET", claim, 1, "PX", 600_000)
        handled = [await sweeper.revive()]  # the sweeper of another process has just resumed it
        for _ in range(4):
            await one.connection.command("DEL", claim)
            handled.append(await sweeper.revive())
        row = await row_of(vault, document_id)

    assert handled == [0, 1, 1, 1, 0]
    assert row.status is DocumentStatus.FAILED
    assert (row.error or {})["code"] == "interrupted"
    assert "2 times" in (row.error or {})["error"]


async def test_long_conversion_is_left_alone_when_it_is_stale(tmp_path: Path) -> None:
    async with vault_at(tmp_path, kinds=None, **NO_SWEEPER) as (_, vault):
        document_id = await add(vault, NOTE)

        async def stale() -> bool:
            row = await row_of(vault, document_id)
            return row.is_stale(vault.parts.clock.now(), 0.1)

        await until(stale, "a stale document")
        handled = [await VaultSweeper(vault, "test").revive() for _ in range(5)]
        row = await row_of(vault, document_id)

    assert handled == [0] * 5  # its job waits for a worker, and will end
    assert (row.status, row.attempt) == ("pending", 1)


async def test_document_fails_when_its_conversion_is_cancelled(tmp_path: Path) -> None:
    kinds = [UnitKind.VAULT]
    async with vault_at(tmp_path, kinds=kinds, **NO_SWEEPER) as (one, vault):
        document_id = await add(vault, NOTE)
        job = await one.engine.job(TEAM, conversion_job_id(TEAM, document_id))
        await one.engine.cancel(job)
        row = await settled(vault, document_id)

    assert (row.status, (row.error or {})["code"]) == ("failed", "cancelled")


async def test_document_completes_when_its_classification_is_cancelled(tmp_path: Path) -> None:
    kinds = [kind for kind in UnitKind if kind is not UnitKind.CLASSIFY]
    async with vault_at(tmp_path, kinds=kinds, **NO_SWEEPER) as (one, vault):
        document_id = await add(vault, NOTE)

        async def there() -> bool:
            return await vault.steps.get(JobType.CLASSIFY, TEAM, document_id) is not None

        await until(there, "the classification's job")
        step = await vault.steps.get(JobType.CLASSIFY, TEAM, document_id)
        assert step is not None
        assert await one.engine.cancel(step) is JobStatus.CANCELLED
        row = await settled(vault, document_id)

    assert (row.status, row.title, (row.error or {})["code"]) == ("completed", None, "cancelled")


async def test_late_result_of_an_older_attempt_changes_nothing(
    tmp_path: Path, database: dict[str, str]
) -> None:
    async with vault_at(tmp_path, **NO_SWEEPER, **database) as (_, vault):
        document_id = await add(vault, NOTE)
        await settled(vault, document_id)
        catalog = await vault.catalog()
        assert await catalog.begin_processing(TEAM, document_id, seen=1) == 2

        assert not await catalog.fail(
            TEAM, document_id, 1, {"error": "late", "code": "late", "retryable": False}
        )
        assert not await catalog.complete(TEAM, document_id, 1, None)
        await vault.advance(TEAM, document_id)
        row = await settled(vault, document_id, 2)

    _is_filed(row)
    assert row.attempt == 2


async def test_page_that_is_retried_brings_its_text_into_the_vault(tmp_path: Path, make_pdf: Any) -> None:
    async with vault_at(tmp_path, **NO_SWEEPER) as (one, vault):
        document_id = await add(
            vault, make_pdf("The first page of the log.", "The second page."), name="a.pdf"
        )
        before = await settled(vault, document_id)
        job = await one.engine.job(TEAM, conversion_job_id(TEAM, document_id))
        assert await one.engine.retry(job, f"{job.id}-p1") == "started"
        after = await settled(vault, document_id, 2)
        text = b"".join([piece async for piece in vault.parts.objects.stream(after.result_ref or "")])

    assert after.result_ref != before.result_ref
    assert b"first page of the log" in text


async def test_document_is_filed_when_only_its_conversion_is_retried(
    tmp_path: Path, make_pdf: Any, database: dict[str, str]
) -> None:
    async with vault_at(tmp_path, **NO_SWEEPER, **database) as (one, vault):
        document_id = await add(vault, make_pdf("The log of the pilot.", password="x"), name="a.pdf")
        failed = await settled(vault, document_id)
        job = await one.engine.job(TEAM, conversion_job_id(TEAM, document_id))
        sealed = vault.parts.sealer.seal(job.id, JobSecrets(password="x"))
        await vault.steps.reseal(job.id, sealed or "")
        assert await one.engine.retry(job, job.id) == "started"
        row = await settled(vault, document_id, 2)

    assert (failed.error or {})["code"] == "password_required"
    _is_filed(row)


async def _converted(one: Runtime, document_id: str) -> Any:
    job_id = conversion_job_id(TEAM, document_id)
    job = await one.engine.wait(TEAM, job_id, 60)
    assert job.status is JobStatus.COMPLETED
    return job


def _is_filed(row: VaultDocument) -> None:
    """Read and filed; there is no classifier here, which is another story."""
    assert (row.status, row.pages) == (DocumentStatus.COMPLETED, 1)
    assert row.result_ref
    assert (row.error or {})["code"] == "no_classifier"


async def test_nothing_is_made_when_the_vault_was_never_used(tmp_path: Path) -> None:
    async with vault_at(tmp_path, kinds=None, VAULT_SWEEP_INTERVAL="50ms") as (_, vault):
        sweeping = asyncio.create_task(VaultSweeper(vault, "test").run())
        done, _pending = await asyncio.wait([sweeping], timeout=0.3)
        assert not done
        assert vault.is_unused()
        await add(vault, NOTE)
        assert not vault.is_unused()
        sweeping.cancel()
