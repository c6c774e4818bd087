"""PDFs and pictures that the reading tests make for themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymupdf
import pytest

from quire.reading.files.document_source import open_documents

PROSE = (
    "The committee met in the large hall and heard the report of the secretary. "
    "Members asked about the cost of the new building and the time it would take. "
    "The chair answered that both would be known after the tender in the spring. "
)

Make = Callable[..., str]


@pytest.fixture(autouse=True)
def _fresh_cache() -> Iterator[None]:
    yield
    open_documents().forget()


@pytest.fixture
def save(tmp_path: Path) -> Make:
    """Saves a PDF made with MuPDF and answers its path."""

    def save_as(document: Any, name: str = "document.pdf", **options: Any) -> str:
        path = tmp_path / name
        document.save(str(path), **options)
        document.close()
        return str(path)

    return save_as


def write(page: Any, x: float, y: float, text: str, *, size: float = 11, bold: bool = False) -> None:
    page.insert_text((x, y), text, fontsize=size, fontname="hebo" if bold else "helv")


def prose(page: Any, x: float, y: float, width: float, paragraphs: int = 1, size: float = 10) -> None:
    page.insert_textbox((x, y, x + width, y + 600), "\n\n".join([PROSE * 2] * paragraphs), fontsize=size)


def text_pdf(pages: int = 1) -> Any:
    document = pymupdf.open()
    for number in range(1, pages + 1):
        page = document.new_page()
        write(page, 72, 90, f"Chapter {number}", size=20, bold=True)
        prose(page, 72, 120, 450, paragraphs=2)
    return document


def form_pdf() -> Any:
    """A page whose labels and values stand side by side: the layout reader is asked for its order."""
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 90, "Registration", size=20, bold=True)
    prose(page, 72, 120, 450)
    for i, (label, value) in enumerate((("Name", "Jane Doe"), ("Place", "North Pier"))):
        write(page, 72, 280 + 20 * i, label, size=10)
        write(page, 272, 280 + 20 * i, value, size=10)
    return document
