"""Gives search the chunks and boxes of documents that an earlier version of Quire stored without them."""

from __future__ import annotations

import logging

from quire.domain.job import JobStatus
from quire.domain.vault_document import VaultDocument
from quire.errors import MissingError
from quire.pipeline.vault.document_texts import searchable_texts
from quire.pipeline.vault.vault import Vault

_LOG = logging.getLogger(__name__)


class PlaceBacklog:
    """Goes once through the documents, the newest first. A new process begins anew and finds only what is left."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._before_pk: int | None = None
        self.is_done = False

    async def next_page(self, limit: int) -> int:
        """Stores the texts of the next documents again; returns how many. Raises QuireError if a plane is away."""
        if self.is_done:
            return 0
        catalog = await self._vault.catalog()
        rows, before_pk = await catalog.without_places_of_all_teams(self._before_pk, limit)
        stored = 0
        for row in rows:
            stored += await self._store(row)
        self._before_pk, self.is_done = before_pk, before_pk is None
        return stored

    async def _store(self, row: VaultDocument) -> bool:
        """False if its conversion is not there, or another attempt has begun: that one stores the places itself."""
        job = await self._vault.conversion(row)
        if job is None or job.status is not JobStatus.COMPLETED or not job.result:
            return False
        if row.result_ref != job.result.get("key"):
            return False
        try:
            texts = await searchable_texts(self._vault.parts, job.result)
        except MissingError:
            _LOG.info("result of a document is gone", extra={"document_id": row.id})
            return False
        catalog = await self._vault.catalog()
        return await catalog.set_content(row.team, row.id, row.attempt, texts) is not None
