"""What a file is, by its first bytes."""

from __future__ import annotations

import io
import signal
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.reading.files import file_kinds
from quire.reading.files.file_kinds import PPT, SNIFF_BYTES, XLS, decode_text, sniff
from tests.reading.office.outlook_files import compound_file


def zipped(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return out.getvalue()


@pytest.mark.parametrize(
    ("head", "mime", "supported"),
    [
        (b"%PDF-1.7\n", "application/pdf", True),
        (b"\x00junk" * 200 + b"%PDF-1.4\n", "application/pdf", True),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "image/jpeg", True),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "image/png", True),
        (b"RIFF\x24\x00\x00\x00WEBPVP8 ", "image/webp", True),
        (b"GIF89a\x01\x00", "image/gif", True),
        (b"II*\x00\x08\x00\x00\x00", "image/tiff", True),
        (b"MM\x00*\x00\x00\x00\x08", "image/tiff", True),
        (b"BM" + bytes(12) + (40).to_bytes(4, "little") + bytes(20), "image/bmp", True),
        (b"Plain words, nothing more.\n", "text/plain", True),
        (b"# Title\n\n- one\n- two\n", "text/markdown", True),
        ("Grüße".encode("utf-16"), "text/plain", True),
        (b"<!DOCTYPE html><html><body>", "text/html", True),
        (b'<?xml version="1.0"?><svg xmlns="x"/>', "image/svg+xml", False),
        (b"\x1f\x8b\x08\x00", "application/gzip", False),
        (b"\x7fELF\x02\x01", "application/x-elf", False),
        (b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom", "video/mp4", False),
        (b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic", "image/heic", True),
        (b"From: a@example.org\nTo: b@example.org\nSubject: hi\n\nHello", "message/rfc822", True),
        (b"name,age,city\nAnn,3,Rome\nBob,4,Oslo\nCy,5,Bonn\n", "text/csv", True),
        ("Straße,Größe,Preis\nä,1,2\nö,3,4\nü,5,6\n".encode("cp1252"), "text/csv", True),
        (b'<div align="center">Logo</div>\n\n# Title\n\n- one\n- two\n', "text/markdown", True),
        (b"<p>just a piece</p>", "text/html", True),
        (b"\x00\x00\x00\x20ftypavif\x00\x00\x00\x00avifmif1", "image/avif", True),
        (b"{\\rtf1 Hello}", "application/rtf", True),
        (bytes(range(256)), "application/octet-stream", False),
        (b"", "application/x-empty", False),
    ],
)
def test_kind_is_told_by_content_when_bytes_are_known(head: bytes, mime: str, supported: bool) -> None:
    kind = sniff(head)
    assert (kind.mime, kind.supported) == (mime, supported)
    assert kind.label


@pytest.mark.parametrize(
    ("names", "part"),
    [
        (("[Content_Types].xml", "word/document.xml"), "wordprocessingml"),
        (("[Content_Types].xml", "xl/workbook.xml"), "spreadsheetml"),
        (("[Content_Types].xml", "ppt/presentation.xml"), "presentationml"),
        (("readme.txt",), "application/zip"),
    ],
)
def test_office_files_are_named_when_member_names_are_visible(names: tuple[str, ...], part: str) -> None:
    kind = sniff(zipped(*names))
    assert part in kind.mime
    assert kind.supported == (part != "application/zip")


def test_pdf_marker_past_the_first_kilobyte_is_not_believed() -> None:
    assert sniff(b"a" * 2000 + b"%PDF-1.4") != file_kinds.PDF


def test_text_is_recognised_when_the_sample_ends_inside_a_character() -> None:
    sample = ("ä" * SNIFF_BYTES).encode()[: SNIFF_BYTES - 1] + b"\xc3"
    assert sniff(sample) == file_kinds.TEXT


@given(st.binary(max_size=400))
def test_sniffing_never_fails_when_bytes_are_arbitrary(head: bytes) -> None:
    assert sniff(head).mime


@given(st.text(min_size=1, max_size=200))
def test_text_survives_decoding_when_it_was_utf8(text: str) -> None:
    decoded = decode_text(text.encode())
    # With a zero at every second place it is just as well UTF-16, and nobody writes zeros into texts.
    assert "\0" in text or decoded is None or decoded == text.removeprefix("\ufeff")


def test_book_is_known_when_its_mimetype_is_compressed() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", "<container/>")
    assert sniff(made.getvalue()).mime == "application/epub+zip"


@pytest.mark.parametrize("content", [b"application/zip", b"x" * 5_000, b""])
def test_archive_stays_one_when_its_compressed_mimetype_says_something_else(content: bytes) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", content)
    assert sniff(made.getvalue()).mime == "application/zip"
    damaged = made.getvalue()[:38] + b"\xff" * 20 + made.getvalue()[58:]
    assert sniff(damaged).mime == "application/zip"


@pytest.mark.parametrize(
    "text",
    [
        b'<?xml version="1.0"?>' * 380,
        b"<?xml ?>" + b"<!-- x -->" * 400 + b"<a/>",
        b"<!DOCTYPE article " + b"JATS " * 800 + b">" + b"<articl" * 20,
        b"<article " + b"article-type" * 300,
        b"<!--" * 900 + b"<p",
    ],
)
def test_kind_is_found_in_little_time_when_a_text_almost_matches(text: bytes) -> None:
    """A pattern that tries all ways to match takes years for these; sniffing runs on the event loop."""

    def stop(*_: object) -> None:
        raise AssertionError("sniffing used 30 s of CPU time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, 30)
    try:
        assert sniff(text).mime in ("application/xml", "text/html", "text/plain")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def test_a_file_inside_of_an_old_office_file_does_not_tell_what_it_is() -> None:
    inner = compound_file({"WordDocument": bytes(5000)})
    assert sniff(compound_file({"PowerPoint Document": inner})) == PPT
    assert sniff(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"..." + "Workbook".encode("utf-16-le")) == XLS
