"""What a Word document imports as it is, a web page or a text, is text of the document."""

from __future__ import annotations

from pathlib import Path

import pytest

from quire.domain.element import ElementKind
from quire.reading.files.document_source import inspect
from quire.reading.pdf.page_reader import read_pages
from tests.support.office_files import docx, p, word_table

HTML = (
    b"<html><body><h2>Fees</h2><p>They <b>rise</b>.</p><table>"
    b"<tr><td rowspan=2>a</td><td>b</td></tr><tr><td>c</td></tr></table></body></html>"
)
SINGLE_FILE = (
    b"MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=x\r\n\r\n--x\r\n"
    b"Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
    b"<html><body><p>Words of the pl=C3=A4ne</p></body></html>\r\n--x--\r\n"
)


def pages_of(folder: Path, body: str, chunk: bytes, name: str) -> list[str]:
    path = folder / "chunk.docx"
    path.write_bytes(docx(body, media={name: chunk}))
    count = inspect(str(path), None, 10).page_count
    return [one.markdown for one in read_pages(str(path), None, range(1, count + 1))]


CHUNK = '<w:altChunk r:id="m1"/>'


def test_a_web_page_in_a_document_is_on_pages_of_its_own(tmp_path: Path) -> None:
    body = p("before") + CHUNK + p("behind") + word_table([["x", "y"], ["1", "2"]])
    before, chunk, behind = pages_of(tmp_path, body, HTML, "afchunk.htm")
    assert before == "before"
    assert chunk.startswith("## Fees\n\nThey **rise**.\n\n| a | b |")
    assert behind.startswith("behind\n\n| x | y |")
    (reading,) = read_pages(str(tmp_path / "chunk.docx"), None, [2])
    (table,) = (one.table for one in reading.elements if one.kind is ElementKind.TABLE and one.table)
    assert [span.row_span for span in table.spans] == [2]


@pytest.mark.parametrize(
    ("chunk", "shown"),
    [
        (SINGLE_FILE, ["Words of the pl\u00e4ne"]),
        (
            b"Plain words\n\nof two paragraphs, one of them longer.",
            ["Plain words\n\nof two paragraphs, one of them longer."],
        ),
        (b"%PDF-1.7 no text", ["[Attachment: afchunk.mht (PDF document, 16 bytes)]"]),
    ],
)
def test_a_document_that_is_one_chunk_is_not_empty(tmp_path: Path, chunk: bytes, shown: list[str]) -> None:
    assert pages_of(tmp_path, CHUNK, chunk, "afchunk.mht") == shown
