"""The embed step: vectors of a document's title, summary, tags and chunks. Enrichment only: no status depends on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from quire.coordination.job_records import Claim
from quire.dispatch.remote_embedder import NoEmbedderFreeError
from quire.domain.payer import Payer, current_payer
from quire.domain.vault_document import TextToEmbed, Vector
from quire.errors import CatalogError, ObjectsError, QuireError
from quire.pipeline.vault.chunk_embedding import embed_chunks
from quire.pipeline.vault.classify_step import postpone, start_delay_s
from quire.pipeline.vault.embedder import Embedder
from quire.pipeline.vault.vault import Vault
from quire.providers.provider_protocol import RejectedError

Put = Callable[[Sequence[TextToEmbed], Sequence[Vector]], Awaitable[int]]

_LOG = logging.getLogger(__name__)
_LEAST_WAIT_S = 0.5
_QUERY_S = 3.0
_LONGEST_QUERY_CHARS = 500


async def run_embed(claim: Claim, vault: Vault) -> None:
    """Embeds one document, its tags and its chunks. Raises QuireError, which the worker counts as a failed attempt."""
    link, embedder = claim.job.vault, vault.embedder
    if link is None or embedder is None:
        await vault.steps.done(claim)
        return
    delay_s = await start_delay_s(vault)
    if delay_s > 0:
        await vault.parts.jobs.park(claim, vault.parts.clock.now() + delay_s, failed=False)
        return
    try:
        catalog = await vault.catalog()
        document = await catalog.document_to_embed(link.team, link.document_id, embedder.model)
        tags = await catalog.tags_to_embed(link.team, link.document_id, embedder.model)
        if document is not None:
            vectors = await _vectors(vault, embedder, [document], claim.job.payer)
            await catalog.put_document_vectors([document], vectors)
        if tags:
            await catalog.put_tag_vectors(tags, await _vectors(vault, embedder, tags, claim.job.payer))
        await embed_chunks(vault, embedder, (link.team, link.document_id), claim.job.payer)
    except NoEmbedderFreeError as busy:
        now = vault.parts.clock.now()
        await vault.parts.jobs.park(claim, now + max(busy.wait_s, _LEAST_WAIT_S), failed=False)
        return
    except (CatalogError, ObjectsError) as error:
        await postpone(claim, vault, error)
        return
    await vault.steps.done(claim)


class Backlog:
    """Documents and tags without a vector of the configured model, after a change of model or a failed embedding.

    Pages go round in a circle, so that a text that can't be embedded never blocks the others.
    """

    def __init__(self, vault: Vault, embedder: Embedder) -> None:
        self._vault = vault
        self._embedder = embedder
        self._after: dict[str, tuple[str, str] | None] = {"documents": None, "tags": None}

    async def next_page(self, limit: int) -> int:
        """Embeds the next `limit` texts; returns how many. Raises NoEmbedderFreeError or QuireError."""
        catalog, model = await self._vault.catalog(), self._embedder.model
        documents = await catalog.documents_to_embed_of_all_teams(
            model, after=self._after["documents"], limit=limit
        )
        tags = await catalog.tags_to_embed_of_all_teams(model, after=self._after["tags"], limit=limit)
        stored = 0
        for what, texts, put in (
            ("documents", documents, catalog.put_document_vectors),
            ("tags", tags, catalog.put_tag_vectors),
        ):
            self._after[what] = (texts[-1].team, texts[-1].id) if len(texts) == limit else None
            by_team: dict[str, list[TextToEmbed]] = {}
            for one in texts:
                by_team.setdefault(one.team, []).append(one)
            for some in by_team.values():
                stored += await self._embed(some, put)
        return stored

    async def _embed(self, texts: list[TextToEmbed], put: Put) -> int:
        try:
            return await put(texts, await _vectors(self._vault, self._embedder, texts))
        except QuireError as error:
            if error.retryable or len(texts) == 1:
                raise
        stored = 0
        for one in texts:  # one text is rejected; the others may be accepted
            with suppress(RejectedError):
                stored += await put([one], await _vectors(self._vault, self._embedder, [one]))
        return stored


async def query_vector(vault: Vault, team: str, query: str) -> Vector | None:
    """Returns the query's vector; None if no model answers in time (search then uses words only)."""
    embedder = vault.embedder
    if embedder is None or not query.strip():
        return None
    asked = asyncio.create_task(_query(vault, embedder, team, query), name="embed-query")
    # Not cancelled on timeout: the first call loads the model, and the next search profits.
    vault.background.add(asked)
    asked.add_done_callback(vault.background.discard)
    done, _ = await asyncio.wait({asked}, timeout=_QUERY_S)
    return asked.result() if done else None


async def _query(vault: Vault, embedder: Embedder, team: str, query: str) -> Vector | None:
    timeout_s = vault.parts.settings.vault.embedding_timeout_s
    try:
        found = await embedder.embed(
            [query[:_LONGEST_QUERY_CHARS]], team=team, timeout_s=timeout_s, payer=current_payer()
        )
    except NoEmbedderFreeError:
        return None
    except QuireError as error:
        _LOG.warning("query not embedded", extra={"code": error.code})
        return None
    return Vector(embedder.model, found[0])


async def _vectors(
    vault: Vault, embedder: Embedder, texts: Sequence[TextToEmbed], payer: Payer | None = None
) -> list[Vector]:
    timeout_s = vault.parts.settings.vault.embedding_timeout_s
    found = await embedder.embed(
        [one.text for one in texts], team=texts[0].team, timeout_s=timeout_s, payer=payer
    )
    return [Vector(embedder.model, values) for values in found]
