"""Office files of the corpus beside the Markdown that another system made of them: similarity of the plain text.

    python bench/office_quality.py [--corpus ../shared/corpus] [--keep DIR]

Similarity is NID of `bench/quality.py`. Each system has its own placeholder for a picture (`<!-- image -->` there,
`[Picture: its description]` here). The first figure takes both for the same sign, so that a placeholder that is
missing, surplus or at another place counts, and its wording does not; the second compares them letter by letter; the
third leaves them out. A file that can't be read counts 0.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from rapidfuzz.distance import Indel

from quality import ROOT, held_out, mean, text_of
from quire.errors import QuireError
from quire.reading.files.document_source import inspect
from quire.reading.pdf.page_reader import read_pages

_PICTURE = re.compile(r"<!-- image -->|\[Picture(?:: (?:[^\]\\\n]|\\.)*)?\]")
_SIGN = "▣"


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
    scores: dict[bool, list[tuple[float, float, float]]] = {False: [], True: []}
    for truth in sorted((chosen.corpus / "office" / "markdown").glob("*.md")):
        path = chosen.corpus / "office" / "files" / truth.stem
        markdown, reason = read(path)
        wanted = truth.read_text(encoding="utf-8")
        alike, as_written, without = (
            similarity(form(wanted), form(markdown)) for form in (_with_signs, str, _without_pictures)
        )
        scores[held_out(path.stem)].append((alike, as_written, without))
        part = "held out" if held_out(path.stem) else "seen"
        print(f"{alike:.3f} {as_written:.3f} {without:.3f} {part:<8} {path.name} {reason}")
        if chosen.keep:
            chosen.keep.mkdir(parents=True, exist_ok=True)
            (chosen.keep / truth.name).write_text(markdown, encoding="utf-8", errors="replace")
    every = [*scores[False], *scores[True]]
    for place, name in enumerate(("placeholders alike", "placeholders as written", "without placeholders")):
        shown = [mean([one[place] for one in part]) for part in (every, scores[False], scores[True])]
        print(f"mean, {name}: {shown[0]:.3f}, seen {shown[1]:.3f}, held out {shown[2]:.3f}")


def _with_signs(markdown: str) -> str:
    return _PICTURE.sub(_SIGN, markdown)


def _without_pictures(markdown: str) -> str:
    return _PICTURE.sub("", markdown)


def similarity(wanted: str, found: str) -> float:
    return float(Indel.normalized_similarity(text_of(wanted), text_of(found)))


if __name__ == "__main__":
    main()
