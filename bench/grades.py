"""How often pages that are called good are good, on labelled pages.

    python bench/grades.py CORPUS [--keep FOLDER] [--sets typeset,mixed,wild,gnarly,scans,spoilt] [--wrong]
    python bench/grades.py CORPUS --sets drawn,redrawn [--seed 1] [--pages 0-140] [--keep FOLDER] [--wrong]

CORPUS has folders as `corpus/README.md` describes them. A page is read as `quire convert` reads it without AI: its text
layer, or OCR where it has none or a bad one. `spoilt` has pages of `typeset` that are drawn, spoilt as scans are, and
read by OCR. `drawn` has pages that `drawn_scans.py` draws and spoils, in ten layouts and fourteen conditions; `redrawn`
has pages of `mixed`, `tables`, `gnarly` and `wild` whose text layer is read well, drawn and spoilt in the same ways,
another half of them and other conditions by the seed: their known text is what the reader of text PDFs reads.
`--keep` stores the readings, so that thresholds can be tried without reading again.

Labels. Pages with a known text are labelled by it: the words of the page that are in the known text, in its order
(longest common subsequence), must be .85 of the page's words, and, for documents of one page, .85 of the text's words.
Pages without one, and pages where that rule errs (the known text leaves out or moves captions, notes, formulas), were
compared with their pictures by eye; `bench/page_labels.tsv` has these labels and the reason of each.

A third of the documents, chosen by the SHA-256 of their names, is kept aside: no threshold was set by them. Of
drawn pages every other ten are kept aside.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import pickle
import random
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from rapidfuzz.distance import LCSseq  # noqa: E402
from tests.reading.ocr import scans, script_pages  # noqa: E402

from drawn_scans import CONDITIONS, DrawnScan, drawn_scan  # noqa: E402
from measuring import table  # noqa: E402
from quire.domain.element import Element  # noqa: E402
from quire.domain.page import Grade, PageClass  # noqa: E402
from quire.errors import QuireError  # noqa: E402
from quire.reading.files.document_source import inspect  # noqa: E402
from quire.reading.files.page_chunks import pack  # noqa: E402
from quire.reading.grading.layer_damage import layer_damage  # noqa: E402
from quire.reading.grading.page_doubts import PageKind, page_doubts  # noqa: E402
from quire.reading.grading.page_grade import Judgement, OcrEvidence, judge_ocr, judge_text  # noqa: E402
from quire.reading.layer_verdict import graded_layer  # noqa: E402
from quire.reading.local_reader import KEPT_LAYER  # noqa: E402
from quire.reading.ocr.layer_witness import layer_evidence  # noqa: E402
from quire.reading.ocr.ocr_options import OcrOptions  # noqa: E402
from quire.reading.ocr.ocr_stages import recognise  # noqa: E402
from quire.reading.ocr.page_ocr import best_reading  # noqa: E402
from quire.reading.ocr.scan_elements import lay_out_scan  # noqa: E402
from quire.reading.pdf.page_reader import read_pages  # noqa: E402
from quire.reading.pdf.page_render import DrawnPage, RenderOptions, draw_page, draw_scan  # noqa: E402

SETS = ("typeset", "mixed", "wild", "gnarly", "scans", "spoilt")
DRAWN = ("drawn", "redrawn")
LEAST = 0.85
LEAST_WORDS = 30
PAGES = 8
LABELS = Path(__file__).with_name("page_labels.tsv")
DPI = 200
SPOILERS = {
    "clean": scans.as_is,
    "noisy": scans.noisy,
    "blurred": scans.blurred,
    "pale": scans.pale,
    "photographed": script_pages.photographed,
    "coarse": lambda picture, seed: scans.noisy(
        picture.resize((picture.width // 2, picture.height // 2)), seed
    ).resize(picture.size),
}


@dataclass(frozen=True)
class Reading:
    """What a page was read as, and what it is judged by; `evidence` is that of OCR, where OCR read it."""

    name: str
    page: int
    markdown: str
    text: str
    debris: float
    elements: tuple[Element, ...]
    page_class: str
    evidence: OcrEvidence | None = None
    other: tuple[str, float, tuple[Element, ...]] | None = None  # the text layer that OCR was tried against
    compared: Judgement | None = None  # of a layer that the page does not draw, by its picture

    def judged(self) -> tuple[Judgement, str]:
        """The judgement as it is now, and the text that is kept."""
        layer = None
        if self.other is not None:
            text, debris, elements = self.other
            layer = judge_text(text, debris, page_doubts(elements), damage=layer_damage(text))
        if self.compared is not None:
            return self.compared, self.markdown
        if self.evidence is None:
            graphics = self.page_class == PageClass.HAS_GRAPHICS
            doubts = page_doubts(self.elements, PageKind(has_graphics=graphics))
            damage = layer_damage(self.text)
            found = judge_text(self.text, self.debris, doubts, has_graphics=graphics, damage=damage)
            return found, self.markdown
        evidence = replace(self.evidence, doubts=page_doubts(self.elements, PageKind(by_ocr=True)))
        found = judge_ocr(self.markdown, evidence)
        if layer is not None and self.page_class != PageClass.SCANNED:
            is_surer = (layer.confidence or 0.0) > (found.confidence or 0.0)
            if is_surer and len(self.other[0].split()) >= KEPT_LAYER * len(self.markdown.split()):
                return layer, self.other[0]
        return found, self.markdown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--first", type=int, default=1, help="begin with this page of each document")
    parser.add_argument("--keep", type=Path, help="a folder for the readings")
    parser.add_argument("--other-half", action="store_true", help="spoil the other half of `typeset`")
    parser.add_argument("--seed", type=int, default=1, help="of drawn pages")
    parser.add_argument("--pages", default="0-140", help="which of the drawn pages, from and to before")
    parser.add_argument("--wrong", action="store_true", help="list the pages whose grade and label disagree")
    asked = parser.parse_args()
    looked_at = _labels()
    rows: list[tuple[str, str, str, str, Reading]] = []
    for group in asked.sets.split(","):
        if group in DRAWN:
            found = _drawn_readings(asked, group)
        else:
            found = _readings(asked.corpus, group, asked.keep, asked.first, other_half=asked.other_half)
        for reading, truth, is_single in found:
            judged, text = reading.judged()
            if judged.grade is None:
                continue
            label = looked_at.get((reading.name, reading.page)) or _label(text, truth, is_single)
            if label is not None:
                rows.append((group, judged.grade.value, label, _part(reading.name), reading))
    for part in ("thresholds", "kept aside"):
        _print_part(part, [row for row in rows if row[3] == part])
    if asked.wrong:
        for group, grade, label, part, reading in rows:
            if (grade == "good") != (label == "good"):
                print(f"{part}: {group} {reading.name} page {reading.page}: called {grade}, is {label}")


def _print_part(part: str, rows: list[tuple[str, str, str, str, Reading]]) -> None:
    counts = Counter((grade, label) for _, grade, label, _, _ in rows)
    shown = [
        [grade, *(str(counts[grade, label]) for label in ("good", "bad"))]
        for grade in ("good", "fair", "low")
    ]
    by_set = Counter(group for group, *_ in rows)
    table(f"Grades, {part} ({len(rows)} pages: {dict(by_set)})", ["called", "is good", "is bad"], shown)
    called = counts["good", "good"] + counts["good", "bad"]
    good = sum(counts[grade, "good"] for grade in ("good", "fair", "low"))
    bad = sum(counts[grade, "bad"] for grade in ("good", "fair", "low"))
    if called and good:
        print(
            f"\nOf {called} called good, {100 * counts['good', 'good'] / called:.1f} % are. "
            f"Of {good} good pages, {100 * counts['good', 'good'] / good:.1f} % are called good. "
            f"Of {bad} bad pages, {counts['low', 'bad']} are called low and {counts['fair', 'bad']} fair.\n"
        )


def _part(name: str) -> str:
    if drawn := re.match(r"drawn/\d+-(\d+) ", name):
        return "kept aside" if int(drawn[1]) // 10 % 2 else "thresholds"
    return "kept aside" if hashlib.sha256(name.encode()).digest()[0] % 3 == 0 else "thresholds"


def _labels() -> dict[tuple[str, int], str]:
    if not LABELS.exists():
        return {}
    with LABELS.open() as file:
        return {(row["file"], int(row["page"])): row["label"] for row in csv.DictReader(file, delimiter="\t")}


def _readings(
    corpus: Path, group: str, keep: Path | None, first: int, *, other_half: bool = False
) -> Iterator[tuple[Reading, str | None, bool]]:
    """Every reading of a set, the known text of its document and whether that is of one page."""
    for path, truth in _documents(corpus, "typeset" if group == "spoilt" else group):
        if group == "spoilt" and hashlib.sha256(path.stem.encode()).digest()[1] % 2 != other_half:
            continue
        try:
            count = inspect(str(path), None, 1_000_000).page_count
        except QuireError:
            continue
        for number in range(first, min(count, first + PAGES - 1) + 1):
            file = keep / f"{group}__{path.name}__{number}.pickle" if keep else None
            if file and file.exists():
                reading = pickle.loads(file.read_bytes())
            else:
                reading = _spoilt(path) if group == "spoilt" else _read(path, number, group)
                if file:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(pickle.dumps(reading))
            if reading is not None:
                yield reading, truth, count == 1


def _drawn_readings(asked: argparse.Namespace, group: str) -> Iterator[tuple[Reading, str, bool]]:
    for scan in (
        _drawn(asked.corpus, asked.seed, asked.pages)
        if group == "drawn"
        else islice(_redrawn(asked.corpus, asked.seed), *_span(asked.pages))
    ):
        file = (
            asked.keep / f"{group}__{asked.seed}__{scan.name.replace('/', '_')}.pickle"
            if asked.keep
            else None
        )
        if file and file.exists():
            reading = pickle.loads(file.read_bytes())
        else:
            found = best_reading(
                DrawnPage(scan.picture, 72 / DPI), 1, OcrOptions(dpi=DPI, languages="eng+deu")
            )
            empty = Reading(
                scan.name, 1, found.laid.markdown, "", 0.0, found.laid.elements, PageClass.SCANNED
            )
            reading = replace(empty, evidence=found.found.evidence)
            if file:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(pickle.dumps(reading))
        yield reading, scan.text, True


def _drawn(corpus: Path, seed: int, pages: str) -> Iterator[DrawnScan]:
    return (drawn_scan(corpus, seed, number) for number in range(*_span(pages)))


def _span(pages: str) -> tuple[int, int]:
    first, _, after = pages.partition("-")
    return int(first), int(after)


def _redrawn(corpus: Path, seed: int) -> Iterator[DrawnScan]:
    """Pages with text as scans: those that the reader of text PDFs reads well, a half of them for each seed."""
    groups = ("mixed", "tables", "gnarly", "wild")
    paths = sorted(file for group in groups for file in corpus.glob(f"{group}/*/*.pdf"))
    random.Random(seed).shuffle(paths)  # so that the first ones stand for all
    for path in paths:
        for number in (1, 2, 4):
            chance = random.Random(f"{path.stem} {number} {seed}")
            if chance.random() < 0.5:
                continue
            try:
                found = read_pages(str(path), None, [number])[0]
            except QuireError:
                continue
            if found.page_class != PageClass.TEXT_ONLY or len(found.text.split()) < LEAST_WORDS:
                continue
            doubts = page_doubts(found.elements)
            if judge_text(found.text, found.signals.garbled_ratio, doubts).grade is not Grade.GOOD:
                continue
            picture = draw_page(str(path), None, number, RenderOptions(dpi=DPI, color="gray"))
            condition = chance.choice(tuple(CONDITIONS))
            spoilt = CONDITIONS[condition](picture, chance.randrange(1 << 30))
            yield DrawnScan(f"redrawn/{path.name} {number} ({condition})", spoilt, found.markdown)


def _documents(corpus: Path, group: str) -> Iterator[tuple[Path, str | None]]:
    folder = corpus / group
    for path in sorted((*folder.glob("pdf/*.pdf"), *folder.glob("files/*.pdf"), *folder.glob("files/*.png"))):
        names = (folder / "markdown" / f"{path.stem}.md", folder / "markdown" / f"{path.name}.md")
        yield path, next((name.read_text() for name in names if name.exists()), None)


def _read(path: Path, number: int, group: str) -> Reading | None:
    try:
        found = read_pages(str(path), None, [number])[0]
    except QuireError:
        return None
    debris = found.signals.garbled_ratio
    layer = Reading(
        f"{group}/{path.name}", number, found.markdown, found.text, debris, found.elements, found.page_class
    )
    is_low = layer.judged()[0].grade is Grade.LOW
    if found.is_unseen and not is_low and found.page_class not in (PageClass.SCANNED, PageClass.GARBLED):
        chunk = pack([found])
        page = graded_layer(
            chunk.pages[0], chunk.block, layer_evidence(str(path), None, number, OcrOptions())
        )
        layer = replace(layer, compared=Judgement(page.confidence, page.grade))
        is_low = page.grade is Grade.LOW
    if found.page_class not in (PageClass.SCANNED, PageClass.GARBLED) and not is_low:
        return layer
    render = RenderOptions(dpi=DPI, color="gray", max_px=6000, max_pixels=40_000_000)
    picture = draw_scan(str(path), None, number, render).picture
    is_refuted = layer.compared is not None
    other = (found.text, debris, found.elements) if found.markdown.strip() and not is_refuted else None
    return _by_ocr(replace(layer, compared=None), picture, other)


def _spoilt(path: Path) -> Reading:
    picture = draw_page(str(path), None, 1, RenderOptions(dpi=DPI, color="gray"))
    seed = int(hashlib.sha256(path.stem.encode()).hexdigest()[4:10], 16)
    how = list(SPOILERS)[seed % len(SPOILERS)]
    empty = Reading(f"spoilt/{path.name} ({how})", 1, "", "", 0.0, (), PageClass.SCANNED)
    return _by_ocr(empty, SPOILERS[how](picture, seed), None)


def _by_ocr(layer: Reading, picture, other) -> Reading:
    found = recognise(picture, OcrOptions(dpi=DPI, languages="eng+deu"))
    laid = lay_out_scan(layer.page, found.seen, found.rules, 72 / DPI)
    return replace(
        layer, markdown=laid.markdown, elements=laid.elements, evidence=found.evidence, other=other
    )


def _label(text: str, truth: str | None, is_single: bool) -> str | None:
    if truth is None:
        return None
    ours, theirs = _words(text), _words(truth)
    if not ours or not theirs:
        return "bad" if theirs and is_single else None
    common = LCSseq.similarity(ours, theirs)
    is_good = common >= LEAST * len(ours) and (not is_single or common >= LEAST * len(theirs))
    return "good" if is_good else "bad"


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = re.sub(r"<[^<>]*>", " ", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain))
    return re.findall(r"\w+", re.sub(r"[*_#|`\\]", " ", plain))


if __name__ == "__main__":
    main()
