"""The rows of a target, read back, and a lake of marked documents."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterable
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


def check_chunks(rows: list[dict[str, Any]]) -> None:
    """The chunks of each document have the words of all its pages as the rows have them, and no others."""
    for key in {row["key"] for row in rows}:
        mine = [row for row in rows if row["key"] == key]
        chunks = [chunk for row in mine for chunk in json.loads(row["chunks"] or "[]")]
        assert _words(chunk["text"] for chunk in chunks) == _words(row["markdown"] for row in mine), key
        assert {page for chunk in chunks for page in chunk["pages"]} == {row["page"] for row in mine}


def _words(texts: Iterable[str]) -> list[str]:
    return sorted(word for text in texts for word in re.findall(r"\w+", text))


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


def check_complete(
    rows: list[dict[str, Any]], expected: dict[tuple[str, int], str], *, has_empty: bool = True
) -> None:
    """Every page exactly once with its own text, and one error row for each file that can't be read.

    An engine that does not list empty files (`has_empty` is false) has no row for the empty one.
    """
    times = Counter((row["key"], row["page"]) for row in rows)
    assert set(times.values()) == {1}, [key for key, count in times.items() if count > 1]
    pages = {(row["key"], row["page"]): row["markdown"] for row in rows if row["kind"] == "page"}
    assert set(pages) == set(expected)
    assert all(mark in pages[place] for place, mark in expected.items())
    errors = {row["key"]: row["error_code"] for row in rows if row["kind"] == "error"}
    empty = {"empty.pdf": "empty_document"} if has_empty else {}
    assert errors == {"broken.pdf": "damaged_document"} | empty
