"""Embedding of the text chunks of vault documents: of one that was read, and of those that have no vectors yet.

What a batch has brought is stored before the next one is asked for, so a killed process loses one batch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from quire.domain.payer import Payer
from quire.errors import QuireError
from quire.pipeline.vault.embedder import Embedder
from quire.pipeline.vault.vault import Vault
from quire.providers.provider_protocol import RejectedError

_LOG = logging.getLogger(__name__)
_BATCH = 128
_DOCUMENTS_AT_ONCE = 64


async def embed_chunks(
    vault: Vault, embedder: Embedder, document: tuple[str, str], payer: Payer | None = None
) -> int:
    """Embeds the chunks of a document (team and id) that have no vector; returns how many.

    Raises NoEmbedderFreeError or QuireError; what was embedded before is stored.
    """
    settings, catalog = vault.parts.settings.vault, await vault.catalog()
    if not settings.embedding_chunks:
        return 0
    team, document_id = document
    asked = await catalog.chunks_to_embed(team, document_id, embedder.model, settings.embedding_chunks)
    if asked is None:
        return 0
    embedded = 0
    for batch in asked.batches(_BATCH):
        texts = list(batch.values())
        if texts:
            asked.add(list(batch), await _vectors(vault, embedder, team, texts, payer))
        if not await catalog.put_chunk_vectors(asked):
            break  # deleted, or read anew: then its new text is embedded
        embedded += len(texts)
    return embedded


async def _vectors(
    vault: Vault, embedder: Embedder, team: str, texts: Sequence[str], payer: Payer | None
) -> Sequence[Any]:
    """A vector for each text. One that the provider rejects gets none, so that it is not sent again and again."""
    timeout_s = vault.parts.settings.vault.embedding_timeout_s
    try:
        return await embedder.embed(texts, team=team, timeout_s=timeout_s, payer=payer)
    except RejectedError:
        if len(texts) == 1:
            return [(0.0,)]
    return [(await _vectors(vault, embedder, team, [one], payer))[0] for one in texts]


class ChunkBacklog:
    """Documents whose chunks have no vectors: those of earlier versions, of another model, or that failed.

    Goes round in a circle, the newest first, so that a document that can't be embedded never blocks the others.
    """

    def __init__(self, vault: Vault, embedder: Embedder) -> None:
        self._vault = vault
        self._embedder = embedder
        self._before_pk: int | None = None

    async def next_page(self, most_chunks: int) -> int:
        """Embeds the chunks of the next documents until there were `most_chunks`; returns how many.

        Raises NoEmbedderFreeError, or QuireError if a plane or the provider is away.
        """
        most = self._vault.parts.settings.vault.embedding_chunks
        if not most:
            return 0
        catalog = await self._vault.catalog()
        embedded = 0
        documents, before_pk = await catalog.documents_with_chunks_to_embed_of_all_teams(
            self._embedder.model, most, self._before_pk, _DOCUMENTS_AT_ONCE
        )
        for document in documents:
            try:
                embedded += await embed_chunks(self._vault, self._embedder, document)
            except QuireError as error:
                if error.retryable:
                    raise
                _LOG.warning("chunks not embedded", extra={"document_id": document[1], "code": error.code})
            if embedded >= most_chunks:
                return embedded  # the same part again: what is done is not in it any more
        self._before_pk = before_pk
        return embedded
