"""Office files: our readers beside markitdown, on the same files, each warm in one process of its own.

    python3.11 -m venv /tmp/peer && /tmp/peer/bin/pip install 'markitdown[docx,pptx,xlsx]' python-docx
    .venv/bin/python bench/office.py --peer /tmp/peer/bin/python

The files are made by the peer's libraries (python-docx, python-pptx, openpyxl), which know nothing of us. Import and
model loading are left out on both sides. The structure score is the share of the headings, list items (nested ones
apart), table rows, links, emphasis and notes put into a file that its Markdown still has.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROSE = "Members asked about the cost of the new building and the time it would take. " * 5
CHAPTERS, SLIDES, ROWS = 40, 60, 3_000
ROUNDS = 3

# What is in each file: headings, items, nested items, rows of tables, links, bold words, notes.
EXPECTED = {
    "report.docx": {
        "headings": 3 * CHAPTERS,
        "items": 5 * CHAPTERS,
        "nested": CHAPTERS,
        "rows": 9 * CHAPTERS,
        "bold": CHAPTERS,
    },
    "talk.pptx": {
        "headings": SLIDES,
        "items": 3 * SLIDES,
        "nested": SLIDES,
        "rows": 3 * (SLIDES // 3),
        "notes": SLIDES,
    },
    "book.xlsx": {"headings": 2, "rows": ROWS + 1 + 10},
    "page.html": {
        "headings": 2 * CHAPTERS,
        "items": 3 * CHAPTERS,
        "nested": CHAPTERS,
        "rows": 9 * CHAPTERS,
        "links": CHAPTERS,
        "bold": CHAPTERS,
    },
    "novel.epub": {"headings": CHAPTERS, "items": 2 * CHAPTERS, "rows": 3 * CHAPTERS, "bold": CHAPTERS},
    "table.csv": {"rows": ROWS + 1},
}
PATTERNS = {
    "headings": r"^#{1,6} ",
    "items": r"^\s*(?:[-*+]|\d+[.)]) \S",
    "nested": r"^\s{2,}(?:[-*+]|\d+[.)]) \S",
    "rows": r"^\|(?!\s*:?-{3}).+\|\s*$",
    "links": r"\[[^\]]+\]\(https?://[^)]+\)",
    "bold": r"\*\*[^*\n]+\*\*",
    "notes": r"Notes of slide",
}


def make(folder: Path) -> None:
    """Runs in the peer's environment."""
    _word(folder / "report.docx")
    _slides(folder / "talk.pptx")
    _sheets(folder / "book.xlsx")
    chapters = [_chapter(n) for n in range(CHAPTERS)]
    (folder / "page.html").write_text(f"<!doctype html><html><body>{''.join(chapters)}</body></html>")
    _book(folder / "novel.epub")
    rows = [f'{n},"Name, number {n}",{n * 1.5},2024-01-{n % 28 + 1:02d}' for n in range(ROWS)]
    (folder / "table.csv").write_text("\n".join(["id,name,amount,date", *rows]))


def _word(path: Path) -> None:
    import docx

    document = docx.Document()
    for n in range(1, CHAPTERS + 1):
        document.add_heading(f"Chapter {n}", 1)
        paragraph = document.add_paragraph("The committee met in the ")
        paragraph.add_run("large").bold = True
        paragraph.add_run(" hall.")
        document.add_heading(f"Lists {n}", 2)
        for text, style in (("First", "List Bullet"), ("Nested", "List Bullet 2"), ("Second", "List Bullet")):
            document.add_paragraph(text, style=style)
        document.add_paragraph("Step one", style="List Number")
        document.add_paragraph("Step two", style="List Number")
        document.add_heading(f"Table {n}", 2)
        table = document.add_table(rows=0, cols=3)
        for row in range(9):
            for place, cell in enumerate(table.add_row().cells):
                cell.text = f"{row}-{place}"
        for _ in range(6):
            document.add_paragraph(PROSE)
    document.save(str(path))


def _slides(path: Path) -> None:
    from pptx import Presentation
    from pptx.util import Inches

    show = Presentation()
    for n in range(1, SLIDES + 1):
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = f"Slide title {n}"
        frame = slide.placeholders[1].text_frame
        frame.text = "First point"
        for text, level in (("Sub point", 1), ("Second point", 0)):
            paragraph = frame.add_paragraph()
            paragraph.text, paragraph.level = text, level
        slide.notes_slide.notes_text_frame.text = f"Notes of slide {n}"
        if n % 3 == 0:
            table = slide.shapes.add_table(3, 2, Inches(1), Inches(4), Inches(4), Inches(1)).table
            for row in range(3):
                for column in range(2):
                    table.cell(row, column).text = f"r{row}c{column}"
    show.save(str(path))


def _sheets(path: Path) -> None:
    import datetime

    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Data"
    sheet.append(["Id", "Name", "Amount", "Share", "When"])
    day = datetime.datetime(2024, 1, 1)
    for n in range(ROWS):
        sheet.append([n, f"Name {n}", n * 1.1, n / ROWS, day + datetime.timedelta(days=n % 400)])
    second = book.create_sheet("Second")
    for n in range(10):
        second.append([n, f"x{n}"])
    book.save(str(path))


def _chapter(n: int) -> str:
    rows = "".join(f"<tr><td>{row}</td><td>b</td><td>c</td></tr>" for row in range(9))
    return (
        f"<h1>Chapter {n}</h1><p>A <b>bold</b> word and <a href='https://example.org/{n}'>a link</a>.</p><h2>Lists</h2>"
        f"<ul><li>First<ul><li>Nested</li></ul></li><li>Second</li></ul><table>{rows}</table>"
        + f"<p>{PROSE}</p>"
        * 6
    )


def _book(path: Path) -> None:
    chapters = [
        f"<html xmlns='http://www.w3.org/1999/xhtml'><body><h1>Chapter {n}</h1><p>A <b>bold</b> word.</p>"
        "<ol><li>one</li><li>two</li></ol><table><tr><td>a</td><td>b</td></tr><tr><td>1</td><td>2</td></tr>"
        f"<tr><td>3</td><td>4</td></tr></table>{f'<p>{PROSE}</p>' * 12}</body></html>"
        for n in range(CHAPTERS)
    ]
    items = "".join(
        f'<item id="c{n}" href="c{n}.xhtml" media-type="application/xhtml+xml"/>' for n in range(CHAPTERS)
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(CHAPTERS))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        archive.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
            '<rootfile full-path="OEBPS/b.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        )
        archive.writestr(
            "OEBPS/b.opf",
            '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
            f"<dc:title>Novel</dc:title></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>",
        )
        for n, chapter in enumerate(chapters):
            archive.writestr(f"OEBPS/c{n}.xhtml", chapter)


def ours(folder: Path) -> None:
    from quire.reading.files.document_source import kind_of
    from quire.reading.office.office_readers import open_office
    from quire.reading.office.zip_container import OfficeLimits

    def read(path: Path) -> str:
        source = open_office(str(path), kind_of(str(path)), OfficeLimits())
        try:
            return "\n\n".join(source.page(n).markdown for n in range(1, source.page_count + 1))
        finally:
            source.close()

    _measure(folder, read)


def theirs(folder: Path) -> None:
    from markitdown import MarkItDown

    reader = MarkItDown()
    _measure(folder, lambda path: reader.convert(str(path)).text_content)


def _measure(folder: Path, read) -> None:
    for name in EXPECTED:
        read(folder / name)  # lazy imports of this format
        took, text = [], ""
        for _ in range(ROUNDS):
            began = time.process_time()
            text = read(folder / name)
            took.append(time.process_time() - began)
        print(json.dumps({"name": name, "cpu_s": min(took), "found": _found(text)}), flush=True)


def _found(text: str) -> dict[str, int]:
    return {what: len(re.findall(pattern, text, re.MULTILINE)) for what, pattern in PATTERNS.items()}


def _score(name: str, found: dict[str, int]) -> float:
    shares = [min(1.0, found[what] / wanted) for what, wanted in EXPECTED[name].items()]
    return sum(shares) / len(shares)


def _run(python: str, what: str, folder: Path) -> dict[str, dict]:
    command = [python, __file__, f"--{what}", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["name"]: row for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", help="the python of an environment with markitdown and python-docx")
    for name in ("make", "ours", "theirs"):
        parser.add_argument(f"--{name}", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    for name, act in (("make", make), ("ours", ours), ("theirs", theirs)):
        if getattr(args, name):
            act(getattr(args, name))
            return
    if not args.peer:
        parser.error("name the peer's python: --peer /tmp/peer/bin/python")
    from measuring import scratch, table

    with scratch() as folder:
        subprocess.run([args.peer, __file__, "--make", str(folder)], check=True)
        mine, peer = _run(sys.executable, "ours", folder), _run(args.peer, "theirs", folder)
        rows = []
        for name in EXPECTED:
            a, b = mine[name], peer[name]
            rows.append(
                [
                    name,
                    f"{(folder / name).stat().st_size / 1024:.0f} kB",
                    f"{a['cpu_s'] * 1000:.1f} ms",
                    f"{b['cpu_s'] * 1000:.1f} ms",
                    f"{b['cpu_s'] / a['cpu_s']:.1f} ×",
                    f"{_score(name, a['found']):.2f}",
                    f"{_score(name, b['found']):.2f}",
                ]
            )
    head = [
        "file",
        "size",
        "Quire, CPU",
        "markitdown, CPU",
        "faster by",
        "structure, Quire",
        "structure, markitdown",
    ]
    table("Office files", head, rows)


if __name__ == "__main__":
    main()
