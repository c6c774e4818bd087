"""Round trips on the corpus: what is written from elements leads back to them, and to the places on the pages.

    python bench/round_trips.py [--corpus ../shared/corpus] [--every 1] [--pages 50] [--examples 5]

Every document is read in this process, without OCR. Markdown is parsed back by a CommonMark parser, HTML by an XML
parser, DoclingDocuments are validated by their schema; the words of chunks and citations are looked for on the page, at
their boxes, in the words that MuPDF has there. The last lines are the error of the estimated boxes of words.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from measuring import ROOT, table

sys.path.insert(0, str(ROOT))

from tests.support.round_trips import RoundTrips, check_document

from quire.errors import QuireError

_KINDS = (".pdf", ".docx", ".pptx", ".xlsx", ".xlsm", ".odt", ".html", ".doc", ".ppt", ".xls", ".eml")


def documents(corpus: Path) -> list[Path]:
    """The documents; Markdown files of the corpus are what the documents say."""
    return [one for one in sorted(corpus.rglob("*")) if one.suffix in _KINDS]


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpus")
    options.add_argument("--every", type=int, default=1)
    options.add_argument("--pages", type=int, default=50)
    options.add_argument("--examples", type=int, default=5)
    given = options.parse_args()
    trips, read, refused, without_places = RoundTrips(), 0, 0, list[str]()
    for path in documents(given.corpus)[:: given.every]:
        try:
            check_document(path, trips, given.pages)
            read += 1
        except QuireError:
            refused += 1
        except (RuntimeError, IndexError, ValueError) as error:  # MuPDF alone opens less than the reader does
            without_places.append(f"{path.name}: {error}")
    rows = [
        [name, str(count), str(trips.failed[name]), f"{100 * (1 - trips.failed[name] / count):.2f} %"]
        for name, count in sorted(trips.checked.items())
    ]
    print(
        f"{read} documents; {refused} that the reader refuses; places not checked in {len(without_places)}:"
    )
    print("\n".join(without_places))
    table("Round trips", ["what", "checked", "not led back", "led back"], rows)
    errors = sorted(trips.word_errors)
    if errors:
        shown = [f"{errors[int(len(errors) * share)]:.3f}" for share in (0.5, 0.95, 0.99)]
        print(f"\nEdges of {len(errors) // 2} words, error as a share of the height of the line:")
        print(f"median {shown[0]}, p95 {shown[1]}, p99 {shown[2]}\n")
    by_kind: dict[str, int] = {}
    for example in trips.examples:
        kind = example.partition(":")[0]
        by_kind[kind] = by_kind.get(kind, 0) + 1
        if by_kind[kind] <= given.examples:
            print(example)


if __name__ == "__main__":
    main()
