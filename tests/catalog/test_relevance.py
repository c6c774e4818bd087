"""That looking by words and by meaning together is better than either alone, on the labelled set."""

from __future__ import annotations

from pathlib import Path

from quire.catalog.catalog import Catalog, CatalogOptions
from quire.catalog.search.ranking import DEFAULT_WEIGHTS, Weights
from quire.embedding.local_embedder import LocalEmbedder
from tests.catalog.relevance import make, make_binders, score
from tests.catalog.relevant import answers, binder_answers, embed_chunks, fill, fill_binders
from tests.support.clocks import MovableClock


def test_labelled_set_is_the_same_each_time_it_is_made() -> None:
    documents, questions = make()
    assert (len(documents), len({one.id for one in documents}), len(questions)) == (200, 200, 60)
    assert make() == (documents, questions)
    known = {one.id for one in documents}
    assert all(question.answers <= known for question in questions)


async def test_both_together_beat_words_alone_and_meaning_alone(tmp_path: Path) -> None:
    # On one database: what is ranked here is ranked by the same code on the other (bench/relevance.py shows both).
    options, clock = CatalogOptions(file=tmp_path / "catalog.db"), MovableClock()
    catalog = await Catalog.open(options, clock)
    documents, questions = make()
    embedder = LocalEmbedder()
    await fill(catalog, embedder, documents)
    await catalog.close()
    ways = {"words": Weights(1, 0, 0), "meaning": Weights(0, 0.8, 0.2), "both": DEFAULT_WEIGHTS}
    found = {
        name: score(questions, await answers(options, clock, embedder, questions, weights))
        for name, weights in ways.items()
    }
    both = found.pop("both")
    for alone in found.values():
        assert both.mrr > alone.mrr + 0.02
        assert both.recall_at_5 > alone.recall_at_5 + 0.02
    assert both.mrr > 0.88


async def test_vectors_of_chunks_find_what_is_inside_long_documents_and_show_its_page(tmp_path: Path) -> None:
    catalog = await Catalog.open(CatalogOptions(file=tmp_path / "catalog.db"), MovableClock())
    binders, questions, right = make_binders()
    embedder = LocalEmbedder()
    await fill_binders(catalog, embedder, binders)
    without, shown_without = await binder_answers(catalog, embedder, questions, right)
    await embed_chunks(catalog, embedder)
    found, shown = await binder_answers(catalog, embedder, questions, right)
    await catalog.close()
    assert score(questions, found).mrr > score(questions, without).mrr + 0.05
    assert score(questions, found).recall_at_5 > score(questions, without).recall_at_5 + 0.05
    assert shown > shown_without + 0.05
