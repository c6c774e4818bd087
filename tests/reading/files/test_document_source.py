"""Opening documents: what they are, and why some can't be read."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pymupdf
import pytest
from PIL import Image

from quire.errors import (
    DamagedError,
    EmptyError,
    PasswordRequiredError,
    PasswordWrongError,
    TooManyPagesError,
    UnsupportedTypeError,
)
from quire.reading.files.document_source import OpenDocuments, inspect, open_documents
from quire.reading.pdf.page_reader import read_pages
from tests.reading.conftest import Make, form_pdf, text_pdf

LOCK = {"encryption": pymupdf.PDF_ENCRYPT_AES_256, "user_pw": "öffne", "owner_pw": "owner"}


def test_pages_and_metadata_are_told_when_pdf_is_sound(save: Make) -> None:
    document = text_pdf(3)
    document.set_metadata({"title": " Annual\nReport ", "author": "A. Writer"})
    info = inspect(save(document), None, 10)
    assert (info.mime, info.page_count, info.encrypted) == ("application/pdf", 3, False)
    assert (info.title, info.author) == ("Annual Report", "A. Writer")
    assert pickle.loads(pickle.dumps(info)) == info


def test_password_is_asked_for_when_there_is_none(save: Make) -> None:
    with pytest.raises(PasswordRequiredError):
        inspect(save(text_pdf(), **LOCK), None, 10)


def test_password_is_refused_when_it_is_wrong(save: Make) -> None:
    with pytest.raises(PasswordWrongError):
        inspect(save(text_pdf(), **LOCK), "guess", 10)


def test_pages_are_read_when_password_is_right(save: Make) -> None:
    path = save(text_pdf(2), **LOCK)
    assert inspect(path, "öffne", 10).encrypted
    assert "Chapter 2" in read_pages(path, "öffne", [2])[0].markdown


def test_layout_reader_sees_the_page_when_the_document_is_locked(save: Make) -> None:
    reading = read_pages(save(form_pdf(), **LOCK), "öffne", [1])[0]
    assert reading.reader == "liteparse"
    assert "Jane Doe" in reading.markdown


def test_document_is_damaged_when_only_its_marker_is_left(tmp_path: Path) -> None:
    path = tmp_path / "broken.pdf"
    path.write_bytes(b"%PDF-1.7\n" + b"\x01\x02nothing here" * 50)
    with pytest.raises((DamagedError, EmptyError)) as caught:
        inspect(str(path), None, 10)
    assert "save it anew" in caught.value.public


def test_pages_are_saved_when_pdf_is_cut_short(save: Make, tmp_path: Path) -> None:
    whole = Path(save(text_pdf(4))).read_bytes()
    path = tmp_path / "short.pdf"
    path.write_bytes(whole[: len(whole) * 9 // 10])
    info = inspect(str(path), None, 10)
    readings = read_pages(str(path), None, range(1, info.page_count + 1))
    assert any("Chapter" in r.markdown for r in readings)


def test_document_is_empty_when_it_has_no_pages(tmp_path: Path) -> None:
    path = tmp_path / "none.pdf"
    path.write_bytes(
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
        b"trailer<</Root 1 0 R/Size 3>>\n%%EOF\n"
    )
    with pytest.raises(EmptyError):
        inspect(str(path), None, 10)


def test_document_is_empty_when_it_has_no_bytes(tmp_path: Path) -> None:
    path = tmp_path / "zero.pdf"
    path.touch()
    with pytest.raises(EmptyError):
        inspect(str(path), None, 10)


def test_type_is_named_when_it_is_not_supported(tmp_path: Path) -> None:
    path = tmp_path / "looks-like.pdf"
    path.write_bytes(b"AT&TFORM" + bytes(50))
    with pytest.raises(UnsupportedTypeError, match=r"image/vnd\.djvu"):
        inspect(str(path), None, 10)


def test_document_is_refused_when_it_has_too_many_pages(save: Make) -> None:
    with pytest.raises(TooManyPagesError, match="5 pages"):
        inspect(save(text_pdf(5)), None, 4)


def test_pdf_is_read_when_its_name_has_no_extension(save: Make) -> None:
    assert "Chapter 1" in read_pages(save(text_pdf(), "blob"), None, [1])[0].markdown


def test_script_in_pdf_does_nothing_when_it_is_opened(save: Make) -> None:
    document = text_pdf()
    catalog = document.pdf_catalog()
    document.xref_set_key(catalog, "OpenAction", "<</S/JavaScript/JS(app.alert\\('x'\\))>>")
    path = save(document)
    assert inspect(path, None, 10).page_count == 1
    assert "alert" not in read_pages(path, None, [1])[0].markdown


def test_document_is_opened_once_when_chunks_follow_each_other(save: Make) -> None:
    cache = OpenDocuments()
    path = save(text_pdf(3))
    assert cache.get(path, None) is cache.get(path, None)
    cache.forget()


def test_document_is_opened_anew_when_its_file_has_changed(save: Make) -> None:
    path = save(text_pdf(1))
    assert inspect(path, None, 10).page_count == 1
    save(text_pdf(2))
    assert inspect(path, None, 10).page_count == 2


def test_cache_stays_small_when_many_documents_are_opened(save: Make) -> None:
    for i in range(5):
        inspect(save(text_pdf(), f"{i}.pdf"), None, 10)
    assert len(open_documents()._open) <= 2


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"])
def test_picture_is_a_document_when_its_type_is_supported(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "picture"
    Image.new("RGB", (60, 40), "red").save(path, kind)
    assert inspect(str(path), None, 10).page_count == 1
    reading = read_pages(str(path), None, [1])[0]
    assert (reading.page_class, reading.markdown) == ("SCANNED", "")
    assert "no_text_layer" in reading.reasons


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP"])
def test_every_frame_is_a_page_when_there_are_several(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "frames"
    frames = [Image.new("RGB", (60, 40), c) for c in ("red", "green", "blue")]
    frames[0].save(path, kind, save_all=True, append_images=frames[1:])
    assert inspect(str(path), None, 10).page_count == 3


def test_picture_is_damaged_when_only_its_signature_is_left(tmp_path: Path) -> None:
    path = tmp_path / "broken.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"\x00" * 40)
    with pytest.raises(DamagedError):
        inspect(str(path), None, 10)


def test_import_is_light_when_nothing_is_read() -> None:
    code = (
        "import sys, quire.reading.pdf.page_reader, quire.reading.pdf.page_render; "
        "print({'pymupdf', 'PIL'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
