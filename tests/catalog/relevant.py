"""Filling a catalog with the labelled set, and asking it the questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quire.catalog.catalog import Catalog, CatalogOptions
from quire.catalog.search.ranking import Weights
from quire.clock import Clock
from quire.domain.vault_document import Classification, ContentPage, NewDocument, Vector
from quire.embedding.local_embedder import LocalEmbedder
from tests.catalog.relevance import MadeDocument, Question

TEAM = "readers"


async def fill(catalog: Catalog, embedder: LocalEmbedder, documents: Sequence[MadeDocument]) -> None:
    for one in documents:
        await catalog.create(NewDocument(TEAM, one.id, one.filename, content_ref=f"vault/{one.id}"))
        attempt = await catalog.begin_processing(TEAM, one.id)
        assert attempt is not None
        await catalog.set_content(TEAM, one.id, attempt, [ContentPage(one.text, 1)])
        found = Classification(one.title, "local", one.summary, tags=one.tags) if one.title else None
        await catalog.complete(TEAM, one.id, attempt, found)
    await embed_all(catalog, embedder)


async def embed_all(catalog: Catalog, embedder: LocalEmbedder) -> None:
    while texts := await catalog.documents_to_embed_of_all_teams(embedder.model, limit=100):
        made = await embedder.embed([one.text for one in texts])
        await catalog.put_document_vectors(texts, [Vector(embedder.model, values) for values in made])
    while texts := await catalog.tags_to_embed_of_all_teams(embedder.model, limit=100):
        made = await embedder.embed([one.text for one in texts])
        await catalog.put_tag_vectors(texts, [Vector(embedder.model, values) for values in made])


async def answers(
    options: CatalogOptions,
    clock: Clock,
    embedder: LocalEmbedder,
    questions: Sequence[Question],
    weights: Weights,
) -> list[list[str]]:
    """The ids found for each question, best first, with the mix weighted so."""
    catalog = await Catalog.open(replace(options, weights=weights), clock)
    found = []
    for question in questions:
        (values,) = await embedder.embed([question.text])
        vector = Vector(embedder.model, values) if weights.summary or weights.tags else None
        page = await catalog.search(TEAM, question.text, limit=20, query_vector=vector)
        found.append([hit.document.id for hit in page.hits])
    await catalog.close()
    return found
