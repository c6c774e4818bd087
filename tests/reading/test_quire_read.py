"""`quire.read`: a document in, its pages out, and never an exception for a document."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import quire
from quire.domain.page import PageSource
from quire.errors import RequestError
from tests.support.marked_documents import marked_pdf, marker


@pytest.fixture(scope="module")
def reader() -> Iterator[quire.SyncReader]:
    with quire.SyncReader(quire.ReaderLimits(memory_bytes=512 << 20, page_timeout_s=10)) as found:
        yield found


def test_pages_come_in_order_when_a_document_has_more_than_one_chunk(
    reader: quire.SyncReader, tmp_path: Path
) -> None:
    pages = reader.read(marked_pdf(tmp_path / "a.pdf", 40))
    assert [page.number for page in pages] == list(range(1, 41))
    assert all(marker(1, page.number) in page.markdown for page in pages)
    assert {(page.source, page.error) for page in pages} == {(PageSource.LOCAL, None)}


def test_no_page_is_left_out_when_each_takes_a_whole_turn(
    reader: quire.SyncReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quire.reading.local_reader._TURN_S", 0.0)
    pages = reader.read(marked_pdf(tmp_path / "a.pdf", 40), pages="2-39")
    assert [page.number for page in pages] == list(range(2, 40))
    assert all(marker(1, page.number) in page.markdown for page in pages)


def test_bytes_and_a_selection_of_pages_are_read(reader: quire.SyncReader, tmp_path: Path) -> None:
    content = marked_pdf(tmp_path / "a.pdf", 5).read_bytes()
    assert [page.number for page in reader.read(content, pages="2-3,5")] == [2, 3, 5]
    with pytest.raises(RequestError):
        reader.read(content, pages="two")


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"", "empty_document"), (b"%PDF-1.7 broken", "damaged_document"), (b"\x7fELF" + bytes(99), None)],
    ids=["empty", "damaged", "program"],
)
def test_a_document_that_cannot_be_read_is_one_page_with_an_error(
    reader: quire.SyncReader, content: bytes, code: str | None
) -> None:
    (page,) = reader.read(content)
    assert (page.number, page.markdown) == (0, "")
    assert page.error_code == (code or "unsupported_type")
    assert page.error


def test_a_missing_file_and_missing_pages_are_errors_of_the_row(
    reader: quire.SyncReader, tmp_path: Path
) -> None:
    (missing,) = reader.read(tmp_path / "nothing.pdf")
    assert missing.error_code == "damaged_document"
    (beyond,) = reader.read(marked_pdf(tmp_path / "a.pdf", 2), pages="7")
    assert beyond.error_code == "bad_request"


def test_a_password_opens_a_protected_document(reader: quire.SyncReader, tmp_path: Path) -> None:
    path = marked_pdf(tmp_path / "a.pdf", 1, password="secret")
    assert [page.error_code for page in reader.read(path)] == ["password_required"]
    assert [page.error_code for page in reader.read(path, password="wrong")] == ["password_wrong"]
    assert marker(1, 1) in reader.read(path, password="secret")[0].markdown


def test_import_quire_loads_no_reader() -> None:
    program = "import sys, quire; print([m for m in sys.modules if m.startswith('quire.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
