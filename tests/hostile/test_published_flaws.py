"""Attacks from published flaws of other document services, tried on our readers (docs/threat-model.md)."""

from __future__ import annotations

import io
import socket
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quire.errors import QuireError
from quire.reading.files.document_source import inspect, open_documents
from quire.reading.files.page_chunks import read_chunk
from quire.reading.pdf.page_reader import ReadOptions
from tests.reading.office.outlook_files import outlook_message
from tests.support.office_files import docx, drawing, epub, mail, p, zipped

SECRET = "the-secret-of-another-file"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server that a reader must not call."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        found.listen()
        found.setblocking(False)
        yield found


def _text(path: Path, content: bytes) -> str:
    """What the readers make of a document; nothing where they refuse it."""
    path.write_bytes(content)
    try:
        info = inspect(str(path), None, 100)
        numbers = tuple(range(1, info.page_count + 1))
        return read_chunk(str(path), None, numbers, ReadOptions(), False).block.decode("utf-8", "replace")
    except QuireError:
        return ""
    finally:
        open_documents().forget()


def _member(archive: bytes, name: str, change: Callable[[str], str]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as given:
        parts = {one: given.read(one).decode() for one in given.namelist()}
    return zipped({**parts, name: change(parts[name])})


@pytest.mark.parametrize("kind", ["xml", "jats", "html", "docx", "epub", "odt", "rtf"])
def test_entities_read_no_file_and_call_no_server_when_a_document_defines_them(
    tmp_path: Path, listener: socket.socket, kind: str
) -> None:
    """Tika CVE-2025-66516."""
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
    head = f'<!DOCTYPE article [<!ENTITY a SYSTEM "{secret.as_uri()}"><!ENTITY % b SYSTEM "{url}"> %b;]>'
    body = "<body><p>&a;</p></body></article>"
    article = f'<?xml version="1.0"?>{head}<article article-type="x" dtd-version="1.2">{body}'
    content = {
        "xml": f'<?xml version="1.0"?>{head}<x>&a;</x>'.encode(),
        "jats": article.encode(),
        "html": f"{head}<html><body><p>&a; words</p></body></html>".encode(),
        "docx": _member(docx(p("&a;")), "word/document.xml", lambda text: head + text),
        "epub": epub([f"{head}<p>&a; words</p>"]),
        "odt": zipped(
            {
                "mimetype": "application/vnd.oasis.opendocument.text",
                "content.xml": f"{head}<office:document-content>&a;</office:document-content>",
            },
            stored=True,
        ),
        "rtf": f"{{\\rtf1 {{\\field{{\\*\\fldinst INCLUDETEXT {secret}}}}}{{\\*\\template {url}}} words}}".encode(),
    }[kind]
    assert SECRET not in _text(tmp_path / f"document.{kind}", content)
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize("kind", ["html", "md", "docx", "epub", "eml"])
def test_no_picture_is_fetched_when_a_document_links_to_it(
    tmp_path: Path, listener: socket.socket, kind: str
) -> None:
    """docling-core CVE-2026-24009."""
    secret = tmp_path / "secret.png"
    secret.write_text(SECRET)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/x.png"
    images = f'<p>words</p><img src="{url}"><img src="{secret.as_uri()}"><img src="{secret}">'
    content = {
        "html": f"<html><body>{images}</body></html>".encode(),
        "md": f"# Words\n\n- one\n- two\n\n![a]({url}) ![b]({secret.as_uri()})\n".encode(),
        "docx": docx(p("Words") + p(runs=drawing("m1")), media={url: b""}),
        "epub": epub([images.replace('">', '"/>')]),
        "eml": mail("words", html=f"<html><body>{images}</body></html>").as_bytes(),
    }[kind]
    text = _text(tmp_path / f"document.{kind}", content)
    assert "ords" in text
    assert SECRET not in text
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize(
    "name", ["../../../etc/cron.d/x", "/etc/passwd", "..\\..\\x.csv", "a/../../b.csv", "\0x"]
)
def test_name_of_an_attachment_is_no_path(tmp_path: Path, name: str) -> None:
    """unstructured CVE-2025-64712: a message whose attachment is written to the path in its name."""
    for number, content in enumerate(
        (
            outlook_message("Hello", "Words", files={name: b"a,b\n1,2\n"}),
            mail("Words", files={name.replace("\0", ""): b"a,b\n1,2\n"}).as_bytes(),
        )
    ):
        folder = tmp_path / str(number) / "deep" / "deeper"
        folder.mkdir(parents=True)
        path = folder / "message"
        path.write_bytes(content)
        found = inspect(str(path), None, 100).attachments
        assert not any({"/", "\\", "\0"} & set(one.name) for one in found)
        assert _text(path, content)
        assert [
            str(one.relative_to(tmp_path / str(number))) for one in (tmp_path / str(number)).rglob("*")
        ] == [
            "deep",
            "deep/deeper",
            "deep/deeper/message",
        ]
