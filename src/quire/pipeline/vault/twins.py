"""Same team, same bytes: one document.

What is in an upload is known before its document is made. What a link leads to is known when it was fetched, and by
then there is a document that somebody waits for. Where another one has the same bytes, this one becomes a second id
of that one, in one transaction of the catalog; what else there was of it goes as if it had been deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quire.domain.job import MainJob, conversion_job_id
from quire.domain.vault_document import ConversionRecord, DocumentStatus, VaultDocument
from quire.pipeline.intake.upload_intake import whoever_answers
from quire.pipeline.object_keys import FILE_SCHEME

if TYPE_CHECKING:
    from quire.pipeline.vault.vault import Vault


class Twins:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def find(self, team: str, content_hash: str, document_id: str) -> VaultDocument | None:
        """The team's document with these bytes. None if there is none; from then on document_id answers for them."""
        catalog, jobs = await self._vault.catalog(), self._vault.parts.jobs
        found = await catalog.find_by_hash(team, content_hash)
        if found is not None:
            return found

        async def look(seen: str) -> tuple[VaultDocument | None, bool]:
            return await catalog.find(team, seen), True

        content = (team, self._vault.content_fingerprint(team, content_hash))
        return await whoever_answers(jobs, content, document_id, look)

    async def again(self, twin: VaultDocument, password: str | None) -> VaultDocument:
        """Sent once more, a document that could not be read is tried once more."""
        if twin.status is DocumentStatus.FAILED:
            return (await self._vault.reprocess(twin.team, twin.id, password)).document
        if twin.status is DocumentStatus.PENDING:  # whoever took it in may have died on the way
            await self._vault.advance(twin.team, twin.id)
        return twin

    async def settle(self, row: VaultDocument, job: MainJob) -> VaultDocument | None:
        """The row with what is known of its bytes since they were fetched.

        None if there is nothing to go on with: it has become a second id of its twin, or another attempt has begun.
        """
        if row.content_hash or not job.sha256:
            return row
        alone = (row.metadata.get("request") or {}).get("alone") or row.result_ref  # what was read once stays
        if not alone:
            twin = await self.find(row.team, job.sha256, row.id)
            if twin is not None and twin.id != row.id and await self._become(row, twin):
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

    async def _become(self, row: VaultDocument, twin: VaultDocument) -> bool:
        """False if the twin has gone meanwhile, or another attempt has begun."""
        vault, job_id = self._vault, conversion_job_id(row.team, row.id)
        # The twin first: whoever comes after a process that died between the two finds it at work, and goes on.
        sealed = (row.metadata.get("request") or {}).get("sealed")
        await self.again(twin, vault.parts.sealer.unseal(job_id, sealed).password)
        await vault.expect_deletion(job_id)
        if not await (await vault.catalog()).merge(row.team, row.id, row.attempt, into=twin.id):
            return False
        await vault.purge(row.team, row.id)
        await vault.tidy()
        return True
