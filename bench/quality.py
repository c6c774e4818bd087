"""Scores of the local reader on documents with known content, beside other readers, with CPU time a page.

    python bench/quality.py [--corpus ../shared/corpus] [--sets typeset,mixed,tables,wild] [--readers quire,liteparse]
                            [--layout-python /tmp/layout/bin/python]

`quire` reads as the service does with `balanced` and without AI: pages that have no text layer, or a bad one, by OCR.
`fast` is the same with `READING_EFFORT=fast`, `layer` without OCR. `liteparse` is the layout reader alone, `mupdf`
plain text, `layout` PyMuPDF's layout model without OCR. The last needs an environment of its own (`peer_layout.py`
says why; `python -m venv /tmp/layout && /tmp/layout/bin/pip install pymupdf==2.0`) and is left out without
`--layout-python`.

NID is the similarity of the plain text (one minus the normalised insert/delete distance). TEDS is the
tree-edit similarity of the tables, the first with the first and so on; a missing or surplus one counts 0.
MHS is that of the headings with the content below them. `overall` is the mean, over documents, of the mean of
the scores that apply to each. The corpus keeps running headers and hyphens, so the reader is run with both
options off; `--as-shipped` leaves them on.

`filled` is TEDS with rows and columns left out that have no text, on both sides. The known text of some documents of
`tables` has an empty first row and an empty first column that are not on the page, so that a reading without a flaw has
a TEDS of .932 on that set.

`x layout` is how many pages a CPU-second reads against the layout model on the whole set, if that is among the readers.

A quarter of the documents is held out: those for which the first byte of the SHA-256 of the file's name (without
suffix) is divisible by 4. No rule may be set by looking at them. The table gives both parts.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import html
import json
import multiprocessing
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

from rapidfuzz.distance import Indel, Levenshtein

ROOT = Path(__file__).resolve().parent.parent
SETS = ("typeset", "mixed", "tables", "wild")
SCORES = ("overall", "NID", "TEDS", "MHS", "filled")
_EXACT_LIMIT = 6_000_000  # cells of the largest edit-distance table worth filling exactly


def held_out(name: str) -> bool:
    """Whether the document of this name (without suffix) is kept aside, to see whether rules were fitted."""
    return hashlib.sha256(name.encode()).digest()[0] % 4 == 0


# ---------------------------------------------------------------- trees


@dataclass
class Node:
    """A labelled ordered tree. Nodes with different tags never match; with the same tag, by their text."""

    tag: str
    text: str = ""
    children: list[Node] = field(default_factory=list)

    def count(self) -> int:
        return 1 + sum(child.count() for child in self.children)


def rename_cost(a: Node, b: Node) -> float:
    if a.tag != b.tag:
        return 1.0
    if not a.text and not b.text:
        return 0.0
    return float(Levenshtein.normalized_distance(a.text, b.text))


def _postorder(root: Node) -> tuple[list[Node], list[int]]:
    """Nodes in postorder and, for each, the index of its leftmost leaf."""
    nodes: list[Node] = []
    leftmost: list[int] = []

    def walk(node: Node) -> int:
        first = -1
        for child in node.children:
            left = walk(child)
            first = left if first == -1 else first
        nodes.append(node)
        leftmost.append(len(nodes) - 1 if first == -1 else first)
        return leftmost[-1]

    walk(root)
    return nodes, leftmost


def tree_distance(one: Node, two: Node) -> float:
    """The edit distance of two ordered trees (Zhang and Shasha), insertions and deletions at 1."""
    nodes1, left1 = _postorder(one)
    nodes2, left2 = _postorder(two)
    n, m = len(nodes1), len(nodes2)
    keys1 = sorted({left: i for i, left in enumerate(left1)}.values())
    keys2 = sorted({left: i for i, left in enumerate(left2)}.values())
    known = [[0.0] * m for _ in range(n)]
    renames: dict[tuple[str, str], float] = {}
    for i in keys1:
        li = left1[i]
        for j in keys2:
            lj = left2[j]
            width = j - lj + 2
            previous = [float(x) for x in range(width)]
            table = [previous]
            for x in range(li, i + 1):
                node1, from1 = nodes1[x], left1[x]
                row = [float(x - li + 1)]
                before = table[-1]
                whole1 = from1 == li
                base = table[from1 - li]
                found = known[x]
                for y in range(lj, j + 1):
                    at = y - lj
                    best = before[at + 1] + 1.0
                    other = row[at] + 1.0
                    if other < best:
                        best = other
                    from2 = left2[y]
                    if whole1 and from2 == lj:
                        node2 = nodes2[y]
                        if node1.tag != node2.tag:
                            cost = 1.0
                        elif node1.text == node2.text:
                            cost = 0.0
                        else:
                            pair = (node1.text, node2.text)
                            cost = renames.get(pair, -1.0)
                            if cost < 0:
                                cost = renames[pair] = rename_cost(node1, node2)
                        other = before[at] + cost
                        if other < best:
                            best = other
                        found[y] = best
                    else:
                        other = base[from2 - lj] + found[y]
                        if other < best:
                            best = other
                    row.append(best)
                table.append(row)
    return known[n - 1][m - 1]


def nested_distance(one: Node, two: Node) -> float:
    """The distance when children only match children of matched parents: an upper bound, for huge tables."""
    if one.tag != two.tag:
        return float(one.count() + two.count())
    a, b = one.children, two.children
    row = [0.0]
    for other in b:
        row.append(row[-1] + other.count())
    for child in a:
        size = child.count()
        fresh = [row[0] + size]
        for j, other in enumerate(b):
            fresh.append(
                min(row[j + 1] + size, fresh[j] + other.count(), row[j] + nested_distance(child, other))
            )
        row = fresh
    return rename_cost(one, two) + row[-1]


def tree_similarity(one: Node, two: Node) -> float:
    n, m = one.count(), two.count()
    distance = tree_distance(one, two) if n * m <= _EXACT_LIMIT else nested_distance(one, two)
    return max(0.0, 1.0 - distance / max(n, m))


# ---------------------------------------------------------------- Markdown to what is scored

_PIPE_ROW = re.compile(r"^\s*\|.*\|\s*$")
_PIPE_RULE = re.compile(r"^\s*\|?(?:\s*:?-{1,}:?\s*\|)+\s*:?-*:?\s*\|?\s*$")
_HTML_TABLE = re.compile(r"<table\b.*?</table>", re.I | re.S)
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$")


class _TableReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[str]] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            if not self.rows:
                self.rows.append([])
            self.rows[-1].append("")
            self._inside = True
        elif tag == "br" and self._inside and self.rows and self.rows[-1]:
            self.rows[-1][-1] += " "

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def plain(text: str) -> str:
    """The text with Markdown and HTML markup removed and white space made single."""
    text = re.sub(r"<br\s*/?>", " ", text, flags=re.I)
    text = re.sub(r"</?[a-zA-Z][^<>]*>", " ", text)
    text = html.unescape(text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)\s]*\)", r"\1", text)
    text = re.sub(r"^\s*#{1,6}\s+", "", text, flags=re.M)
    text = re.sub(r"^\s*(?:[-*_]\s*){3,}$", " ", text, flags=re.M)
    text = re.sub(r"^\s*(?:```|~~~).*$", " ", text, flags=re.M)
    text = re.sub(r"\\([\\`*_{}\[\]()#+\-.!|<>~$&])", r"\1", text)
    text = re.sub(r"(\*\*|__|`)(?=\S)(.+?)(?<=\S)\1", r"\2", text)
    text = re.sub(r"(?<!\w)([*_])(?=\S)(.+?)(?<=\S)\1(?!\w)", r"\2", text)
    text = re.sub(r"^\s*>\s?", "", text, flags=re.M)
    return " ".join(text.split())


def text_of(markdown: str) -> str:
    lines = []
    for line in markdown.splitlines():
        if _PIPE_RULE.match(line) and "|" in line:
            continue
        lines.append(re.sub(r"(?<!\\)\|", " ", line) if _PIPE_ROW.match(line) else line)
    return plain("\n".join(lines))


def tables_of(markdown: str) -> list[list[list[str]]]:
    """Every table, in order, as rows of plain cell texts; pipe and HTML tables alike."""
    found: list[tuple[int, list[list[str]]]] = []
    for match in _HTML_TABLE.finditer(markdown):
        reader = _TableReader()
        reader.feed(match.group())
        found.append((match.start(), [[" ".join(c.split()) for c in row] for row in reader.rows if row]))
    at = 0
    run: list[str] = []
    start = 0
    for line in [*_HTML_TABLE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), markdown).splitlines(), ""]:
        if _PIPE_ROW.match(line):
            if not run:
                start = at
            run.append(line)
        elif run:
            if len(run) >= 2 and _PIPE_RULE.match(run[1]):
                rows = [row for i, row in enumerate(run) if i != 1]
                found.append((start, [[plain(c) for c in _cells(row)] for row in rows]))
            run = []
        at += len(line) + 1
    return [rows for _, rows in sorted(found, key=lambda pair: pair[0]) if rows]


def _cells(row: str) -> list[str]:
    return [c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", row.strip()[1:-1])]


def table_tree(tables: list[list[list[str]]]) -> Node:
    return Node(
        "body",
        children=[
            Node("table", children=[Node("tr", children=[Node("td", c) for c in row]) for row in rows])
            for rows in tables
        ],
    )


def heading_tree(markdown: str) -> Node:
    """A flat tree: content, heading, content, heading… Levels don't count."""
    root = Node("body")
    content: list[str] = []

    def flush() -> None:
        text = text_of("\n".join(content))
        if text:
            root.children.append(Node("content", text))
        content.clear()

    fenced = False
    for line in markdown.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        match = None if fenced else _HEADING.match(line)
        if match:
            flush()
            root.children.append(Node("heading", plain(match.group(1))))
        else:
            content.append(line)
    flush()
    return root


def has_heading(tree: Node) -> bool:
    return any(child.tag == "heading" for child in tree.children)


def score(truth: str, result: str, *, tables_only: bool) -> dict[str, float]:
    scores: dict[str, float] = {}
    if not tables_only:
        scores["NID"] = float(Indel.normalized_similarity(text_of(truth), text_of(result)))
    wanted = tables_of(truth)
    if wanted:
        scores["TEDS"] = table_similarity(wanted, tables_of(result))
    tree = heading_tree(truth)
    if not tables_only and has_heading(tree):
        found = heading_tree(result)
        scores["MHS"] = tree_similarity(tree, found) if has_heading(found) else 0.0
    scores["overall"] = sum(scores.values()) / len(scores) if scores else 0.0
    if wanted:
        scores["filled"] = table_similarity(*(list(map(filled, t)) for t in (wanted, tables_of(result))))
    return scores


def table_similarity(wanted: list[list[list[str]]], got: list[list[list[str]]]) -> float:
    pairs = [tree_similarity(table_tree([w]), table_tree([g])) for w, g in zip(wanted, got, strict=False)]
    return sum(pairs) / max(len(wanted), len(got))


def filled(rows: list[list[str]]) -> list[list[str]]:
    """The table without rows and columns that have no text."""
    rows = [row for row in rows if any(row)]
    width = max(map(len, rows), default=0)
    used = [i for i in range(width) if any(row[i] for row in rows if i < len(row))]
    return [[row[i] for i in used if i < len(row)] for row in rows]


# ---------------------------------------------------------------- readers


class ReaderProcess:
    """Does the work of a reader process in this one, so that its CPU time is measured."""

    ledger = SimpleNamespace(wasted_s=lambda share: 0.0)

    async def run(self, function: Callable[..., object], *given: object, **limits: object) -> object:
        return function(*given)


def read_quire(path: str, as_shipped: bool, effort: str = "balanced") -> tuple[str, int]:
    from quire.domain.job import ReadingEffort
    from quire.reading.document_reading import DocumentOptions, read_document
    from quire.reading.local_reader import LocalOptions
    from quire.reading.ocr.ocr_options import OcrOptions
    from quire.reading.pdf.page_reader import ReadOptions
    from quire.settings.reading_settings import OcrSettings

    reading = ReadOptions(strip_running=as_shipped, join_hyphens=as_shipped)
    ocr = OcrOptions.of(OcrSettings()).with_effort(ReadingEffort(effort))
    options = DocumentOptions(LocalOptions(reading, ocr))
    pages = asyncio.run(read_document(ReaderProcess(), path, options)).pages
    return "\n\n".join(page.markdown if page.words else "" for page in pages), len(pages)


def read_layer(path: str, as_shipped: bool) -> tuple[str, int]:
    from quire.reading.files.document_source import inspect
    from quire.reading.pdf.page_reader import ReadOptions, read_pages

    options = ReadOptions(strip_running=as_shipped, join_hyphens=as_shipped)
    count = inspect(path, None, 1_000_000).page_count
    readings = []
    for first in range(1, count + 1, 16):
        readings += read_pages(path, None, range(first, min(first + 16, count + 1)), options)
    return "\n\n".join(r.markdown for r in readings), count


def read_liteparse(path: str, as_shipped: bool) -> tuple[str, int]:
    import liteparse

    parser = liteparse.LiteParse(
        ocr_enabled=False,
        quiet=True,
        output_format="markdown",
        image_mode="off",
        extract_links=False,
        keep_headers_footers=not as_shipped,
    )
    result = parser._native.parse(path)
    return "\n\n".join(p.markdown for p in result.pages), len(result.pages)


def read_mupdf(path: str, as_shipped: bool) -> tuple[str, int]:
    import pymupdf

    with pymupdf.open(path) as document:
        pages = [page.get_text("text", flags=pymupdf.TEXTFLAGS_TEXT) for page in document]
    return "\n\n".join(pages), len(pages)


READERS: dict[str, Callable[[str, bool], tuple[str, int]]] = {
    "quire": read_quire,
    "fast": partial(read_quire, effort="fast"),
    "layer": read_layer,
    "liteparse": read_liteparse,
    "mupdf": read_mupdf,
}
LAYOUT = "layout"


@cache
def layout_process(python: str) -> subprocess.Popen[str]:
    """The reader of the layout model, one for each process of the bench; it ends when its input is closed."""
    script = str(Path(__file__).with_name("peer_layout.py"))
    return subprocess.Popen(
        [python, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )


def read_layout(path: str, python: str) -> tuple[str, int, float]:
    process = layout_process(python)
    assert process.stdin is not None
    assert process.stdout is not None
    print(path, file=process.stdin, flush=True)
    answer = json.loads(process.stdout.readline())
    return answer["markdown"], answer["pages"], answer["cpu_s"]


@dataclass(frozen=True)
class Task:
    reader: str
    group: str
    pdf: str
    truth: str
    as_shipped: bool
    keep: str | None
    layout_python: str | None = None


@dataclass(frozen=True)
class Outcome:
    task: Task
    scores: dict[str, float]
    pages: int
    cpu_s: float


def cpu_used_s() -> float:
    """CPU time of this process and of its children that have ended, as Tesseract has."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def read(task: Task) -> tuple[str, int, float]:
    """Markdown, pages and seconds of CPU."""
    if task.layout_python:
        return read_layout(task.pdf, task.layout_python)
    import quire.reading.pool.warm_imports  # noqa: F401  # loading the readers is no part of a page's cost

    started = cpu_used_s()
    try:
        result, pages = READERS[task.reader](task.pdf, task.as_shipped)
    except Exception as error:
        print(f"{task.reader} {task.pdf}: {type(error).__name__}: {error}", file=sys.stderr)
        result, pages = "", 1
    return result, pages, cpu_used_s() - started


def run(task: Task) -> Outcome:
    result, pages, cpu_s = read(task)
    if task.keep:
        folder = Path(task.keep) / task.reader / task.group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / (Path(task.pdf).stem + ".md")).write_text(result, encoding="utf-8", errors="replace")
    truth = Path(task.truth).read_text(encoding="utf-8")
    return Outcome(task, score(truth, result, tables_only=task.group == "tables"), pages, cpu_s)


def tasks(
    corpus: Path,
    groups: Sequence[str],
    readers: Sequence[str],
    as_shipped: bool,
    keep: str | None,
    layout_python: str | None = None,
) -> list[Task]:
    return [
        Task(
            *(reader, group, str(pdf), str(truth), as_shipped, keep),
            layout_python if reader == LAYOUT else None,
        )
        for reader in readers
        for group in groups
        for pdf in sorted((corpus / group).rglob("*.pdf"))
        if (truth := _truth(corpus / group / "markdown", pdf)) is not None
    ]


def _truth(folder: Path, pdf: Path) -> Path | None:
    """The Markdown that the document should give; None for a document of which that is not known."""
    return next((file for name in (pdf.stem, pdf.name) if (file := folder / f"{name}.md").exists()), None)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def table(outcomes: Sequence[Outcome], groups: Sequence[str], readers: Sequence[str]) -> str:
    """A row for each reader and set: all documents, then those that rules may be set by, then those held out."""
    lines = [
        f"{'reader':<10} {'set':<8} {'part':<8} {'docs':>4} {'overall':>8} {'NID':>6} {'TEDS':>6} {'MHS':>6} "
        f"{'filled':>6} {'ms/page':>8} {'pages':>6} {'x layout':>8}"
    ]
    for group in groups:
        of_layout = [o for o in outcomes if o.task.reader == LAYOUT and o.task.group == group]
        for reader in readers:
            every = [o for o in outcomes if o.task.reader == reader and o.task.group == group]
            aside = [o for o in every if held_out(Path(o.task.pdf).stem)]
            seen = [o for o in every if not held_out(Path(o.task.pdf).stem)]
            for part, mine in (("all", every), ("seen", seen), ("held out", aside)):
                times = f"{_ms_a_page(of_layout) / _ms_a_page(mine):.1f}" if of_layout and mine else "-"
                lines.append(f"{reader:<10} {group:<8} {part:<8} {len(mine):>4} {_figures(mine)} {times:>8}")
    return "\n".join(lines)


def _figures(mine: Sequence[Outcome]) -> str:
    figures = [mean([o.scores[k] for o in mine if k in o.scores]) for k in SCORES]
    shown = " ".join(
        f"{'-' if f != f else format(f, '.3f'):>{8 if i == 0 else 6}}" for i, f in enumerate(figures)
    )
    return f"{shown} {_ms_a_page(mine):>8.1f} {sum(o.pages for o in mine):>6}"


def _ms_a_page(mine: Sequence[Outcome]) -> float:
    return 1000 * sum(o.cpu_s for o in mine) / max(1, sum(o.pages for o in mine))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpus")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--readers", help="those to compare; all of them by default")
    parser.add_argument("--layout-python", help="the Python of an environment with PyMuPDF's layout model")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--as-shipped", action="store_true", help="strip running lines and join hyphens")
    parser.add_argument("--keep", help="a folder to write each reader's Markdown to")
    parser.add_argument("--details", help="a file to write each document's scores to, as JSON lines")
    chosen = parser.parse_args()
    groups, readers = chosen.sets.split(","), [*READERS, *([LAYOUT] if chosen.layout_python else [])]
    if chosen.readers:
        readers = [reader for reader in readers if reader in chosen.readers.split(",")]
    if not chosen.corpus.is_dir():
        print(f"There is no corpus at {chosen.corpus}; say where it is with --corpus.", file=sys.stderr)
        return 2
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["quire.reading.pool.warm_imports"])
    todo = tasks(chosen.corpus, groups, readers, chosen.as_shipped, chosen.keep, chosen.layout_python)
    with context.Pool(chosen.processes) as pool:
        outcomes = list(pool.imap_unordered(run, todo, chunksize=2))
    if chosen.details:
        with Path(chosen.details).open("w", encoding="utf-8") as file:
            for o in outcomes:
                record = {
                    "reader": o.task.reader,
                    "set": o.task.group,
                    "id": Path(o.task.pdf).stem,
                    "pages": o.pages,
                }
                file.write(json.dumps({**record, "cpu_ms": round(1000 * o.cpu_s, 1), **o.scores}) + "\n")
    print(table(outcomes, groups, readers))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
