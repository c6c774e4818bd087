"""Office files, web pages, books, tables and mails as Markdown: structure kept, order kept, nothing active."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from quire.domain.element import CellSpan, ElementKind
from quire.domain.page import PageClass, PageReading
from quire.errors import DamagedError, EmptyError, PasswordRequiredError, UnsupportedTypeError
from quire.reading.files.document_source import DocumentInfo, inspect
from quire.reading.files.file_kinds import PPTX, sniff
from quire.reading.office.mail_reader import attached_bytes
from quire.reading.office.office_elements import office_elements
from quire.reading.office.office_pages import Pager
from quire.reading.office.picture_sheet import SheetOptions, contact_sheet, described_page
from quire.reading.office.zip_container import OfficeLimits
from quire.reading.pdf.page_reader import read_pages
from quire.reading.pdf.page_render import render_page
from tests.reading.office.outlook_files import compound_file, outlook_message
from tests.support.office_files import (
    cells,
    docx,
    drawing,
    epub,
    item,
    mail,
    odf,
    p,
    png,
    pptx,
    relations,
    run,
    shape,
    word_table,
    xlsx,
    zipped,
)

DATA = Path(__file__).parent / "data"
Read = Callable[[bytes | str], list[PageReading]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads every page of a document that is given as bytes or text."""

    def all_pages(content: bytes | str) -> list[PageReading]:
        path = tmp_path / "document"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        info = inspect(str(path), None, 10_000)
        return read_pages(str(path), None, range(1, info.page_count + 1))

    return all_pages


def only(readings: list[PageReading]) -> str:
    assert len(readings) == 1
    return readings[0].markdown


def saved(folder: Path, content: bytes) -> str:
    path = folder / "document"
    path.write_bytes(content)
    return str(path)


# ---- files made by other programs --------------------------------------------------------------------------


def test_word_document_keeps_its_structure_when_another_program_wrote_it() -> None:
    path = str(DATA / "report.docx")
    info = inspect(path, None, 100)
    first, last = read_pages(path, None, [1, info.page_count])
    assert (info.title, info.author) == ("Annual report", "Jane Doe")
    assert first.markdown.startswith(
        "# Annual report\n\n# Chapter 1\n\nThe committee met in the **large** hall"
    )
    assert (
        "\n- First bullet\n  - Nested bullet\n- Second bullet\n1. Step one\n2. Step two\n" in first.markdown
    )
    assert "| Name | Qty | Price\\|net |\n|---|---|---|\n| Item 1-0 | 0 | 0.00 |" in first.markdown
    assert (first.page_class, first.reader) == (PageClass.HAS_GRAPHICS, "docx")
    assert (last.markdown, last.page_class) == ("After the break.", PageClass.TEXT_ONLY)


def test_workbook_keeps_sheets_values_and_notes_when_another_program_wrote_it() -> None:
    data, hidden, empty = read_pages(str(DATA / "book.xlsx"), None, [1, 2, 3])
    assert data.markdown.startswith(
        "## Data\n\n| Id | Name | Amount | Share | When |\n|---|---|---|---|---|\n| 0 | Name 0 |"
    )
    assert "| 1 | [Name 1](https://example.org/x) | 1.1 | 0.1% | 2024-01-02 |" in data.markdown
    assert "**Note at B2 by me**: Check this" in data.markdown
    assert hidden.markdown == "## Secret (hidden)\n\nhidden value\n\ncorner"
    assert "empty" in empty.markdown


def test_presentation_keeps_slides_tables_and_notes_when_another_program_wrote_it() -> None:
    first, second, third = read_pages(str(DATA / "talk.pptx"), None, [1, 2, 3])
    assert first.markdown == (
        "# Slide title 1\n\n- First point\n  - Sub point\n- Second point\n\n### Notes\n\nNotes of slide 1"
    )
    assert "[Picture]" in second.markdown
    assert second.page_class is PageClass.HAS_GRAPHICS
    assert "| r0c0 | r0c1 |\n|---|---|\n| r1c0 | r1c1 |" in third.markdown


# ---- Word --------------------------------------------------------------------------------------------------


def test_lists_are_numbered_and_nested_when_the_file_only_names_their_levels(read: Read) -> None:
    body = (
        item("one", 2)
        + item("inner", 2, 1)
        + item("inner", 2, 1)
        + item("two", 2)
        + item("dot", 1)
        + item("dot", 1, 1)
    )
    assert only(read(docx(body))) == "1. one\n   - a) inner\n   - b) inner\n2. two\n- dot\n  - dot"


def test_headings_carry_their_number_when_they_are_numbered(read: Read) -> None:
    numbered = '<w:numPr><w:ilvl w:val="2"/><w:numId w:val="2"/></w:numPr>'
    body = item("x", 2) + p("Scope", "Heading2", numbered)
    assert only(read(docx(body))).endswith("## 1.1 Scope")


def test_looks_links_and_notes_are_kept_when_runs_are_split(read: Read) -> None:
    runs = (
        run("very ", "<w:b/>")
        + run("bold", "<w:b/>")
        + run(" plain", '<w:b w:val="0"/>')
        + '<w:hyperlink r:id="l1">'
        + run(" site ")
        + "</w:hyperlink>"
        + '<w:r><w:footnoteReference w:id="2"/></w:r>'
    )
    note = f'<w:footnote w:id="2">{p("See the annex.")}</w:footnote>'
    found = only(read(docx(p(runs=runs), footnotes=note, links=["https://example.org/a b"])))
    assert found == "**very bold** plain [site](https://example.org/ab) [^2]\n\n[^2]: See the annex."


def test_text_stays_text_when_it_looks_like_markup(read: Read) -> None:
    nasty = "# no heading <script>alert(1)</script> [x](javascript:alert(1)) *no* [Picture] \u202egnp"
    assert only(read(docx(p(nasty) + p("1. no list") + p("| no table")))) == (
        "\\# no heading &lt;script>alert(1)&lt;/script> \\[x](javascript:alert(1)) \\*no\\* \\[Picture] gnp\n\n"
        "1\\. no list\n\n\\| no table"
    )


def test_deleted_text_and_second_versions_are_left_out_when_there_are_any(read: Read) -> None:
    runs = (
        run("kept")
        + "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>"
        + "<w:ins>"
        + run(" new")
        + "</w:ins>"
        + '<w:r><mc:AlternateContent xmlns:mc="x"><mc:Choice><w:t> choice</w:t></mc:Choice>'
        "<mc:Fallback><w:t> fallback</w:t></mc:Fallback></mc:AlternateContent></w:r>"
    )
    assert only(read(docx(p(runs=runs)))) == "kept new choice"


def test_table_keeps_its_grid_when_cells_are_merged(read: Read) -> None:
    wide = f'<w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr>{p("wide")}</w:tc>'
    below = f"<w:tc><w:tcPr><w:vMerge/></w:tcPr>{p('ghost')}</w:tc>"
    c, one, two = (f"<w:tc>{p(text)}</w:tc>" for text in ("c", "1", "2"))
    body = f"<w:tbl><w:tr>{wide}{c}</w:tr><w:tr>{below}{one}{two}</w:tr></w:tbl>"
    assert only(read(docx(body))) == "| wide |  | c |\n|---|---|---|\n|  | 1 | 2 |"


def test_long_document_is_cut_at_headings_when_it_passes_the_bound(read: Read) -> None:
    section = p("Part", "Heading1") + p("Words of a paragraph. " * 40) * 10
    readings = read(docx(section * 12))
    assert len(readings) > 4
    assert all(reading.markdown.startswith("# Part") for reading in readings)
    assert sum(reading.markdown.count("# Part") for reading in readings) == 12
    assert all(len(reading.markdown) <= 16_000 for reading in readings)


def test_long_table_shows_its_head_on_every_page_when_it_is_cut(read: Read) -> None:
    rows = [["Name", "Text"], *([f"n{i}", "words " * 20] for i in range(400))]
    readings = read(docx(word_table(rows)))
    assert len(readings) > 2
    assert all(reading.markdown.startswith("| Name | Text |\n|---|---|\n| n") for reading in readings)
    assert sum(reading.markdown.count("\n| n") for reading in readings) == 400


def test_page_ends_when_the_author_ended_it(read: Read) -> None:
    broken = p(runs=run("before") + '<w:r><w:br w:type="page"/></w:r>')
    readings = read(docx(broken + p("after") + p("new", properties="<w:pageBreakBefore/>")))
    assert [reading.markdown for reading in readings] == ["before", "after", "new"]


# ---- pictures ----------------------------------------------------------------------------------------------


def test_pictures_are_described_in_their_place_when_descriptions_are_given(tmp_path: Path) -> None:
    media = {"media/a.png": png(), "media/b.png": png(color="blue"), "media/dot.png": png(4, 4)}
    body = (
        p(runs=run("First ") + drawing("m1", "a [red] box"))
        + word_table([["Logo", "x"], ["y", "z"]])
        + p(runs=drawing("m3") + drawing("m2") + drawing("m1"))
    )
    path = saved(tmp_path, docx(body, media=media))
    page = read_pages(path, None, [1])[0]
    assert page.page_class is PageClass.HAS_GRAPHICS
    assert "First [Picture: a (red) box]" in page.markdown
    sheet = contact_sheet(path, None, 1, OfficeLimits(), SheetOptions())
    assert sheet.pictures == 2
    assert sheet.image.startswith(b"\xff\xd8")
    text = described_page(path, None, 1, OfficeLimits(), {1: "A red | [box].", 2: "A blue box."})
    assert "First [Picture: A red / (box).]" in text
    assert text.endswith("[Picture][Picture: A blue box.][Picture: A red / (box).]")


def test_picture_is_seen_when_a_page_carries_it_in_its_text(read: Read) -> None:
    address = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    page = read(f"<html><p>Look: <img src='{address}' alt='a box'></p>")[0]
    assert (page.markdown, page.page_class) == ("Look: [Picture: a box]", PageClass.HAS_GRAPHICS)


def test_page_has_no_picture_of_its_own_when_it_is_markup(tmp_path: Path) -> None:
    from quire.errors import PageError

    with pytest.raises(PageError, match="no picture"):
        render_page(saved(tmp_path, docx(p("text"))), None, 1)


# ---- sheets ------------------------------------------------------------------------------------------------


def test_sheets_follow_each_other_when_there_are_several(read: Read) -> None:
    readings = read(xlsx({"B": cells("x", 1) + cells("y", 2), "A": cells("z")}, states={"A": "hidden"}))
    assert [r.markdown for r in readings] == [
        "## B\n\n| x | 1 |\n|---|---|\n| y | 2 |",
        "## A (hidden)\n\nz",
    ]


def test_cell_in_the_last_corner_costs_one_row_when_the_rest_is_empty(read: Read) -> None:
    rows = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'
    assert only(read(xlsx({"S": rows}))) == "## S\n\n1\n\n2"


def test_long_sheet_goes_on_over_pages_when_it_passes_the_bound(read: Read) -> None:
    rows = cells("id", "text") + "".join(cells(i, "words " * 5) for i in range(6_000))
    readings = read(xlsx({"Long": rows}))
    assert len(readings) > 3
    assert readings[1].markdown.startswith("## Long (continued)\n\n| id | text |\n|---|---|\n")
    numbers = [
        int(line.split("|")[1])
        for r in readings
        for line in r.markdown.splitlines()
        if line[:3].strip("| ").isdigit()
    ]
    assert numbers == list(range(6_000))


def test_table_of_gaps_does_not_grow_when_values_lie_on_a_diagonal(read: Read) -> None:
    def name(column: int) -> str:
        letters = ""
        while column:
            column, rest = divmod(column - 1, 26)
            letters = chr(65 + rest) + letters
        return letters

    rows = "".join(f'<row r="{i}"><c r="{name(i)}{i}"><v>{i}</v></c></row>' for i in range(1, 3_000))
    assert sum(len(r.markdown) for r in read(xlsx({"S": rows}))) < 60_000


def test_figures_are_shown_as_people_read_them_when_they_have_noise(read: Read) -> None:
    numbers = "".join(f"<c><v>{value}</v></c>" for value in ("0.1", "0.30000000000000004", "1E+3"))
    rows = f'<row>{numbers}<c t="b"><v>1</v></c><c t="e"><v>#N/A</v></c></row>'
    assert "| 0.1 | 0.3 | 1000 | TRUE | #N/A |" in only(read(xlsx({"S": rows * 2})))


# ---- slides ------------------------------------------------------------------------------------------------


def test_slides_come_in_the_order_of_the_show_when_files_are_named_otherwise(read: Read) -> None:
    slides = [shape("One", "title") + shape("a\nb", "body"), shape("Two", "title")]
    readings = read(pptx(slides, order=[2, 1], hidden=[2]))
    assert [r.markdown for r in readings] == ["# Two (hidden)", "# One\n\n- a\n- b"]


# ---- HTML --------------------------------------------------------------------------------------------------


def test_page_keeps_structure_and_nothing_active_when_it_is_html(read: Read) -> None:
    found = only(
        read(
            "<!doctype html><title>T</title><style>p{}</style><h1>Head <b>x</b></h1>"
            "<p>A <a href='https://e.org/?a=1&amp;b=(2)'>link</a>, <a href=' javascript:alert(1)'>bad</a>, "
            "<em>soft</em> &lt;b&gt;</p>"
            "<ul><li>one<ol start=3><li>three<li>four</ol><li>two</ul>"
            "<table><tr><th>A<th>B<tr><td>1|1<td>2<br>3</table><script>alert(2)</script>"
            "<div hidden>secret</div><pre>x  y\n  z</pre><blockquote>said</blockquote>"
        )
    )
    assert found == (
        "# Head x\n\nA [link](https://e.org/?a=1&b=%282%29), bad, *soft* &lt;b>\n\n"
        "- one\n  3. three\n  4. four\n- two\n\n| A | B |\n|---|---|\n| 1\\|1 | 2 3 |\n\n"
        "```\nx  y\n  z\n```\n\n> said"
    )


@pytest.mark.parametrize(
    "page",
    [
        b"\xef\xbb\xbf<html><p>caf\xc3\xa9",
        b"<html><meta charset=utf-8><p>caf\xc3\xa9",
        b"<html><meta http-equiv=Content-Type content='text/html; charset=iso-8859-1'><p>caf\xe9",
        b"<html><p>caf\xe9 nothing said of it",
        "<html><p>café".encode("utf-16"),
        b"<html><meta charset=koi8-r><p>\xd0\xd2\xc9\xd7\xc5\xd4 caf\xc3",
    ],
)
def test_words_are_right_when_a_page_is_in_its_own_charset(read: Read, page: bytes) -> None:
    assert "café" in (text := only(read(page))) or "привет" in text


# ---- books and tables --------------------------------------------------------------------------------------


def test_chapters_are_pages_in_spine_order_when_the_book_is_an_epub(read: Read, tmp_path: Path) -> None:
    chapters = [
        '<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://x/y.dtd">'
        '<html><body><h1>One</h1><img src="../img/a.png"/></body></html>',
        "<html><body><h1>Two</h1><p>&nbsp;End&mdash;of it</p></body></html>",
    ]
    first, second = read(epub(chapters, more={"OEBPS/img/a.png": png()}))
    assert (first.markdown, first.page_class) == ("# One\n\n[Picture]", PageClass.HAS_GRAPHICS)
    assert second.markdown == "# Two\n\nEnd—of it"
    info: DocumentInfo = inspect(str(tmp_path / "document"), None, 10)
    assert (info.title, info.author) == ("A book", "An author")


def test_book_is_refused_in_words_when_it_is_protected(read: Read) -> None:
    lock = (
        '<encryption xmlns="urn:x"><EncryptedData><EncryptionMethod Algorithm="aes"/><CipherData>'
        '<CipherReference URI="OEBPS/text/c1.xhtml"/></CipherData></EncryptedData></encryption>'
    )
    with pytest.raises(DamagedError, match="DRM"):
        read(epub(["<p>x</p>"], more={"META-INF/encryption.xml": lock}))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_rows_are_a_table_when_fields_are_separated(read: Read, delimiter: str) -> None:
    rows = [
        ["Name", "City", "Sum"],
        ["Ann", '"O""Hara"', "1"],
        ["Bö", "x|y", "2"],
        ["Cy", '"two\nlines"', "3"],
    ]
    text = "\n".join(delimiter.join(row) for row in rows)
    assert only(read(text)) == (
        '| Name | City | Sum |\n|---|---|---|\n| Ann | O"Hara | 1 |\n| Bö | x\\|y | 2 |\n| Cy | two lines | 3 |'
    )


def test_source_code_is_fenced_when_it_is_recognised(read: Read) -> None:
    code = (
        "import os\n\n\nclass Greeter:\n    def greet(self, name: str) -> str:\n        return f'hello {name}'\n"
        * 3
    )
    assert only(read(code)).startswith("```python\nimport os\n")


def test_prose_stays_prose_when_it_has_commas(read: Read) -> None:
    text = "It rained, and we stayed in.\nThe sun came out, and we left.\nThen, at last, night fell.\n"
    assert only(read(text)) == text.strip()


# ---- mails -------------------------------------------------------------------------------------------------


def test_mail_shows_headers_text_and_files_when_it_has_all_of_them(read: Read, tmp_path: Path) -> None:
    message = mail(
        html="<p>Dear <b>Bob</b> <img src='cid:logo'></p>",
        files={
            "../../etc/pass\u202ewd.csv": b"a,b,c\n1,2,3\n4,5,6\n",
            "x\x00y.exe": b"MZ\x00\x00",
            "": b"%PDF-1.4",
        },
        Subject="Re: =?utf-8?q?caf=C3=A9?= | now",
    )
    text = only(read(message.as_bytes()))
    assert text.startswith("# Re: café | now\n\n| Header | Value |\n|---|---|\n| From | ann@example.org |")
    assert "| Subject | Re: café \\| now |" in text
    assert "- [passwd.csv](attachments/passwd.csv.md) (table in a text file, 18 bytes)" in text
    assert "- xy.exe (application/vnd.microsoft.portable-executable, 4 bytes, not converted)" in text
    assert text.endswith("Dear **Bob** [Picture]")
    attached = inspect(str(tmp_path / "document"), None, 10).attachments
    assert [one.converted for one in attached] == [True, False, True]


def test_every_text_is_kept_when_a_mail_has_several(read: Read) -> None:
    parts = (
        "Content-Type: multipart/alternative; boundary=in\n\n--in\nContent-Type: text/plain\n\nplain of it\n"
        "--in\nContent-Type: text/html\n\n<p>rich of it</p>\n--in--\n",
        "Content-Type: text/plain\n\nlast words of a list\n",
    )
    head = "From: a@b.c\nTo: d@e.f\nSubject: s\nContent-Type: multipart/mixed; boundary=out\n\n"
    text = only(read(head + "".join(f"--out\n{part}" for part in parts) + "--out--\n"))
    assert text.endswith("rich of it\n\nlast words of a list")
    assert "plain of it" not in text


def test_names_are_told_apart_when_attachments_share_one(read: Read, tmp_path: Path) -> None:
    message = mail()
    for _ in range(3):
        message.add_attachment(b"words", maintype="text", subtype="plain", filename="a.txt")
    read(message.as_bytes())
    attached = inspect(str(tmp_path / "document"), None, 10).attachments
    assert [one.name for one in attached] == ["a.txt", "a-2.txt", "a-3.txt"]


def test_inline_picture_is_of_the_page_when_the_text_shows_it(read: Read, tmp_path: Path) -> None:
    message = mail(html="<p>Look: <img src='cid:pic@x'></p>")
    body = message.get_body(("html",))
    assert body is not None
    body.add_related(png(), maintype="image", subtype="png", cid="<pic@x>", filename="a.png")
    page = read(message.as_bytes())[0]
    assert page.page_class is PageClass.HAS_GRAPHICS
    assert inspect(str(tmp_path / "document"), None, 10).attachments == ()


def test_mail_in_a_mail_is_one_attachment_when_it_has_parts_of_its_own(read: Read, tmp_path: Path) -> None:
    outer = mail("outer")
    outer.add_attachment(mail("inner", files={"b.csv": b"a,b,c\n1,2,3\n4,5,6\n"}))
    assert "inner" not in only(read(outer.as_bytes()))
    (attached,) = inspect(str(tmp_path / "document"), None, 10).attachments
    assert (attached.is_mail, attached.converted, attached.mime) == (True, True, "message/rfc822")


# ---- what is not read --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (zipped({"a.txt": "x"}), "application/zip"),
        (b"AT&TFORM" + bytes(50), "image/vnd.djvu"),
    ],
)
def test_type_is_named_when_a_container_holds_nothing_that_is_read(
    read: Read, content: bytes, named: str
) -> None:
    with pytest.raises(UnsupportedTypeError, match=named):
        read(content)


def test_archive_is_looked_into_when_its_beginning_says_nothing(read: Read) -> None:
    padding = {f"customXml/item{n}.xml": bytes(range(256)) * 200 for n in range(4)}
    made = docx(p("found"))
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    assert only(read(zipped({**padding, **parts}, stored=True))) == "found"


@pytest.mark.parametrize("content", [docx(""), xlsx({}), pptx([]), epub([]), b"<html><body></body></html>"])
def test_document_is_empty_when_there_is_nothing_in_it(read: Read, content: bytes) -> None:
    with pytest.raises(EmptyError):
        read(content)


# ---- Outlook -----------------------------------------------------------------------------------------------


def test_outlook_message_is_read_as_a_mail_when_it_has_attachments(read: Read, tmp_path: Path) -> None:
    table = b"a,b,c\n1,2,3\n4,5,6\n"
    message = outlook_message(
        "Tides", "plain", html="<p>Dear <b>Bob</b></p>", files={"..\\t.csv": table, "x.bin": bytes(9)}
    )
    text = only(read(message))
    assert text.startswith('# Tides\n\n| Header | Value |\n|---|---|\n| From | "Ann" &lt;ann@example.org> |')
    assert "- [t.csv](attachments/t.csv.md) (table in a text file, 18 bytes)" in text
    assert "- x.bin (application/octet-stream, 9 bytes, not converted)" in text
    assert text.endswith("Dear **Bob**")
    info = inspect(str(tmp_path / "document"), None, 10)
    assert (info.mime, info.title) == ("application/vnd.ms-outlook", "Tides")
    limits = OfficeLimits()
    assert attached_bytes(str(tmp_path / "document"), limits, 0, 0, 100) == table
    assert attached_bytes(str(tmp_path / "document"), limits, 0, 4, 3) == table[4:7]


def test_outlook_message_is_found_out_when_its_beginning_does_not_show_it(read: Read) -> None:
    large = outlook_message("Late", "words of it", files={"a.txt": b"x" * 200_000})
    assert b"_\0_\0p\0r\0o\0p\0" not in large[:65_536]
    assert only(read(large)).endswith("words of it")


def test_password_is_told_when_an_office_file_is_encrypted(read: Read) -> None:
    with pytest.raises(PasswordRequiredError, match="without"):
        read(compound_file({"Data": b"x" * 200_000, "EncryptedPackage": b"y" * 600}))


def _spans(reading: PageReading) -> list[tuple[CellSpan, ...]]:
    return [one.table.spans for one in reading.elements if one.table is not None]


def test_cells_keep_their_columns_and_spans_when_html_spans_rows(read: Read) -> None:
    page = (
        "<table><tr><th rowspan=2>Region</th><th colspan=2>Sales</th></tr><tr><th>2021</th><th>2022</th></tr>"
        "<tr><td rowspan=9>North</td><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></table>"
        "<p>between</p><table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>"
    )
    (reading,) = read(f"<html><body>{page}</body></html>".encode())
    assert "|  | 2021 | 2022 |" in reading.markdown
    assert "|  | 3 | 4 |" in reading.markdown
    assert _spans(reading) == [(CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2), CellSpan(2, 0, 2, 1)), ()]


def test_caption_is_before_its_table_and_items_in_cells_keep_their_numbers(read: Read) -> None:
    page = (
        "<table><caption>Ducks</caption><tr><th>Name</th><th>Plan</th></tr><tr><td>Teal</td>"
        "<td><ol><li>fly</li><li>nest</li></ol><ul><li>rest</li></ul></td></tr>"
        "<tr><td><table><caption>in</caption><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table></td>"
        "<td>x</td></tr></table><p>End</p>"
    )
    assert read(f"<html><body>{page}</body></html>".encode())[0].markdown == (
        "Ducks\n\n| Name | Plan |\n|---|---|\n| Teal | 1. fly 2. nest • rest |\n| in a, b; c | x |\n\nEnd"
    )


def test_title_of_a_chart_is_before_its_table_and_charts_are_in_the_order_of_the_sheet(read: Read) -> None:
    def chart(title: str) -> str:
        return (
            f"<chartSpace><chart>{title}<plotArea><ser><tx><v>Sum</v></tx><cat><pt idx='0'><v>May</v></pt></cat>"
            "<val><pt idx='0'><v>3</v></pt></val></ser><valAx><title><t>Axis</t></title></valAx></plotArea>"
            "</chart></chartSpace>"
        )

    def anchor(row: int, relation: str) -> str:
        return (
            f"<twoCellAnchor><from><col>1</col><row>{row}</row></from>"
            f"<chart xmlns:r='http://x/r' r:id='{relation}'/></twoCellAnchor>"
        )

    with zipfile.ZipFile(io.BytesIO(xlsx({"Data": cells("n")}))) as archive:
        parts: dict[str, bytes | str] = {name: archive.read(name) for name in archive.namelist()}
    parts["xl/worksheets/_rels/sheet1.xml.rels"] = relations(("d", "drawing", "../drawing.xml"))
    parts["xl/drawing.xml"] = f"<wsDr>{anchor(30, 'late')}{anchor(4, 'first')}</wsDr>"
    parts["xl/_rels/drawing.xml.rels"] = relations(
        ("late", "chart", "late.xml"), ("first", "chart", "first.xml")
    )
    parts["xl/late.xml"] = chart("")
    parts["xl/first.xml"] = chart("<title><t>Sums *a year*</t></title>")
    table = "|  | Sum |\n|---|---|\n| May | 3 |"
    assert read(zipped(parts))[0].markdown == f"## Data\n\nn\n\nSums \\*a year\\*\n\n{table}\n\n{table}"


def test_comment_of_a_word_document_is_a_note_at_its_mark(read: Read) -> None:
    body = p(runs=run("Words") + '<w:r><w:commentReference w:id="0"/></w:r>' + run(" end."))
    comment = f'<w:comment w:id="0" w:author="Ann">{p("Why?")}{p("Say so.")}</w:comment>'
    assert read(docx(body, comments=comment))[0].markdown == (
        "Words[^c0] end.\n\n[^c0]: **Comment by Ann**: Why? Say so."
    )


def test_spans_are_those_of_their_table_when_a_word_table_merges_cells(read: Read) -> None:
    def tc(text: str, properties: str = "") -> str:
        return f"<w:tc><w:tcPr>{properties}</w:tcPr>{p(text)}</w:tc>"

    start, below = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"
    rows = [
        tc("head", '<w:gridSpan w:val="2"/>') + tc("c"),
        tc("label", start) + tc("1") + tc("2"),
        tc("", below) + tc("3") + tc("4"),
    ]
    body = "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in rows) + "</w:tbl>"
    (reading,) = read(docx(body))
    assert _spans(reading) == [(CellSpan(0, 0, 1, 2), CellSpan(1, 0, 2, 1))]


def test_a_row_keeps_its_columns_when_it_starts_late(read: Read) -> None:
    def row(cells: str, before: str = "") -> str:
        return f"<w:tr><w:trPr>{before}</w:trPr>{cells}</w:tr>"

    def tc(text: str) -> str:
        return f"<w:tc>{p(text)}</w:tc>"

    late = row(tc("x") + tc("y"), '<w:gridBefore w:val="1"/>')
    (reading,) = read(docx(f"<w:tbl>{row(tc('a') + tc('b') + tc('c'))}{late}</w:tbl>"))
    assert "|  | x | y |" in reading.markdown


def test_spans_stay_with_their_rows_when_a_table_is_cut_over_pages() -> None:
    rows = [["head", "", "c"], *[[f"row {i}", "1" * 40, "2" * 40] for i in range(20)]]
    pager = Pager(500)
    pager.add_table(rows, spans=(CellSpan(0, 0, 1, 2), CellSpan(2, 0, 2, 1), CellSpan(19, 1, 2, 1)))
    pages = pager.finish()
    assert len(pages) > 2
    assert pages[0].spans == ((CellSpan(0, 0, 1, 2), CellSpan(2, 0, 2, 1)),)
    last = office_elements(pages[-1].markdown, 1, pages[-1].spans)[0].table
    assert last is not None
    (span,) = [one for one in last.spans if one.row]
    assert last.rows[span.row][0] == "row 18"
    assert all(page.spans[0][0] == CellSpan(0, 0, 1, 2) for page in pages)


M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


def _math(inner: str) -> str:
    return f"<m:oMath {M}>{inner}</m:oMath>"


def _r(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


QUADRATIC = _math(
    _r("x=")
    + f"<m:f><m:num>{_r('-b±')}<m:rad><m:radPr><m:degHide m:val='1'/></m:radPr><m:deg/>"
    + f"<m:e><m:sSup><m:e>{_r('b')}</m:e><m:sup>{_r('2')}</m:sup></m:sSup>{_r('-4ac')}</m:e></m:rad></m:num>"
    + f"<m:den>{_r('2a')}</m:den></m:f>"
)


def test_formula_is_latex_in_a_block_of_its_own_when_the_paragraph_has_nothing_else(read: Read) -> None:
    (reading,) = read(docx(p("before") + f"<w:p>{QUADRATIC}{_math(_r('a=b'))}</w:p>"))
    latex = r"x=\frac{-b\pm \sqrt{b^{2}-4ac}}{2a}"
    assert reading.markdown == f"before\n\n$$\n{latex}\n$$\n\n$$\na=b\n$$"
    assert [one.latex for one in reading.elements if one.kind is ElementKind.FORMULA] == [latex, "a=b"]


def test_formula_is_inside_the_line_when_there_is_text_around_it(read: Read) -> None:
    body = f"<w:p><w:r><w:t xml:space='preserve'>Area </w:t></w:r>{_math(_r('A=πr'))}</w:p>"
    assert only(read(docx(body))) == r"Area $A=\pi r$"


@pytest.mark.parametrize(
    ("inner", "latex"),
    [
        (
            f"<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub>{_r('i=1')}</m:sub><m:sup>{_r('n')}</m:sup>"
            f"<m:e>{_r('i')}</m:e></m:nary>",
            r"\sum_{i=1}^{n} i",
        ),
        (
            f"<m:d><m:dPr><m:begChr m:val='{{'/><m:endChr m:val=''/></m:dPr><m:e>{_r('x')}</m:e></m:d>",
            r"\left\{ x \right.",
        ),
        (
            f"<m:func><m:fName><m:limLow><m:e>{_r('lim')}</m:e><m:lim>{_r('x→0')}</m:lim></m:limLow></m:fName>"
            f"<m:e>{_r('f')}</m:e></m:func>",
            r"\lim_{x\to 0} f",
        ),
        (
            f"<m:m><m:mr><m:e>{_r('a')}</m:e><m:e>{_r('b')}</m:e></m:mr><m:mr><m:e>{_r('c')}</m:e><m:e>{_r('d')}</m:e>"
            "</m:mr></m:m>",
            r"\begin{matrix} a & b \\ c & d \end{matrix}",
        ),
        (f"<m:acc><m:accPr><m:chr m:val='\u20d7'/></m:accPr><m:e>{_r('v')}</m:e></m:acc>", r"\vec{v}"),
        (f"<m:r><m:rPr><m:nor/></m:rPr><m:t>50% of</m:t></m:r>{_r('x_1')}", r"\text{50\% of}x\_1"),
    ],
)
def test_each_structure_has_its_latex(read: Read, inner: str, latex: str) -> None:
    (reading,) = read(docx(f"<w:p>{_math(inner)}</w:p>"))
    assert [one.latex for one in reading.elements] == [latex]


def test_formula_is_its_plain_signs_when_it_is_nested_too_deep(read: Read) -> None:
    inner = _r("x")
    for _ in range(200):
        inner = f"<m:sSup><m:e>{inner}</m:e><m:sup>{_r('2')}</m:sup></m:sSup>"
    assert "x" in only(read(docx(f"<w:p>{_math(inner)}</w:p>")))


# ---- OpenDocument ------------------------------------------------------------------------------------------


def test_opendocument_text_keeps_its_structure(read: Read) -> None:
    body = (
        "<text:h text:outline-level='2'>Part</text:h>"
        "<text:p>See <text:a xlink:href='https://example.org/'>there</text:a> and <text:span text:style-name='B'>bold"
        "</text:span><text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>A note</text:p>"
        "</text:note-body></text:note>.</text:p>"
        "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
        "<text:list text:style-name='N'><text:list-item><text:p>one</text:p><text:list><text:list-item>"
        "<text:p>inner</text:p></text:list-item></text:list></text:list-item><text:list-item><text:p>two</text:p>"
        "</text:list-item></text:list>"
    )
    assert only(read(odf("text", body))) == (
        "## Part\n\nSee [there](https://example.org/) and **bold**[^1].\n\n1. one\n   - inner\n2. two\n\n[^1]: A note"
    )


def test_opendocument_table_keeps_its_spans(read: Read) -> None:
    def tc(text: str, more: str = "") -> str:
        return f"<table:table-cell {more}><text:p>{text}</text:p></table:table-cell>"

    covered = "<table:covered-table-cell/>"
    rows = [
        tc("head", "table:number-columns-spanned='2'") + covered + tc("c"),
        tc("label", "table:number-rows-spanned='2'") + tc("1") + tc("2"),
        covered + tc("3") + tc("4"),
    ]
    table = (
        "<table:table>"
        + "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)
        + "</table:table>"
    )
    (reading,) = read(odf("text", table))
    assert reading.markdown == "| head |  | c |\n|---|---|---|\n| label | 1 | 2 |\n|  | 3 | 4 |"
    assert _spans(reading) == [(CellSpan(0, 0, 1, 2), CellSpan(1, 0, 2, 1))]


def test_opendocument_sheet_does_not_grow_when_empty_cells_are_repeated(read: Read) -> None:
    row = "<table:table-row><table:table-cell><text:p>{}</text:p></table:table-cell>{}</table:table-row>"
    far = "<table:table-cell table:number-columns-repeated='16000'/>"
    empty = f"<table:table-row table:number-rows-repeated='1048000'>{far}</table:table-row>"
    cells = "".join(row.format(text, f"<table:table-cell><text:p>{text}2</text:p></table:table-cell>{far}")
                    for text in ("a", "b"))  # fmt: skip
    sheet = f"<table:table table:name='Sums'>{cells}{empty}</table:table>"
    assert only(read(odf("spreadsheet", sheet))) == "## Sums\n\n| a | a2 |\n|---|---|\n| b | b2 |"


def test_opendocument_slides_are_pages_with_their_notes(read: Read) -> None:
    def frame(kind: str, inner: str) -> str:
        return f"<draw:frame presentation:class='{kind}'><draw:text-box>{inner}</draw:text-box></draw:frame>"

    slide = (
        frame("title", "<text:p>Plan</text:p>")
        + frame("outline", "<text:list><text:list-item><text:p>first</text:p></text:list-item></text:list>")
        + f"<presentation:notes>{frame('notes', '<text:p>say it</text:p>')}</presentation:notes>"
    )
    readings = read(odf("presentation", f"<draw:page>{slide}</draw:page><draw:page/>"))
    assert [reading.markdown for reading in readings] == [
        "# Plan\n\n- first\n\n### Notes\n\nsay it",
        "",
    ]


def test_presentation_is_one_when_it_holds_a_workbook() -> None:
    made = zipped(
        {"ppt/a.bin": zipped({"xl/workbook.xml": "x"}, stored=True), "ppt/b.bin": b"x"}, stored=True
    )
    assert sniff(made) == PPTX
