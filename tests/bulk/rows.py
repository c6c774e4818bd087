"""The rows of a target, read back, and a lake of marked documents."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

from arro3.io import read_parquet

from tests.support.marked_documents import marked_pdf, marker


def rows_of(target: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in sorted(target.glob("part-*.parquet")):
        found += rows_in(part.read_bytes())
    return found


def rows_in(content: bytes) -> list[dict[str, Any]]:
    table = read_parquet(io.BytesIO(content)).read_all()
    columns = {name: table[name].to_pylist() for name in table.column_names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def make_lake(folder: Path, documents: int, pages: int = 3) -> dict[tuple[str, int], str]:
    """Writes marked PDFs and two files that can't be read. Returns the marker of each page."""
    folder.mkdir()
    expected: dict[tuple[str, int], str] = {}
    for number in range(documents):
        name = f"{number:03}.pdf"
        count = 1 + number % pages
        marked_pdf(folder / name, count, seed=number)
        expected |= {(name, page): marker(number, page) for page in range(1, count + 1)}
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing more")
    (folder / "empty.pdf").touch()
    return expected


def check_complete(rows: list[dict[str, Any]], expected: dict[tuple[str, int], str]) -> None:
    """Every page exactly once with its own text, and one error row for each file that can't be read."""
    times = Counter((row["key"], row["page"]) for row in rows)
    assert set(times.values()) == {1}, [key for key, count in times.items() if count > 1]
    pages = {(row["key"], row["page"]): row["markdown"] for row in rows if row["kind"] == "page"}
    assert set(pages) == set(expected)
    assert all(mark in pages[place] for place, mark in expected.items())
    errors = {row["key"]: row["error_code"] for row in rows if row["kind"] == "error"}
    assert errors == {"broken.pdf": "damaged_document", "empty.pdf": "empty_document"}
