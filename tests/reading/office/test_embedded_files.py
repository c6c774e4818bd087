"""Files inside Office documents and mails are elements of the page that shows them, named and told by content."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import olefile  # type: ignore[import-untyped]
import pytest

from quire.domain.element import Element, ElementKind, FileFacts
from quire.domain.element_codec import decode
from quire.domain.page import PageReading
from quire.reading.office.zip_container import OfficeLimits
from quire.reading.pdf.grounding import pack_described_page
from quire.reading.pdf.page_reader import read_pages
from quire.rendering.page_html import render_html
from quire.rendering.page_markdown import render_markdown
from tests.support.office_files import cells, docx, mail, odf, p, pptx, relations, shape, xlsx, zipped

from .conftest import ReadReading
from .old_files import word_file, workbook_file
from .outlook_files import compound_file, outlook_message

WORKBOOK = xlsx({"Sums": cells("a", 1)})
COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
XLSX_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
OBJECT = '<w:r><w:object><o:OLEObject xmlns:o="urn:schemas-microsoft-com:office:office" r:id="{}"/></w:object></w:r>'


def files_of(reading: PageReading) -> list[Element]:
    return [one for one in reading.elements if one.kind is ElementKind.ATTACHMENT]


def with_parts(made: bytes, parts: dict[str, bytes | str]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        return zipped({**{name: archive.read(name) for name in archive.namelist()}, **parts})


def packaged(label: str, data: bytes) -> bytes:
    """A file as the Windows packager wraps it in a compound file."""
    path = b"C:\\temp\\" + label.encode("cp1252") + b"\0"
    body = (
        b"\x02\0"
        + label.encode("cp1252")
        + b"\0"
        + path
        + b"\0\0\x03\0"
        + struct.pack("<I", len(path))
        + path
    )
    body += struct.pack("<I", len(data)) + data
    return compound_file({"\x01Ole10Native": struct.pack("<I", len(body)) + body})


def test_a_workbook_in_a_word_document_is_an_attachment_behind_its_paragraph(reading: ReadReading) -> None:
    body = p(runs=f"<w:r><w:t>The sums:</w:t></w:r>{OBJECT.format('m1')}") + p("Behind it.")
    name = "Microsoft_Excel_Worksheet.xlsx"
    found = reading(docx(body, media={f"embeddings/{name}": WORKBOOK}))
    size = f"{len(WORKBOOK)} bytes" if len(WORKBOOK) < 1024 else f"{len(WORKBOOK) / 1024:,.0f} kB"
    assert found.markdown == f"The sums:\n\n[Attachment: {name} (Excel workbook, {size})]\n\nBehind it."
    (only,) = files_of(found)
    assert only.file == FileFacts(name, len(WORKBOOK), XLSX_TYPE)
    assert only.text == f"Attachment: {name} (Excel workbook, {size})"
    assert render_markdown(found.elements) == found.markdown


def test_a_packaged_file_has_its_own_name_and_type(reading: ReadReading) -> None:
    held = packaged("..\\Pläne [1].pdf", b"%PDF-1.7 " + bytes(5000))
    (only,) = files_of(reading(docx(p(runs=OBJECT.format("m1")), media={"embeddings/oleObject1.bin": held})))
    assert only.file == FileFacts("Pläne [1].pdf", 5009, "application/pdf")
    assert only.markdown == "[Attachment: Pläne (1).pdf (PDF document, 5 kB)]"


def test_a_document_in_a_compound_file_is_told_by_its_stream(reading: ReadReading) -> None:
    held = compound_file({"Package": WORKBOOK})
    (only,) = files_of(reading(docx(p(runs=OBJECT.format("m1")), media={"embeddings/oleObject1.bin": held})))
    assert only.file == FileFacts("package", len(WORKBOOK), XLSX_TYPE)


@pytest.mark.parametrize(
    "held", [b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(9000), b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b""]
)
def test_a_broken_wrapper_costs_nothing_but_the_name_of_what_is_in_it(
    reading: ReadReading, held: bytes
) -> None:
    found = reading(
        docx(p("Words.") + p(runs=OBJECT.format("m1")), media={"embeddings/oleObject1.bin": held})
    )
    assert found.markdown.startswith("Words.")
    (only,) = files_of(found)
    assert only.file is not None
    assert (only.file.name, only.file.size) == ("oleObject1.bin", len(held))


def test_a_text_that_looks_like_the_line_of_a_file_is_a_paragraph(reading: ReadReading) -> None:
    found = reading(docx(p("[Attachment: pay.pdf (PDF document, 5 kB)]") + p("More.")))
    assert files_of(found) == []
    assert found.elements[0].text == "[Attachment: pay.pdf (PDF document, 5 kB)]"


def test_a_linked_file_is_no_attachment(reading: ReadReading) -> None:
    found = reading(docx(p("Words.") + p(runs=OBJECT.format("l1")), links=["file:///c:/a.xlsx"]))
    assert files_of(found) == []


def test_an_object_on_a_slide_is_an_attachment(reading: ReadReading) -> None:
    frame = (
        '<p:graphicFrame><a:graphic><a:graphicData><p:oleObj name="Worksheet" r:id="o1" progId="Excel.Sheet.12">'
        "<p:embed/></p:oleObj></a:graphicData></a:graphic></p:graphicFrame>"
    )
    made = with_parts(
        pptx([shape("Sums", "title") + frame]),
        {
            "ppt/slides/_rels/slide1.xml.rels": relations(("o1", "package", "../embeddings/Sums.xlsx")),
            "ppt/embeddings/Sums.xlsx": WORKBOOK,
        },
    )
    found = reading(made)
    assert [one.file for one in files_of(found)] == [FileFacts("Sums.xlsx", len(WORKBOOK), XLSX_TYPE)]
    assert found.elements[0].text == "Sums"


def test_a_file_in_a_sheet_is_an_attachment_of_its_page(reading: ReadReading) -> None:
    made = with_parts(
        xlsx({"Data": cells("a", 1)}),
        {
            "xl/worksheets/_rels/sheet1.xml.rels": relations(
                ("o1", "oleObject", "../embeddings/oleObject1.bin")
            ),
            "xl/embeddings/oleObject1.bin": packaged("note.txt", b"some words in a file"),
        },
    )
    (only,) = files_of(reading(made))
    assert only.file == FileFacts("note.txt", 20, "text/plain")


def test_a_sheet_in_an_open_document_is_an_attachment_and_a_formula_is_none(reading: ReadReading) -> None:
    inner = (
        '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0">'
        "<office:body><office:spreadsheet/></office:body></office:document-content>"
    )
    body = (
        "<text:p>The sums:<draw:frame><draw:object xlink:href='./Object 1'/></draw:frame></text:p>"
        "<text:p>Behind.<draw:frame><draw:object-ole xlink:href='./Object 2'/></draw:frame></text:p>"
    )
    found = reading(
        odf(
            "text",
            body,
            parts={"Object 1/content.xml": inner, "Object 2": packaged("a.txt", b"words").decode("latin-1")},
        )
    )
    first = files_of(found)[0]
    assert first.file == FileFacts("Object 1", len(inner), "application/vnd.oasis.opendocument.spreadsheet")
    assert [one.text for one in found.elements if one.kind is ElementKind.PARAGRAPH] == [
        "The sums:",
        "Behind.",
    ]


def test_files_of_a_mail_are_attachments_in_a_list_as_before(reading: ReadReading) -> None:
    files = {"../../etc/pass\u202ewd.csv": b"a,b,c\n1,2,3\n4,5,6\n", "y.exe": b"MZ\x00\x00"}
    found = reading(mail(files=files).as_bytes())
    first, second = files_of(found)
    assert first.file == FileFacts("passwd.csv", 18, "text/csv")
    assert (first.marker, first.text) == ("-", "passwd.csv (table in a text file, 18 bytes)")
    assert second.file == FileFacts("y.exe", 4, "application/vnd.microsoft.portable-executable")
    lines = (
        "- [passwd.csv](attachments/passwd.csv.md) (table in a text file, 18 bytes)\n"
        "- y.exe (application/vnd.microsoft.portable-executable, 4 bytes, not converted)"
    )
    assert lines in found.markdown
    assert render_markdown(found.elements) == found.markdown
    assert f'<ul><li id="{first.id}">' in render_html(found.elements)


def test_files_of_an_outlook_message_are_attachments(reading: ReadReading) -> None:
    found = reading(outlook_message("Tides", "plain", files={"..\\t.bin": bytes(9)}))
    assert [one.file for one in files_of(found)] == [FileFacts("t.bin", 9, "application/octet-stream")]


def test_an_item_of_a_mail_s_text_is_no_attachment(reading: ReadReading) -> None:
    html = "<ul><li><a href='attachments/a.txt.md'>a.txt</a> (plain text, 5 bytes)</li></ul>"
    assert files_of(reading(mail(html=html).as_bytes())) == []


def test_a_page_keeps_its_files_when_a_model_has_described_its_pictures(tmp_path: Path) -> None:
    path = tmp_path / "mail"
    path.write_bytes(
        mail(html="<p>See [Picture] <img src='cid:x'></p>", files={"a.txt": b"words"}).as_bytes()
    )
    own = read_pages(str(path), None, [1])[0]
    described = own.markdown.replace("[Picture]", "[Picture: a ship]")
    stored = decode(pack_described_page(str(path), None, 1, OfficeLimits(), described).elements).elements
    assert [one.kind for one in stored] == [one.kind for one in own.elements]
    assert [one.file for one in stored if one.file] == [FileFacts("a.txt", 5, "text/plain")]


@pytest.mark.parametrize("name", ["x](http_evil).csv", "[y](http_evil).csv", "]un]used[.csv"])
def test_a_name_of_a_mail_s_file_can_t_end_its_link(reading: ReadReading, name: str) -> None:
    found = reading(mail(files={name: b"a,b,c\n1,2,3\n4,5,6\n"}).as_bytes())
    (only,) = files_of(found)
    assert only.file is not None
    assert only.file.name == name
    html = render_html([only])
    assert html.count("<a ") == 1
    assert f">{name}</a> (table in a text file, 18 bytes)" in html
    assert 'href="attachments/' in html
    assert only.text == f"{name} (table in a text file, 18 bytes)"


def test_a_quotation_in_a_quotation_has_no_signs_in_its_text(reading: ReadReading) -> None:
    html = "<blockquote>first<blockquote>second</blockquote></blockquote>"
    found = reading(mail(html=html).as_bytes())
    assert [one.text for one in found.elements if one.kind is ElementKind.QUOTE] == ["first", "second"]
    assert "> > second" in found.markdown


def with_storages(made: bytes, storages: dict[str, Any]) -> bytes:
    with olefile.OleFileIO(made) as file:
        streams: dict[str, Any] = {path[0]: file.openstream(path).read() for path in file.listdir()}
    return compound_file({**streams, **storages})


def native(label: str, data: bytes) -> bytes:
    with olefile.OleFileIO(packaged(label, data)) as file:
        found: bytes = file.openstream("\x01Ole10Native").read()
    return found


def test_objects_of_an_older_word_document_are_attachments_at_its_end(reading: ReadReading) -> None:
    made = with_storages(
        word_file("Words of it.\r", [(0, b"")]),
        {
            "ObjectPool": {
                "_1": {"\x01Ole10Native": native("plan.pdf", b"%PDF-1.7 " + bytes(3000))},
                "_2": {"WordDocument": bytes(5000), "1Table": bytes(120)},
                "_3": {"Workbook": bytes(5000), "\x01CompObj": b"....MSGraph.Chart.8..."},
                "_4": {"\x01Ole10Native": b"broken"},
            }
        },
    )
    found = reading(made)
    first, second = files_of(found)
    assert found.elements[0].text == "Words of it."
    assert first.file == FileFacts("plan.pdf", 3009, "application/pdf")
    assert second.file == FileFacts("object.doc", 5120, "application/msword")


def test_objects_of_an_older_workbook_are_attachments_of_its_last_sheet(reading: ReadReading) -> None:
    made = with_storages(workbook_file([("a", "b"), (1, 2)]), {"MBD0001A2B3": {"Package": WORKBOOK}})
    found = reading(made)
    assert "| a | b |" in found.markdown
    assert [one.file for one in files_of(found)] == [FileFacts("package", len(WORKBOOK), XLSX_TYPE)]


def _linked(kind: bytes, native: bytes, form: int = 2) -> bytes:
    """An object as the first version of OLE wrote it."""
    texts = b"".join(struct.pack("<I", len(one)) + one for one in (kind + b"\0", b"", b""))
    return struct.pack("<II", 0x501, form) + texts + struct.pack("<I", len(native)) + native


def _rtf(data: bytes) -> str:
    digits = "\n".join(data.hex()[at : at + 60] for at in range(0, 2 * len(data), 60))
    held = f"{{\\object\\objemb{{\\*\\objclass X}}{{\\*\\objdata {digits}}}{{\\result shown}}}}"
    return f"{{\\rtf1 See {held} here.\\par Last.\\par}}"


def test_an_object_in_rtf_is_an_attachment_at_the_end(reading: ReadReading) -> None:
    found = reading(_rtf(_linked(b"Excel.Sheet.12", compound_file({"Package": WORKBOOK}))))
    assert found.markdown.startswith("See shown here.\n\nLast.\n\n[Attachment: package (Excel workbook, ")
    (only,) = files_of(found)
    assert only.file == FileFacts("package", len(WORKBOOK), XLSX_TYPE)


def test_a_packaged_file_in_rtf_has_its_own_name(reading: ReadReading) -> None:
    label = b"plan.pdf"
    body = b"\x02\0" + label + b"\0C:\\" + label + b"\0\0\0\x03\0" + struct.pack("<I", 4) + b"C:\\\0"
    body += struct.pack("<I", 14) + b"%PDF-1.7 12345"
    (only,) = files_of(reading(_rtf(_linked(b"Package", body))))
    assert only.file == FileFacts("plan.pdf", 14, "application/pdf")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        _linked(b"Package", b"\x02\0abc"),
        _linked(b"Excel.Sheet.12", compound_file({"Package": WORKBOOK}), form=1),
        _linked(b"X", COMPOUND + bytes(9000)),
        struct.pack("<III", 1, 2, 0xFFFFFFFF),
        _linked(
            b"MSGraph.Chart.8", compound_file({"\x01CompObj": b"..MSGraph.Chart.8", "Workbook": bytes(99)})
        ),
    ],
)
def test_an_object_in_rtf_that_holds_no_file_costs_no_words(reading: ReadReading, data: bytes) -> None:
    assert reading(_rtf(data)).markdown == "See shown here.\n\nLast."


def _slides_with(stored: bytes, instance: int) -> bytes:
    """A PowerPoint 97 file with a slide that shows an embedded object."""

    def record(kind: int, data: bytes, instance: int = 0) -> bytes:
        return struct.pack("<HHI", instance << 4 | 0xF, kind, len(data)) + data

    def drawn(text: str, about: bytes) -> bytes:
        words = record(3999, struct.pack("<I", 4)) + record(4008, text.encode())
        return record(0xF004, record(0xF011, about) + record(0xF00D, words))

    atom = record(4035, struct.pack("<6I", 1, 0, 7, 0, 2, 0))
    listed = record(1033, record(1034, bytes(4)) + record(4044, atom))
    outline = record(4080, record(1011, struct.pack("<5I", 1, 0, 0, 256, 0)))
    shapes = drawn("Sums", record(3009, struct.pack("<I", 7))) + drawn("Behind it.", b"")
    parts = [
        record(1000, listed + outline),
        record(1006, record(1036, record(0xF002, record(0xF003, shapes)))),
    ]
    parts.append(record(4113, stored, instance))
    offsets = [0, len(parts[0]), len(parts[0]) + len(parts[1])]
    data = b"".join(parts)
    directory = len(data)
    data += record(6002, struct.pack("<4I", 3 << 20, *offsets))
    edit = len(data)
    data += record(4085, struct.pack("<IHBBIIIIHH", 0, 0, 0, 3, 0, directory, 0, 9, 0, 0))
    user = record(4086, struct.pack("<III", 20, 0xE391C05F, edit) + bytes(20))
    return compound_file({"PowerPoint Document": data, "Current User": user})


def test_an_object_on_an_old_slide_is_an_attachment_behind_its_shape(reading: ReadReading) -> None:
    held = compound_file({"Workbook": bytes(5000)})
    packed = struct.pack("<I", len(held)) + zlib.compress(held)
    for stored, instance in ((held, 0), (packed, 1)):
        found = reading(_slides_with(stored, instance))
        first, second, last = found.markdown.split("\n\n")
        assert (first, last) == ("Sums", "Behind it.")
        assert second.startswith("[Attachment: object.xls (Excel workbook of before 2007, ")
        assert [one.file.name for one in files_of(found) if one.file] == ["object.xls"]


@pytest.mark.parametrize(
    "stored", [b"", b"abcd", bytes(4) + zlib.compress(b"no file"), bytes(4) + zlib.compress(bytes(70 << 20))]
)
def test_a_broken_object_on_an_old_slide_costs_no_words(reading: ReadReading, stored: bytes) -> None:
    assert reading(_slides_with(stored, 1)).markdown == "Sums\n\nBehind it."
