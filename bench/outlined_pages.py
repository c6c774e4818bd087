"""Scores headings on PDFs that have an outline, with the outline and the tags hidden from the reader.

    python bench/outlined_pages.py FOLDER [--runs 3] [--pages 8] [--show FILE] [--base CHECKOUT]

Each document is read in runs of pages that are spread over it. Its outline says which titles a page has; a title
counts if its words are on the page. `recall` is the share of these titles that are headings, `precision` the share
of headings that are such titles. A heading that the outline does not go down to counts as wrong too, so that precision
is only good for comparisons. Each document counts alike. `--show` writes the titles that are missing and the headings
that are none. `--base` reads with the source of another checkout.

Debian's documentation packages have many such PDFs (`apt-get download gnuplot-doc`, `dpkg-deb -x`).
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parent.parent
_NUMBER = re.compile(r"^\s*(?:(?:[IVXLC]+|[A-Z]|\d{1,3})(?:[-.](?:[A-Z]|\d{1,3}))*[.):]?\s+)?")
_LONGEST_PREFIX = 24
"""Letters of "Chapter 12" or "Appendix B" that a heading may have before its title."""


@dataclass(slots=True)
class Result:
    name: str
    right: int = 0
    missing: list[str] = field(default_factory=list)
    surplus: list[str] = field(default_factory=list)
    items: int = 0
    tables: int = 0

    @property
    def recall(self) -> float:
        wanted = self.right + len(self.missing)
        return self.right / wanted if wanted else 1.0

    @property
    def precision(self) -> float:
        found = self.right + len(self.surplus)
        return self.right / found if found else 1.0


def sample(count: int, runs: int, pages: int) -> list[int]:
    """Numbers of pages (from 1) in runs that are spread over the document."""
    if count <= runs * pages:
        return list(range(1, count + 1))
    starts = [round(run * (count - pages) / max(1, runs - 1)) for run in range(runs)]
    return sorted({start + at + 1 for start in starts for at in range(pages)})


def scored(path: Path, *, source: str, runs: int, pages: int) -> Result:
    sys.path.insert(0, source)
    import pymupdf

    from quire.domain.element import ElementKind
    from quire.reading.pdf import page_reader
    from quire.reading.pdf.block_matching import compact

    pymupdf.TOOLS.mupdf_display_errors(False)
    with pymupdf.open(path) as handle:
        numbers = sample(len(handle), runs, pages)
        titles: dict[int, set[str]] = {number: set() for number in numbers}
        for _, title, number in handle.get_toc():
            titles.setdefault(number, set()).add(compact(_NUMBER.sub("", title)))
        texts = {number: compact(handle[number - 1].get_text()) for number in numbers}
    page_reader.outline_titles = lambda handle: {}  # type: ignore[assignment]
    page_reader.is_tagged = lambda handle: False  # type: ignore[assignment]
    result = Result(path.name)
    kinds = (ElementKind.TITLE, ElementKind.HEADING)
    for reading in page_reader.read_pages(str(path), None, numbers):
        number = reading.number
        shown = [one for one in reading.elements if not one.repeated]
        heads = [(compact(_NUMBER.sub("", one.text)), one.text) for one in shown if one.kind in kinds]
        result.items += sum(one.kind is ElementKind.LIST_ITEM for one in shown)
        result.tables += sum(one.kind is ElementKind.TABLE for one in shown)
        wanted = {title for title in titles[number] if title and title in texts[number]}
        found = {title for key, _ in heads for title in wanted if _is_title(key, title)}
        result.right += len(found)
        result.missing += [f"{number}: {title}" for title in sorted(wanted - found)]
        result.surplus += [
            f"{number}: {text}" for key, text in heads if not any(_is_title(key, title) for title in wanted)
        ]
    return result


def _is_title(key: str, title: str) -> bool:
    return key == title or (key.endswith(title) and len(key) - len(title) <= _LONGEST_PREFIX)


def report(results: Sequence[Result], *, only_totals: bool) -> None:
    print(f"{'document':48} {'precision':>9} {'recall':>7} {'found':>6} {'right':>6} {'titles':>6}")
    for one in results if not only_totals else ():
        found, wanted = one.right + len(one.surplus), one.right + len(one.missing)
        print(f"{one.name[:48]:48} {one.precision:9.3f} {one.recall:7.3f} {found:6} {one.right:6} {wanted:6}")
    precision, recall = mean(one.precision for one in results), mean(one.recall for one in results)
    found = sum(one.right + len(one.surplus) for one in results)
    wanted = sum(one.right + len(one.missing) for one in results)
    right = sum(one.right for one in results)
    print(f"{'mean of documents':48} {precision:9.3f} {recall:7.3f} {found:6} {right:6} {wanted:6}")
    print(f"items {sum(one.items for one in results)}, tables {sum(one.tables for one in results)}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pages", type=int, default=8)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--base", type=Path, default=ROOT, help="a checkout to read with")
    parser.add_argument("--totals", action="store_true", help="without the rows of documents")
    parser.add_argument("--show", type=Path, help="a file for what is wrong")
    options = parser.parse_args(arguments)
    paths = sorted(options.folder.glob("*.pdf"))
    work = partial(scored, source=str(options.base / "src"), runs=options.runs, pages=options.pages)
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        results = pool.map(work, paths, chunksize=1)
    report(results, only_totals=options.totals)
    if options.show:
        wrong = [
            "\n".join([one.name, *(f"  - {t}" for t in one.missing), *(f"  + {t}" for t in one.surplus)])
            for one in results
        ]
        options.show.write_text("\n".join(wrong) + "\n")


if __name__ == "__main__":
    main()
