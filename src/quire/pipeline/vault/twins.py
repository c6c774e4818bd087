"""Same team, same bytes: one document.

The bytes of an upload are known before its document is created. The bytes behind a link are known after the download,
when the caller already has a document id. If another document of the team has the same bytes, that id becomes an alias
of the other document (its *twin*) in one transaction of the catalog; the rest is removed as in a deletion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quire.domain.job import MainJob, conversion_job_id
from quire.domain.vault_document import ConversionRecord, DocumentStatus, VaultDocument
from quire.pipeline.intake.upload_intake import find_or_reserve_id
from quire.pipeline.object_keys import FILE_SCHEME

if TYPE_CHECKING:
    from quire.pipeline.vault.vault import Vault


class Twins:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def find(self, team: str, content_hash: str, document_id: str) -> VaultDocument | None:
        """Returns the team's document with these bytes; if there is none, registers `document_id` for them."""
        catalog, jobs = await self._vault.catalog(), self._vault.parts.jobs
        found = await catalog.find_by_hash(team, content_hash)
        if found is not None:
            return found

        async def look(seen: str) -> tuple[VaultDocument | None, bool]:
            return await catalog.find(team, seen), True

        content = (team, self._vault.content_fingerprint(team, content_hash))
        return await find_or_reserve_id(jobs, content, document_id, look)

    async def retry_failed(self, twin: VaultDocument, password: str | None) -> VaultDocument:
        """Starts a new attempt at a twin that failed, and returns the current row."""
        if twin.status is DocumentStatus.FAILED:
            return (await self._vault.reprocess(twin.team, twin.id, password)).document
        if twin.status is DocumentStatus.PENDING:  # the process that accepted it may have died
            await self._vault.advance(twin.team, twin.id)
        return twin

    async def resolve(self, row: VaultDocument, job: MainJob) -> VaultDocument | None:
        """Returns the row, with hash and size once the bytes were fetched.

        None if the row became an alias of its twin, or if another attempt has begun.
        """
        if row.content_hash or not job.sha256:
            return row
        alone = (row.metadata.get("request") or {}).get(
            "alone"
        ) or row.result_ref  # a document that was read before stays
        if not alone:
            twin = await self.find(row.team, job.sha256, row.id)
            if twin is not None and twin.id != row.id and await self._merge_into(row, twin):
                return None
        catalog = await self._vault.catalog()
        ref = job.content_ref
        fetched = ConversionRecord(
            content_ref=ref if ref and not ref.startswith(FILE_SCHEME) else None,
            content_hash=job.sha256,
            size_bytes=job.size,
        )
        noted = await catalog.note_conversion(row.team, row.id, row.attempt, fetched)
        return await catalog.find(row.team, row.id) if noted else None

    async def _merge_into(self, row: VaultDocument, twin: VaultDocument) -> bool:
        """Makes the row an alias of its twin. False if the twin was deleted meanwhile, or another attempt has begun."""
        vault, job_id = self._vault, conversion_job_id(row.team, row.id)
        # The twin first: if this process dies between the two steps, the next call repeats both.
        sealed = (row.metadata.get("request") or {}).get("sealed")
        await self.retry_failed(twin, vault.parts.sealer.unseal(job_id, sealed).password)
        await vault.expect_deletion(job_id)
        if not await (await vault.catalog()).merge(row.team, row.id, row.attempt, into=twin.id):
            return False
        await vault.purge(row.team, row.id)
        await vault.tidy()
        return True
