"""Compares the Markdown of every page of the corpus with that of another checkout, page by page.

    python bench/page_diff.py --base ../base [--sets typeset,mixed,tables,wild,gnarly,odd] [--keep DIR] [--show FILE]

The other checkout is read by this environment with the other one's source, or by `--base-python`. The summary counts,
for each set, the pages that are equal, those that gained or lost words, and those with the same words in another form;
`elements` are pages of equal Markdown whose elements differ (where both checkouts have elements).
`--show` writes a unified diff of every page that differs, without the documents that are held out (see
`quality.held_out`).
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from quality import held_out

ROOT = Path(__file__).resolve().parent.parent
SETS = ("typeset", "mixed", "tables", "wild", "gnarly", "odd")
_WORD = re.compile(r"\w+")

READ = """
import hashlib, json, sys, time
import importlib
def load(*names):
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise SystemExit("no reader found")
try:
    import quire.reading.pool.warm_imports
except ImportError:
    pass
pages = load("quire.reading.pdf.page_reader", "quire.reading.pages")
document = load("quire.reading.files.document_source", "quire.reading.document")
options = pages.ReadOptions()
def digest(elements):
    return hashlib.sha256(repr(elements).encode("utf-8", "replace")).hexdigest() if elements else ""
for line in sys.stdin:
    path = line.rstrip("\\n")
    began = time.process_time()
    found = []
    try:
        count = document.inspect(path, None, 1_000_000).page_count
        for first in range(1, min(count, 400) + 1, 16):
            numbers = range(first, min(first + 16, count + 1))
            try:
                found += pages.read_pages(path, None, numbers, options)
            except Exception:
                for number in numbers:
                    try:
                        found += pages.read_pages(path, None, [number], options)
                    except Exception as error:
                        print("page", path, number, type(error).__name__, file=sys.stderr)
    except Exception as error:
        print(path, type(error).__name__, error, file=sys.stderr)
    out = {
        "path": path,
        "cpu_s": time.process_time() - began,
        "pages": [
            [r.number, r.reader, r.markdown, getattr(r, "words_missing", 0), digest(getattr(r, "elements", ()))]
            for r in found
        ],
    }
    print(json.dumps(out), flush=True)
"""


def files(corpus: Path, sets: list[str]) -> list[tuple[str, Path]]:
    found = []
    for name in sets:
        folder = corpus / name
        for path in sorted(folder.rglob("*.pdf")):
            found.append((name, path))
    return found


def read(python: Path, checkout: Path, paths: list[Path], timeout_s: float) -> dict[str, dict]:
    """Each document's pages by the Quire of that checkout; a document that takes too long or crashes is left out."""
    found: dict[str, dict] = {}
    left = list(paths)
    while left:
        with tempfile.TemporaryFile("w+") as out:
            process = subprocess.Popen(
                [str(python), "-c", READ],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "PYTHONPATH": str(checkout / "src")},
            )
            assert process.stdin is not None
            process.stdin.write("".join(f"{path}\n" for path in left))
            process.stdin.close()
            seen, quiet_since = 0, time.monotonic()
            while process.poll() is None:
                time.sleep(0.2)
                size = out.seek(0, 2)
                if size != seen:
                    seen, quiet_since = size, time.monotonic()
                elif time.monotonic() - quiet_since > timeout_s:
                    process.kill()
                    process.wait()
            out.seek(0)
            done = [json.loads(line) for line in out if line.endswith("\n")]
        found.update({one["path"]: one for one in done})
        left = left[len(done) + 1 :]  # the one after the last answer crashed or hung
    return found


def words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text))


def verdict(before: list, after: list) -> str:
    """How two readings of a page differ, each as `READ` writes it."""
    if before[2] == after[2]:
        return "elements" if before[4] and after[4] and before[4] != after[4] else "equal"
    old, new = words(before[2]), words(after[2])
    lost, gained = old - new, new - old
    if lost and gained:
        return "other words"
    if lost:
        return "fewer words"
    return "more words" if gained else "other form"


VERDICTS = ("equal", "elements", "other form", "more words", "fewer words", "other words", "missing")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--base-python", type=Path, default=Path(sys.executable))
    parser.add_argument("--this", type=Path, default=ROOT, help="the checkout to compare with the base")
    parser.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpus")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--keep", type=Path, help="a folder where readings of the base are kept between runs")
    parser.add_argument("--show", type=Path, help="a file to write the differing pages to")
    parser.add_argument("--timeout", type=float, default=120.0)
    chosen = parser.parse_args()
    todo = files(chosen.corpus, chosen.sets.split(","))
    paths = [path for _, path in todo]
    before = _kept(chosen, paths)
    after = read(Path(sys.executable), chosen.this, paths, chosen.timeout)
    counts: dict[str, Counter[str]] = {}
    shown: list[str] = []
    missing: list[str] = []
    for name, path in todo:
        count = counts.setdefault(name, Counter())
        old = {page[0]: page for page in before.get(str(path), {}).get("pages", [])}
        new = {page[0]: page for page in after.get(str(path), {}).get("pages", [])}
        for number in sorted(old.keys() | new.keys()):
            if number not in old or number not in new:
                count["missing"] += 1
                missing.append(
                    f"{name}/{path.name} page {number}: only in {'base' if number in old else 'this'}"
                )
                continue
            what = verdict(old[number], new[number])
            count[what] += 1
            if new[number][3]:
                missing.append(f"{name}/{path.name} page {number}: {new[number][3]} words missing")
            if what != "equal" and not held_out(path.stem):
                diff = difflib.unified_diff(
                    old[number][2].split("\n"), new[number][2].split("\n"), "base", "this", lineterm="", n=1
                )
                shown.append(
                    f"##### {name}/{path.name} page {number}: {what} ({new[number][1]})\n" + "\n".join(diff)
                )
    print(f"{'set':<8} {'pages':>6} " + " ".join(f"{v:>12}" for v in VERDICTS))
    for name, count in counts.items():
        print(f"{name:<8} {sum(count.values()):>6} " + " ".join(f"{count[v]:>12}" for v in VERDICTS))
    for line in missing:
        print(line)
    cpu = [sum(one["cpu_s"] for one in side.values()) for side in (before, after)]
    pages = [sum(len(one["pages"]) for one in side.values()) for side in (before, after)]
    print(
        f"CPU ms a page: base {1000 * cpu[0] / max(1, pages[0]):.2f}, this {1000 * cpu[1] / max(1, pages[1]):.2f}"
    )
    if chosen.show:
        chosen.show.write_text("\n\n".join(shown), encoding="utf-8", errors="replace")
    return 0


def _kept(chosen: argparse.Namespace, paths: list[Path]) -> dict[str, dict]:
    file = chosen.keep / "base.json" if chosen.keep else None
    if file and file.exists():
        found: dict[str, dict] = json.loads(file.read_text())
        if all(str(path) in found for path in paths):
            return found
    found = read(chosen.base_python, chosen.base, paths, chosen.timeout)
    for path in paths:
        found.setdefault(str(path), {"path": str(path), "cpu_s": 0.0, "pages": []})
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
