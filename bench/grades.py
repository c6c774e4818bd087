"""How often pages that are called good are good, against documents of known text.

    python bench/grades.py CORPUS [--sets typeset,mixed,wild] [--ocr 0] [--pages 6]

CORPUS has folders as `corpus/README.md` describes them: PDFs, and `markdown/` with their text. A page is labelled by
the share of its words that the document's text has: good from 0.9, bad below 0.8, in doubt between. With `--ocr N` the
first N documents of each set are drawn, spoilt as scans are, and read by OCR instead. The thresholds of
`reading/grading` come from word lists; the two-letter bound and the normalisation of Arabic were changed after
looking at output of these documents, so the figures are not those of unseen pages.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from tests.reading.ocr import scans  # noqa: E402

from measuring import table  # noqa: E402
from quire.errors import QuireError  # noqa: E402
from quire.reading.grading.page_grade import Judgement, judge_ocr, judge_text  # noqa: E402
from quire.reading.ocr.ocr_stages import OcrOptions, recognise  # noqa: E402
from quire.reading.ocr.page_ocr import page_markdown  # noqa: E402
from quire.reading.ocr.picture_elements import arrange  # noqa: E402
from quire.reading.pdf.page_reader import read_pages  # noqa: E402
from quire.reading.pdf.page_render import RenderOptions, draw_page  # noqa: E402

GOOD, BAD = 0.9, 0.8
CONDITIONS = ("clean", "noisy", "low contrast", "turned 180")
DPI = 150


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--sets", default="typeset,mixed,wild")
    parser.add_argument("--ocr", type=int, default=0, help="documents of each set to read by OCR")
    parser.add_argument("--pages", type=int, default=6, help="pages of each document")
    asked = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    wrong: list[str] = []
    for name in asked.sets.split(","):
        for place, (document, truth) in enumerate(_documents(asked.corpus / name)):
            if asked.ocr and place >= asked.ocr:
                break
            for number in range(1, (1 if asked.ocr else asked.pages) + 1):
                found = _recognised(document, place) if asked.ocr else _read(document, number)
                if found is None:
                    break
                text, judged = found
                grade = judged.grade.value if judged.grade else "none"
                label, share = _label(text, truth)
                counts[grade, label] += 1
                if grade == "good" and label != "good":
                    wrong.append(f"{name}/{document.name} page {number}: {share:.2f}, {label}")
    labels = ("good", "doubt", "bad")
    rows = [
        [grade, *(str(counts[grade, label]) for label in labels)] for grade in ("good", "fair", "low", "none")
    ]
    table("Grades against labels", ["called", "is good", "in doubt", "is bad"], rows)
    called = sum(counts["good", label] for label in labels)
    if called:
        print(f"\nOf {called} called good, {100 * counts['good', 'good'] / called:.1f} % are good and")
        print(f"{100 * counts['good', 'bad'] / called:.1f} % are bad. To look at:")
        print("\n".join(wrong))


def _documents(folder: Path) -> Iterator[tuple[Path, str]]:
    """The PDFs that have a text of their own."""
    for path in sorted(folder.glob("**/*.pdf")):
        for name in (f"{path.stem}.md", f"{path.name}.md"):
            if (folder / "markdown" / name).exists():
                yield path, (folder / "markdown" / name).read_text()
                break


def _read(document: Path, number: int) -> tuple[str, Judgement] | None:
    try:
        reading = read_pages(str(document), None, [number])[0]
    except QuireError:
        return None
    return reading.markdown, judge_text(reading.text, reading.signals.garbled_ratio)


def _recognised(document: Path, place: int) -> tuple[str, Judgement] | None:
    picture = draw_page(str(document), None, 1, RenderOptions(dpi=DPI, color="gray"))
    spoilt = scans.SPOILERS[CONDITIONS[place % len(CONDITIONS)]](picture, place)
    found = recognise(spoilt, OcrOptions(dpi=DPI))
    text = page_markdown(arrange(found.seen))
    return text, judge_ocr(text, found.evidence)


def _label(text: str, truth: str) -> tuple[str, float]:
    ours, theirs = _words(text), _words(truth)
    total = ours.total()
    share = (ours & theirs).total() / total if total else 0.0
    return ("good" if share >= GOOD else "bad" if share < BAD else "doubt"), share


def _words(text: str) -> Counter[str]:
    plain = unicodedata.normalize("NFKC", text).casefold()
    return Counter(re.findall(r"\w+", re.sub(r"[*_#|`\\]", " ", plain)))


if __name__ == "__main__":
    main()
