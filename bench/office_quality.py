"""Office files of the corpus beside the Markdown that another system made of them: similarity of the plain text.

    python bench/office_quality.py [--corpus ../shared/corpus] [--keep DIR]

Similarity is NID of `bench/quality.py`. A file that can't be read counts 0 and is named with its reason.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rapidfuzz.distance import Indel

from quality import ROOT, held_out, mean, text_of
from quire.errors import QuireError
from quire.reading.files.document_source import inspect
from quire.reading.pdf.page_reader import read_pages


def read(path: Path) -> tuple[str, str]:
    """The Markdown of all pages, and the reason where there is none."""
    try:
        count = inspect(str(path), None, 1_000_000).page_count
        return "\n\n".join(one.markdown for one in read_pages(str(path), None, range(1, count + 1))), ""
    except QuireError as error:
        return "", f"{type(error).__name__}: {error}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpus")
    parser.add_argument("--keep", type=Path, help="a folder to write the Markdown to")
    chosen = parser.parse_args()
    scores: dict[bool, list[float]] = {False: [], True: []}
    for truth in sorted((chosen.corpus / "office" / "markdown").glob("*.md")):
        path = chosen.corpus / "office" / "files" / truth.stem
        markdown, reason = read(path)
        score = float(
            Indel.normalized_similarity(text_of(truth.read_text(encoding="utf-8")), text_of(markdown))
        )
        scores[held_out(path.stem)].append(score)
        print(f"{score:.3f} {'held out' if held_out(path.stem) else 'seen':<8} {path.name} {reason}")
        if chosen.keep:
            chosen.keep.mkdir(parents=True, exist_ok=True)
            (chosen.keep / truth.name).write_text(markdown, encoding="utf-8", errors="replace")
    every = [*scores[False], *scores[True]]
    print(f"mean {mean(every):.3f}, seen {mean(scores[False]):.3f}, held out {mean(scores[True]):.3f}")


if __name__ == "__main__":
    main()
