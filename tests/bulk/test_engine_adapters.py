"""Rows for other data engines: one a page, as `quire bulk` writes them. `bench/bulk_engines.py` runs the engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import quire
from quire.bulk import engine_adapters
from quire.bulk.page_rows import COLUMNS
from tests.support.marked_documents import marked_pdf, marker


def test_a_batch_of_documents_becomes_columns_with_a_row_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = marked_pdf(tmp_path / "a.pdf", 2).read_bytes()
    with quire.SyncReader(quire.ReaderLimits(memory_bytes=512 << 20)) as reader:
        monkeypatch.setattr(engine_adapters, "shared_reader", lambda _limits: reader)
        batch = {"path": ["in/a.pdf", "in/empty.pdf"], "bytes": [content, b""]}
        columns = engine_adapters.read_batch(batch, ocr=False, formats=("elements",))
    assert tuple(columns) == COLUMNS
    assert columns["key"] == ["in/a.pdf", "in/a.pdf", "in/empty.pdf"]
    assert columns["page"] == [1, 2, 0]
    assert columns["kind"] == ["page", "page", "error"]
    assert columns["error_code"] == [None, None, "empty_document"]
    assert columns["size"] == [len(content), len(content), 0]
    assert all(marker(1, page) in columns["markdown"][page - 1] for page in (1, 2))
    assert json.loads(columns["elements"][0])["elements"]


def test_the_schema_for_spark_names_every_column() -> None:
    assert [one.split()[0] for one in engine_adapters.SPARK_SCHEMA.split(", ")] == list(COLUMNS)
    assert "reasons array<string>" in engine_adapters.SPARK_SCHEMA
