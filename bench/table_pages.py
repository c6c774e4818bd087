"""Scores tables on drawn pages: how like the known ones they are, how many are none, and the order of texts.

    python bench/table_pages.py [--seed 1] [--pages 250] [--readers layer,liteparse] [--keep FOLDER]

TEDS is `bench/quality.py`'s, on pages that have tables. `none found` counts pages with tables on which none was found,
`surplus` and `missing` tables on these pages, `false` tables on pages that have none. NID is the similarity of the
text in its known order. `drawn_tables.py` draws tables and what looks like one, `drawn_columns.py` texts side by side.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from rapidfuzz.distance import Indel  # noqa: E402

import drawn_columns  # noqa: E402
import drawn_tables  # noqa: E402
from quality import READERS, mean, table_similarity, tables_of, text_of  # noqa: E402

LAYOUTS = {**drawn_tables.LAYOUTS, **drawn_columns.LAYOUTS}


@dataclass(frozen=True, slots=True)
class Result:
    layout: str
    name: str
    wanted: int
    found: int
    teds: float
    order: float


def scored(number: int, *, seed: int, reader: str, keep: str | None) -> Result:
    page = drawn_tables.drawn_page(seed, number, LAYOUTS)
    with NamedTemporaryFile(suffix=".pdf") as file:
        file.write(page.pdf)
        file.flush()
        markdown, _ = READERS[reader](file.name, False)
    wanted, found = [[list(row) for row in table] for table in page.tables], tables_of(markdown)
    teds = table_similarity(wanted, found) if wanted else float("nan")
    if keep:
        stem = Path(keep) / page.name.replace(" ", "-")
        stem.with_suffix(".pdf").write_bytes(page.pdf)
        stem.with_suffix(".md").write_text(
            f"{markdown}\n\n<!-- {teds:.3f}\n{page.tables}\n-->", encoding="utf-8"
        )
    layout = page.name.split()[1]
    return Result(layout, page.name, len(wanted), len(found), teds, _similarity(page.text, markdown))


def _similarity(text: str, markdown: str) -> float:
    """That of the words in their order; the marks of lists don't count."""
    found = text_of(re.sub(r"^\s*- ", "", markdown, flags=re.M))
    return float(Indel.normalized_similarity(" ".join(text.split()), found))


def report(results: list[Result]) -> str:
    lines = [
        f"{'layout':<18} {'pages':>5} {'TEDS':>6} {'NID':>6} {'none':>5} {'surplus':>7} {'missing':>7} {'false':>5}"
    ]
    for layout in (*LAYOUTS, "all"):
        mine = [r for r in results if layout in ("all", r.layout)]
        if mine:
            lines.append(f"{layout:<18} {len(mine):>5} {_figures(mine)}")
    return "\n".join(lines)


def _figures(mine: list[Result]) -> str:
    with_tables = [r for r in mine if r.wanted]
    teds = format(mean([r.teds for r in with_tables]), ".3f") if with_tables else "-"
    none = sum(not r.found for r in with_tables)
    surplus = sum(max(0, r.found - r.wanted) for r in with_tables)
    missing = sum(max(0, r.wanted - r.found) for r in with_tables)
    false = sum(r.found for r in mine if not r.wanted)
    return f"{teds:>6} {mean([r.order for r in mine]):>6.3f} {none:>5} {surplus:>7} {missing:>7} {false:>5}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pages", type=int, default=250)
    parser.add_argument("--readers", default="layer")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", help="a folder to write each page and its Markdown to")
    chosen = parser.parse_args()
    if chosen.keep:
        Path(chosen.keep).mkdir(parents=True, exist_ok=True)
    for reader in chosen.readers.split(","):
        work = partial(scored, seed=chosen.seed, reader=reader, keep=chosen.keep)
        with multiprocessing.get_context("forkserver").Pool(chosen.processes) as pool:
            results = pool.map(work, range(chosen.pages), chunksize=8)
        print(f"{reader}, seed {chosen.seed}\n{report(results)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
