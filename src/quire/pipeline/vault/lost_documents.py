"""Documents whose row the catalog has lost, as a failover to a replica that lags does: found by their conversions.

The conversion's record is written before the caller is answered and has all that the row had then; its archived copy is
in the object plane as long as the document. It names its catalog, so that a process with another catalog adds nothing.
Not put back: what was edited since, aliases, and the time of acceptance.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from quire.coordination.job_records import attempt_of
from quire.domain.job import JobType, MainJob
from quire.domain.vault_document import DocumentStatus, NewDocument, VaultDocument
from quire.pipeline.object_keys import ALL_JOBS, RECORD
from quire.pipeline.vault.document_types import short_type

if TYPE_CHECKING:
    from quire.pipeline.vault.vault import Vault

_LOG = logging.getLogger(__name__)


class LostDocuments:
    """Safe for concurrent calls, also in several processes: a row is made once."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def compare_after_restart(self) -> int:
        """Puts back rows that are missing since the database was restarted or replaced; returns how many.

        Raises CatalogError, CoordinationError or ObjectsError; the next call does it again.
        """
        steps, run = self._vault.steps, await (await self._vault.catalog()).run()
        if not run or await steps.compared_run() == run:
            return 0
        restored = 0
        async for job_ids in steps.conversions():
            for job_id in job_ids:
                restored += await self.restore(job_id)
        await steps.set_compared_run(run)
        if restored:
            _LOG.warning("the database had lost documents; they were put back", extra={"documents": restored})
        return restored

    async def compare_all(self, *, dry_run: bool = False) -> int:
        """Compares with every archived record in the object plane as well; returns how many rows were missing."""
        known: set[str] = set()
        for key in await self._vault.parts.objects.keys(ALL_JOBS):
            job_id, _, name = key.removeprefix(ALL_JOBS).partition("/")
            if name == RECORD:
                known.add(job_id)
        async for job_ids in self._vault.steps.conversions():
            known.update(job_ids)
        lost = 0
        for job_id in sorted(known):
            lost += await self._lost(job_id) is not None if dry_run else await self.restore(job_id)
        return lost

    async def restore(self, job_id: str) -> bool:
        """Makes the row again of the document that this job converts; False if it is there, deleted, or not ours."""
        job = await self._lost(job_id)
        if job is None or job.vault is None:
            return False
        vault, catalog = self._vault, await self._vault.catalog()
        row, made = await catalog.create(_first_row(job))
        if not made:
            return False
        for seen in range(await self._attempt(job, row)):
            await catalog.begin_processing(row.team, row.id, seen=seen)
        if await vault.steps.is_deleted(job_id):  # while the row was made
            await catalog.delete(row.team, row.id)
            return False
        _LOG.warning("a lost document was put back", extra={"document_id": row.id})
        await vault.announce(row, DocumentStatus.PENDING)
        await vault.advance(row.team, row.id)
        return True

    async def _lost(self, job_id: str) -> MainJob | None:
        """The conversion, if its document was in this catalog, is no longer, and was not deleted."""
        job = await self._vault.archive.job(job_id)
        if job is None or job.vault is None or job.type is not JobType.MAIN:
            return None
        catalog, link = await self._vault.catalog(), job.vault
        if not link.catalog or link.catalog != catalog.identity:
            return None
        if await self._vault.find(link.team, link.document_id) is not None:
            return None
        return None if await self._vault.steps.is_deleted(job_id) else job

    async def _attempt(self, job: MainJob, row: VaultDocument) -> int:
        """The attempt that runs; the next one where the conversion has ended, so that its text is classified again."""
        attempt = attempt_of(job.retry_key) or (job.vault.attempt if job.vault else 1)
        if not job.status.terminal:
            return attempt
        for image in (False, True):
            step = await self._vault.steps.get(JobType.CLASSIFY, row.team, row.id, image=image)
            if step is not None and step.vault is not None:
                attempt = max(attempt, step.vault.attempt)
        return attempt + 1


def _first_row(job: MainJob) -> NewDocument:
    link = job.vault
    assert link is not None  # noqa: S101 - for mypy; asked by the caller
    return NewDocument(
        team=link.team,
        id=link.document_id,
        filename=job.filename,
        content_ref=job.content_ref or "",
        content_hash=job.sha256 or "",
        size_bytes=job.size or 0,
        kind=short_type(job.mime) if job.mime else "",
        content_type=job.mime or "",
        source=str(job.source.get("url") or "upload"),
        metadata={
            "request": {
                "options": job.options.as_dict(),
                "sealed": job.sealed,
                "source": job.source,
                "callback": job.has_callback,
                "payer": job.payer.as_text() if job.payer else None,
                "force": False,
                "alone": True,  # its id was answered to the caller, so it stays a document of its own
            }
        },
    )
