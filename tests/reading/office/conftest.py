"""A document that a test gives as bytes or text, read to Markdown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quire.domain.page import PageReading
from quire.reading.files.document_source import inspect
from quire.reading.pdf.page_reader import read_pages

ReadMarkdown = Callable[..., str]
ReadReading = Callable[..., PageReading]


@pytest.fixture
def reading(tmp_path: Path) -> ReadReading:
    """Reads a document of one page; `name` is the name of its file."""

    def only_page(content: bytes | str, name: str = "document") -> PageReading:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        assert inspect(str(path), None, 100).page_count == 1
        return read_pages(str(path), None, [1])[0]

    return only_page


@pytest.fixture
def markdown(reading: ReadReading) -> ReadMarkdown:
    """Reads a document of one page as Markdown."""

    def only_text(content: bytes | str, name: str = "document") -> str:
        return reading(content, name).markdown

    return only_text
