"""A simulated provider, and a lake of scans that local readers see badly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quire.simulator.simulator_thread import RunningSimulator, simulator
from tests.support.marked_documents import marked_pdf, scanned_pdf


@pytest.fixture
def sim() -> Iterator[RunningSimulator]:
    with simulator({}) as one:
        yield one


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    """Two documents of three scanned pages, the second with a text page before them; one of two text pages."""
    folder = tmp_path / "lake"
    folder.mkdir()
    (folder / "a.pdf").write_bytes(scanned_pdf("Harbour", 3))
    _after_text(folder / "b.pdf", scanned_pdf("Ledger", 3))
    marked_pdf(folder / "text.pdf", 2)
    return folder


def _after_text(path: Path, scans: bytes) -> None:
    """Writes the scans behind a page of text."""
    import pymupdf

    with pymupdf.open(marked_pdf(path, 1, seed=5)) as text, pymupdf.open("pdf", scans) as pictures:
        text.insert_pdf(pictures)
        path.write_bytes(text.tobytes())
