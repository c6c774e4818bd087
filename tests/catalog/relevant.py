"""Filling a catalog with the labelled set, and asking it the questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quire.catalog.catalog import Catalog, CatalogOptions
from quire.catalog.search.ranking import Weights
from quire.clock import Clock
from quire.domain.vault_document import Classification, ContentPage, NewDocument, Vector
from quire.embedding.local_embedder import LocalEmbedder
from tests.catalog.relevance import Binder, MadeDocument, Question

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


async def fill_binders(catalog: Catalog, embedder: LocalEmbedder, binders: Sequence[Binder]) -> None:
    """Their chunks get no vectors yet."""
    for one in binders:
        await catalog.create(NewDocument(TEAM, one.id, f"{one.id}.pdf", content_ref=f"vault/{one.id}"))
        attempt = await catalog.begin_processing(TEAM, one.id)
        assert attempt is not None
        pages = [ContentPage(page.text, number) for number, page in enumerate(one.pages, 1)]
        await catalog.set_content(TEAM, one.id, attempt, pages)
        summary = f"{len(pages)} letters; the first one begins: {one.pages[0].text[:150]}"
        found = Classification(f"Letters, {one.id}", "local", summary, tags=("letters",))
        await catalog.complete(TEAM, one.id, attempt, found)
    await embed_documents(catalog, embedder)


async def embed_all(catalog: Catalog, embedder: LocalEmbedder) -> None:
    await embed_documents(catalog, embedder)
    await embed_chunks(catalog, embedder)


async def embed_documents(catalog: Catalog, embedder: LocalEmbedder) -> None:
    while texts := await catalog.documents_to_embed_of_all_teams(embedder.model, limit=100):
        made = await embedder.embed([one.text for one in texts])
        await catalog.put_document_vectors(texts, [Vector(embedder.model, values) for values in made])
    while texts := await catalog.tags_to_embed_of_all_teams(embedder.model, limit=100):
        made = await embedder.embed([one.text for one in texts])
        await catalog.put_tag_vectors(texts, [Vector(embedder.model, values) for values in made])


async def embed_chunks(catalog: Catalog, embedder: LocalEmbedder) -> None:
    missing, _ = await catalog.documents_with_chunks_to_embed_of_all_teams(embedder.model, 2_000, limit=1_000)
    for team, document_id in missing:
        asked = await catalog.chunks_to_embed(team, document_id, embedder.model, 2_000)
        assert asked is not None
        for batch in asked.batches(128):
            asked.add(list(batch), await embedder.embed(list(batch.values())))
            assert await catalog.put_chunk_vectors(asked)


async def binder_answers(
    catalog: Catalog,
    embedder: LocalEmbedder,
    questions: Sequence[Question],
    right: Sequence[dict[str, set[int]]],
) -> tuple[list[list[str]], float]:
    """The ids found for each question, and the share of all right answers that are found and show a right page."""
    found, shown = [], 0
    for question, pages in zip(questions, right, strict=True):
        (values,) = await embedder.embed([question.text])
        vector = Vector(embedder.model, values)
        page = await catalog.search(TEAM, question.text, limit=20, query_vector=vector)
        found.append([hit.document.id for hit in page.hits])
        hits = [hit for hit in page.hits if hit.document.id in pages]
        shown += sum(hit.snippet is not None and hit.snippet.page in pages[hit.document.id] for hit in hits)
    return found, shown / sum(map(len, right))


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
