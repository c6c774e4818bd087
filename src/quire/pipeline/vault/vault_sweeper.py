"""The vault's sweeper: resumes stale documents that no job works on, a bounded number of times, then fails them.

It runs in every process that has the vault, which is safe because every write is compare-and-set. Embedding costs
money, so one process at a time embeds the backlog.
"""

from __future__ import annotations

import asyncio
import logging

from quire.dispatch.remote_embedder import NoEmbedderFreeError
from quire.domain.job import JobType
from quire.domain.vault_document import DocumentStatus, VaultDocument
from quire.errors import QuireError
from quire.pipeline.vault.chunk_embedding import ChunkBacklog
from quire.pipeline.vault.embed_step import Backlog
from quire.pipeline.vault.place_backlog import PlaceBacklog
from quire.pipeline.vault.vault import Vault

_LOG = logging.getLogger(__name__)
_AT_ONCE = 1_000
_EMBEDDED_AT_ONCE = 64
_PLACED_AT_ONCE = 20
_CHUNKS_AT_ONCE = 1_024


class GivenUpError(QuireError):
    """A document was resumed several times and made no progress."""

    code = "interrupted"
    retryable = True


class VaultSweeper:
    def __init__(self, vault: Vault, owner: str) -> None:
        self._vault = vault
        self._owner = owner
        self._backlog = Backlog(vault, vault.embedder) if vault.embedder else None
        self._chunks = ChunkBacklog(vault, vault.embedder) if vault.embedder else None
        self._places = PlaceBacklog(vault)
        self._interval_s = vault.parts.settings.vault.sweep_interval_s

    async def run(self) -> None:
        """Runs until cancelled. An outage of a plane postpones the work."""
        while True:
            await asyncio.sleep(self._interval_s)
            if self._vault.is_unused():
                continue
            try:
                await self.restore_lost()
                await self.revive()
                await self._vault.tidy()
                await self.store_places()
                await self.embed()
                await self.embed_chunks()
            except NoEmbedderFreeError:
                continue
            except QuireError as error:
                _LOG.warning("sweep postponed", extra={"code": error.code})

    async def restore_lost(self) -> int:
        """Puts back documents that a restart of the database has lost; returns how many. One process at a time."""
        return await self._vault.lost.compare_after_restart() if await self._holds_backlog() else 0

    async def revive(self) -> int:
        """Checks every stale document; returns how many were resumed or failed."""
        catalog = await self._vault.catalog()
        stale_after_s = self._vault.parts.settings.vault.stale_after_s
        handled = 0
        for row in await catalog.stale_of_all_teams(stale_after_s, limit=_AT_ONCE):
            if not await self._has_running_job(row):
                handled += await self._resume(row, stale_after_s)
        return handled

    async def embed(self) -> int:
        """Embeds a page of the backlog unless another process holds the lease; returns how many texts."""
        if self._backlog is None or not await self._holds_backlog():
            return 0
        return await self._backlog.next_page(_EMBEDDED_AT_ONCE)

    async def embed_chunks(self) -> int:
        """Embeds chunks of some documents that have no vectors of them; returns how many. One process at a time."""
        if self._chunks is None or not await self._holds_backlog():
            return 0
        return await self._chunks.next_page(_CHUNKS_AT_ONCE)

    async def store_places(self) -> int:
        """Stores chunks and boxes of some documents of an earlier version; returns how many. One process at a time."""
        if self._places.is_done or not await self._holds_backlog():
            return 0
        return await self._places.next_page(_PLACED_AT_ONCE)

    async def _holds_backlog(self) -> bool:
        """Whether this process works on the backlog of the vault; another one takes over when it ends."""
        vault = self._vault
        lease_s = max(2 * self._interval_s, 2 * vault.parts.settings.vault.embedding_timeout_s)
        return await vault.parts.workers.hold_embedding(self._owner, lease_s)

    async def _has_running_job(self, row: VaultDocument) -> bool:
        """Whether a job is running whose end will advance the document. Long conversions are not stale."""
        job = await self._vault.conversion(row)
        if job is not None and not job.status.terminal:
            return True
        step = await self._vault.steps.get(JobType.CLASSIFY, row.team, row.id, image=row.is_image)
        current = step is not None and step.vault is not None and step.vault.attempt == row.attempt
        return current and step is not None and not step.status.terminal

    async def _resume(self, row: VaultDocument, apart_s: float) -> bool:
        """Resumes or fails the document; False if a sweeper has resumed it less than apart_s ago."""
        vault = self._vault
        count = await vault.steps.count_revival(row.team, row.id, row.attempt, apart_s)
        if count is None:
            return False
        if count > vault.parts.settings.vault.max_revivals:
            catalog = await vault.catalog()
            error = GivenUpError(
                f"Processing was interrupted and resumed {count - 1} times without progress. "
                "Reprocess the document to try again."
            )
            if await catalog.fail(row.team, row.id, row.attempt, error.as_dict()):
                await vault.announce(row, DocumentStatus.FAILED)
            return True
        _LOG.info("stale document resumed", extra={"document_id": row.id, "times": count})
        try:
            await vault.advance(row.team, row.id)
        except QuireError as error:
            _LOG.warning("stale document not resumed", extra={"document_id": row.id, "code": error.code})
        except Exception:  # one document must not block the others; the resumption was counted above
            _LOG.exception("stale document not resumed", extra={"document_id": row.id})
        return True
