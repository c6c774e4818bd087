"""Scores headings on drawn documents (`drawn_headings.py`, `drawn_sheets.py`): how many are found, how many are none.

    python bench/heading_pages.py [--seed 1] [--documents 136] [--layouts bold,slides] [--keep FOLDER]

`levels` is the share of documents whose headings have one level for each type of theirs, the larger type the smaller
level. NID is that of the text. `items` is the share of items of lists that are items with their depth. `tables` counts
tables in documents that have none.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from typing import TYPE_CHECKING  # noqa: E402

from rapidfuzz.distance import Indel  # noqa: E402

if TYPE_CHECKING:
    from quire.domain.page import PageReading

from drawn_headings import LAYOUTS, DrawnDocument, drawn_document  # noqa: E402
from drawn_sheets import SHEETS  # noqa: E402
from quality import mean, text_of  # noqa: E402


@dataclass(frozen=True, slots=True)
class Result:
    layout: str
    right: int
    surplus: int
    missing: int
    levels: float
    order: float
    items: float
    tables: int


def scored(number: int, *, seed: int, keep: str | None) -> Result:
    from quire.domain.element import ElementKind
    from quire.reading.pdf.page_reader import read_pages

    drawn = drawn_document(seed, number)
    with NamedTemporaryFile(suffix=".pdf") as file:
        file.write(drawn.pdf)
        file.flush()
        readings = read_pages(file.name, None, range(1, drawn.pages + 1))
    elements = [one for reading in readings for one in reading.elements if not one.repeated]
    heads = _leveled(readings)
    wanted = [(level, _key(text)) for level, text in drawn.headings]
    pairs, missing, surplus = _paired(wanted, heads)
    markdown = "\n\n".join(reading.markdown for reading in readings)
    found = {(one.depth, _key(one.text)) for one in elements if one.kind is ElementKind.LIST_ITEM}
    items = [(depth, _key(text)) in found for depth, text in drawn.items]
    tables = sum(one.kind is ElementKind.TABLE for one in elements) if not drawn.has_tables else 0
    if keep:
        _keep(Path(keep), drawn, markdown, missing, surplus)
    return Result(
        drawn.name.split()[1],
        len(pairs),
        len(surplus),
        len(missing),
        float(_are_levels_one(pairs)),
        float(Indel.normalized_similarity(" ".join(drawn.text.split()).upper(), text_of(markdown).upper())),
        mean(items) if items else float("nan"),
        tables,
    )


def _leveled(readings: Sequence[PageReading]) -> list[tuple[int, str]]:
    """The headings with their levels in the document, as the merge gives them."""
    from quire.domain.element import ElementKind
    from quire.domain.heading_scheme import document_levels, page_marks

    marks = [page_marks(one.elements, one.markdown) for one in readings]
    found: list[tuple[int, str]] = []
    for reading, page, levels in zip(readings, marks, document_levels(marks), strict=True):
        known = {mark.place: level for mark, level in zip(page, levels, strict=True)}
        found += [
            (known.get(place, one.level), _key(one.text))
            for place, one in enumerate(reading.elements)
            if one.kind in (ElementKind.TITLE, ElementKind.HEADING) and not one.repeated
        ]
    return found


def _key(text: str) -> str:
    return "".join(text.split()).upper()


def _paired(
    wanted: Sequence[tuple[int, str]], found: Sequence[tuple[int, str]]
) -> tuple[list[tuple[int, int]], list[str], list[str]]:
    """The levels of headings that both have, the texts of those missing, and of those that are none."""
    rest, pairs, missing = list(found), [], []
    for level, text in wanted:
        same = next((one for one in rest if one[1] == text), None)
        if same is None:
            missing.append(text)
        else:
            rest.remove(same)
            pairs.append((level, same[0]))
    return pairs, missing, [text for _, text in rest]


def _are_levels_one(pairs: Sequence[tuple[int, int]]) -> bool:
    by_level: dict[int, set[int]] = {}
    for wanted, found in pairs:
        by_level.setdefault(wanted, set()).add(found)
    order = [by_level[level] for level in sorted(by_level)]
    return all(len(found) == 1 for found in order) and all(
        min(upper) < min(lower) for upper, lower in pairwise(order)
    )


def _keep(folder: Path, drawn: DrawnDocument, markdown: str, missing: list[str], surplus: list[str]) -> None:
    stem = folder / drawn.name.replace(" ", "-")
    stem.with_suffix(".pdf").write_bytes(drawn.pdf)
    stem.with_suffix(".md").write_text(
        f"{markdown}\n\n<!--\nmissing {missing}\nnone {surplus}\n-->\n", encoding="utf-8"
    )


def report(results: Sequence[Result]) -> str:
    lines = [
        f"{'layout':<18} {'docs':>4} {'precision':>9} {'recall':>6} {'levels':>6} {'NID':>6} {'items':>6} {'tables':>6}"
    ]
    for layout in (*LAYOUTS, *SHEETS, "all"):
        mine = [one for one in results if layout in ("all", one.layout)]
        if mine:
            lines.append(f"{layout:<18} {len(mine):>4} {_figures(mine)}")
    return "\n".join(lines)


def _figures(mine: Sequence[Result]) -> str:
    right, surplus, missing = (
        sum(getattr(one, name) for one in mine) for name in ("right", "surplus", "missing")
    )
    precision, recall = right / max(1, right + surplus), right / max(1, right + missing)
    items = mean([one.items for one in mine if one.items == one.items])
    shown = (mean([one.levels for one in mine]), mean([one.order for one in mine]), items)
    figures = " ".join(f"{'-' if f != f else format(f, '.3f'):>6}" for f in shown)
    return f"{precision:>9.3f} {recall:>6.3f} {figures} {sum(one.tables for one in mine):>6}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--documents", type=int, default=136)
    parser.add_argument("--layouts", help="only these")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", help="a folder to write each document and its Markdown to")
    chosen = parser.parse_args()
    if chosen.keep:
        Path(chosen.keep).mkdir(parents=True, exist_ok=True)
    names = (*LAYOUTS, *SHEETS)
    only = chosen.layouts.split(",") if chosen.layouts else names
    numbers = [n for n in range(chosen.documents) if names[n % len(names)] in only]
    work = partial(scored, seed=chosen.seed, keep=chosen.keep)
    with multiprocessing.get_context("forkserver").Pool(chosen.processes) as pool:
        results = pool.map(work, numbers, chunksize=4)
    print(f"seed {chosen.seed}\n{report(results)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
