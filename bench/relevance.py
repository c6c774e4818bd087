"""How good search is: full text alone, similarity alone, and both, on 200 labelled documents and 60 questions.

    python bench/relevance.py [--database sqlite|postgres] [--sweep]

MRR is one divided by the place of the first right answer, recall@5 the share of right answers among the first five,
both averaged over the questions. `--sweep` tries other weights of the mix, each with the questions cut into two halves,
and ends with each half asked with the weights that were best on the other: what can be expected of other questions.
The first lines are of long documents: the same 200 bound together by ten, with and without vectors of their chunks.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.catalog.relevance import Question, make, make_binders, score
from tests.catalog.relevant import answers, binder_answers, embed_chunks, fill, fill_binders
from tests.support.postgres import PostgresServer

from quire.catalog.catalog import Catalog, CatalogOptions
from quire.catalog.search.ranking import DEFAULT_WEIGHTS, Weights
from quire.clock import SystemClock
from quire.embedding.local_embedder import LocalEmbedder

ALONE = {"full text": Weights(1, 0, 0), "similarity": Weights(0, 0.8, 0.2), "both": DEFAULT_WEIGHTS}


async def measure(options: CatalogOptions, ways: dict[str, Weights]) -> dict[str, list[list[str]]]:
    documents, questions = make()
    embedder = LocalEmbedder()
    filling = await Catalog.open(options, SystemClock())
    await fill(filling, embedder, documents)
    await filling.close()
    found = {}
    for name, weights in ways.items():
        found[name] = await answers(options, SystemClock(), embedder, questions, weights)
    return found


async def measure_binders(options: CatalogOptions) -> None:
    binders, questions, right = make_binders()
    embedder = LocalEmbedder()
    catalog = await Catalog.open(options, SystemClock())
    await fill_binders(catalog, embedder, binders)
    for name in ("without vectors of chunks", "with vectors of chunks"):
        found, shown = await binder_answers(catalog, embedder, questions, right)
        halves = [score(questions[n::2], found[n::2]) for n in (0, 1)]
        of_all = score(questions, found)
        print(
            f"long documents, {name:26} {of_all.mrr:.3f} / {of_all.recall_at_5:.3f}, right page {shown:.3f}; "
            f"halves {halves[0].mrr:.3f} / {halves[0].recall_at_5:.3f}, "
            f"{halves[1].mrr:.3f} / {halves[1].recall_at_5:.3f}"
        )
        await embed_chunks(catalog, embedder)
    await catalog.close()


def table(questions: list[Question], found: dict[str, list[list[str]]]) -> None:
    categories = sorted({question.category for question in questions})
    print(f"{'':12}" + "".join(f"{name:>22}" for name in found))
    for category in ["all", *categories]:
        chosen = [n for n, one in enumerate(questions) if category in ("all", one.category)]
        cells = []
        for answered in found.values():
            one = score([questions[n] for n in chosen], [answered[n] for n in chosen])
            cells.append(f"{one.mrr:.3f} / {one.recall_at_5:.3f}")
        print(f"{category:12}" + "".join(f"{cell:>22}" for cell in cells))


def sweep(questions: list[Question], found: dict[str, list[list[str]]]) -> None:
    print("weights text/summary/tags: MRR and recall@5 of the even and the odd questions")
    for name, answered in found.items():
        halves = [score(questions[half::2], answered[half::2]) for half in (0, 1)]
        print(f"{name:18} " + "   ".join(f"{one.mrr:.3f} / {one.recall_at_5:.3f}" for one in halves))
    chosen = [
        max(found, key=lambda name: score(questions[half::2], found[name][half::2]).mrr) for half in (0, 1)
    ]
    unseen = score(questions, [found[chosen[1 - n % 2]][n] for n in range(len(questions))])
    print(f"best on the even ones {chosen[0]}, on the odd ones {chosen[1]}")
    print(f"each half with the other's best: {unseen.mrr:.3f} / {unseen.recall_at_5:.3f}")


def by_rank(first: list[list[str]], second: list[list[str]]) -> list[list[str]]:
    """Reciprocal rank fusion of two answers, for comparison: it knows the places and not how good each one was."""
    fused = []
    for left, right in zip(first, second, strict=True):
        worth: dict[str, float] = {}
        for found in (left, right):
            for place, one in enumerate(found):
                worth[one] = worth.get(one, 0.0) + 1 / (60 + place)
        fused.append(sorted(worth, key=lambda one: -worth[one]))
    return fused


def _ways(sweeping: bool) -> dict[str, Weights]:
    if not sweeping:
        return ALONE
    parts: Sequence[float] = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    return {
        f"{text:.2f}/{1 - text - tags:.2f}/{tags:.2f}": Weights(text, 1 - text - tags, tags)
        for text in parts
        for tags in (0.0, 0.1, 0.2)
        if text + tags < 0.95
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--sweep", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quire-relevance-") as folder:
        server = PostgresServer(Path(folder) / "data") if given.database == "postgres" else None
        url = server.fresh_database() if server else ""
        options = CatalogOptions(file=Path(folder) / "catalog.db", url=url)
        found = asyncio.run(measure(options, _ways(given.sweep)))
        url = server.fresh_database() if server else ""
        asyncio.run(measure_binders(CatalogOptions(file=Path(folder) / "binders.db", url=url)))
        if server:
            server.stop()
    questions = make()[1]
    if not given.sweep:
        found["by rank"] = by_rank(found["full text"], found["similarity"])
    (sweep if given.sweep else table)(questions, found)


if __name__ == "__main__":
    main()
