"""Office files of before 2007, RTF, JATS, XML and JSON: what they hold, and how damaged ones end."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import olefile  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.domain.element import CellSpan, ElementKind
from quire.domain.page import PageReading
from quire.errors import DamagedError, PasswordRequiredError, QuireError
from quire.reading.files.document_source import inspect
from quire.reading.office.compound_file import compound_file_of
from quire.reading.pdf.page_reader import read_pages
from tests.reading.office.old_files import IN_TABLE, ROW_END, slides_file, word_file, workbook_file
from tests.reading.office.outlook_files import compound_file
from tests.support.office_files import cells, relations, xlsx, zipped


def _read(folder: Path, content: bytes, name: str = "document") -> list[PageReading]:
    path = folder / name
    path.write_bytes(content)
    info = inspect(str(path), None, 100)
    return read_pages(str(path), None, range(1, info.page_count + 1))


def _only(folder: Path, content: bytes, name: str = "document") -> str:
    (reading,) = _read(folder, content, name)
    return reading.markdown


# ---- Word --------------------------------------------------------------------------------------------------


def test_old_word_document_keeps_headings_tables_and_links(tmp_path: Path) -> None:
    link = '\x13 HYPERLINK "https://example.org/a" \x14a page\x15'
    text = f"Tides\rThe müle sees {link}.\rName\x07Sum\x07\x07One\x071*2\x07\x07End.\r"
    looks = [(1, b""), (0, b""), *[(0, IN_TABLE), (0, IN_TABLE), (0, ROW_END)] * 2, (0, b"")]
    assert _only(tmp_path, word_file(text, looks)) == (
        "# Tides\n\nThe müle sees [a page](https://example.org/a).\n\n"
        "| Name | Sum |\n|---|---|\n| One | 1\\*2 |\n\nEnd."
    )


def test_old_word_document_is_refused_in_words_when_it_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(PasswordRequiredError, match="without"):
        _read(tmp_path, word_file("Words\r", [(0, b"")], flags=0x0300))
    with pytest.raises(DamagedError, match="before Word 97"):
        _read(tmp_path, compound_file({"Data": b"x" * 200_000, "WordDocument": b"y" * 600}))


@pytest.mark.parametrize(
    "make", [lambda: word_file("Words\r" * 9, [(1, b"")] * 9), lambda: slides_file([("A", "b")])]
)
def test_damaged_old_file_ends_with_an_error_of_ours_or_a_text(
    tmp_path: Path, make: Callable[[], bytes]
) -> None:
    good = make()
    for at in range(512, len(good), 97):
        spoilt = bytearray(good)
        spoilt[at : at + 4] = b"\xff\xff\xff\x7f"
        with contextlib.suppress(QuireError):  # no other exception may come through
            _read(tmp_path, bytes(spoilt), f"d{at}")


def test_old_word_document_shows_the_text_of_a_field_without_its_end(tmp_path: Path) -> None:
    text = "Before \x13 PAGE\rAfter \x13 PAGE \x147\x15.\r"
    assert _only(tmp_path, word_file(text, [(0, b"")] * 2)) == "Before PAGE\n\nAfter 7."
    long = f"Before \x13{'words ' * 800}\x14shown\x15.\r"
    assert _only(tmp_path, word_file(long, [(0, b"")]), "long").endswith("words words shown.")


def test_old_word_document_leaves_out_data_of_programs_however_long(tmp_path: Path) -> None:
    data = "\x13 ADDIN EN.CITE " + "eJzt" * 1200 + "\x14(Doe, 1999)\x15"
    assert _only(tmp_path, word_file(f"As known {data}.\r", [(0, b"")])) == "As known (Doe, 1999)."


def test_old_word_document_is_read_to_an_end_when_its_tables_are_longer_than_the_file(tmp_path: Path) -> None:
    good = word_file("Words\r", [(0, b"")])
    head = good.index(b"\xec\xa5")
    for place in (12, 13):
        spoilt = bytearray(good)
        struct.pack_into("<I", spoilt, head + 0x9A + 8 * place + 4, 0xFFFFFFF0)
        assert _only(tmp_path, bytes(spoilt), f"d{place}") == "Words"


def test_pieces_of_an_old_word_document_that_overlap_are_read_once(tmp_path: Path) -> None:
    spoilt = word_file("Words\r", [(0, b"")], borders=(0, 6, 0, 6))
    assert _only(tmp_path, spoilt) == "Words"


def test_old_word_document_keeps_footnotes_endnotes_and_comments_at_their_marks(tmp_path: Path) -> None:
    text = "One\x02 two\x02 three\x02 four\x02 five\x05 six.\r"
    first, empty, last, end, asked = (at for at, character in enumerate(text) if character < "\x06")
    link = '\x13 HYPERLINK "https://example.org/a" \x14a page\x15'
    notes = {
        "footnotes": [(first, f"\x02 See {link}.\r"), (empty, "\r"), (last, "\x02 Last\rnote.\r")],
        "endnotes": [(end, "\x02 End.\r")],
        "comments": [(asked, "\x05Why?\r")],
    }
    content = word_file(text, [(0, b"")] * 7, notes=notes)
    assert _only(tmp_path, content) == (
        "One[^1] two three[^2] four[^e1] five[^c1] six.\n\n"
        "[^1]: See [a page](https://example.org/a).\n[^2]: Last note.\n"
        "[^e1]: End.\n[^c1]: **Comment by Ann**: Why?"
    )


def test_old_word_document_ends_when_a_note_holds_its_own_mark(tmp_path: Path) -> None:
    notes = {"footnotes": [(3, "a\x02b\r"), (6, "again\r")]}
    assert _only(tmp_path, word_file("One\x02\r", [(0, b"")] * 3, notes=notes)) == (
        "One[^2]\n\n[^1]: again\n[^2]: a[^1]b"
    )


def test_old_word_document_keeps_a_table_in_a_cell_and_items_in_it(tmp_path: Path) -> None:
    inner = IN_TABLE + struct.pack("<HI", 0x6649, 2) + struct.pack("<HB", 0x244B, 1)
    inner_end = inner + struct.pack("<HB", 0x244C, 1)
    text = "before\ra\rb\r\rc\r\rafter\x07right\x07\x07"
    looks = [IN_TABLE, inner, inner, inner_end, inner, inner_end, IN_TABLE, IN_TABLE, ROW_END]
    styled = [(0, look) for look in looks]
    assert _only(tmp_path, word_file(text, styled)).startswith("| before a, b; c after | right |\n")


# ---- PowerPoint, Excel -------------------------------------------------------------------------------------


def test_old_presentation_has_a_page_a_slide_with_its_title_and_points(tmp_path: Path) -> None:
    first, second = _read(tmp_path, slides_file([("Plan", "One\nTwo"), ("Ende für heute", "Only")]))
    assert first.markdown == "# Plan\n\n- One\n- Two"
    assert second.markdown == "# Ende für heute\n\nOnly"


def test_old_presentation_keeps_texts_of_the_outline_that_no_shape_shows(tmp_path: Path) -> None:
    content = slides_file([("Plan", "One\nTwo")])
    shape = content.index(struct.pack("<HI", 3998, 4) + struct.pack("<I", 1))
    spoilt = content[: shape + 6] + struct.pack("<I", 7) + content[shape + 10 :]
    assert _only(tmp_path, spoilt) == "# Plan\n\n- One\n- Two"


def test_old_presentation_shows_a_slide_once_when_its_list_names_it_again(tmp_path: Path) -> None:
    content = slides_file([("Plan", "One"), ("End", "Two")])
    second = content.index(struct.pack("<HII", 1011, 20, 3))
    spoilt = content[: second + 6] + struct.pack("<I", 2) + content[second + 10 :]
    assert _only(tmp_path, spoilt) == "# Plan\n\nOne"


def test_old_presentation_is_refused_when_it_has_a_password(tmp_path: Path) -> None:
    with pytest.raises(PasswordRequiredError, match="without"):
        _read(tmp_path, slides_file([("Plan", "One")], token=0xF3D1C4DF))


def test_old_workbook_is_read_as_a_new_one(tmp_path: Path) -> None:
    text = _only(tmp_path, workbook_file([["Item", "Sum"], ["Pencils", 12.5], ["Paper", 3]]))
    assert text == "## Sums\n\n| Item | Sum |\n|---|---|\n| Pencils | 12.5 |\n| Paper | 3 |"


def test_old_workbook_keeps_merged_cells_when_its_values_begin_in_the_middle(tmp_path: Path) -> None:
    rows = [["Item", "Sum"], ["Pencils", 12.5], ["", 3]]
    (reading,) = _read(tmp_path, workbook_file(rows, first=(3, 2), merged=[(4, 5, 2, 2)]))
    assert reading.markdown.endswith("| Item | Sum |\n|---|---|\n| Pencils | 12.5 |\n|  | 3 |")
    (table,) = [one.table for one in reading.elements if one.table is not None]
    assert table.spans == (CellSpan(1, 0, 2, 1),)


def test_old_workbook_is_refused_in_words_when_it_is_encrypted(tmp_path: Path) -> None:
    content = workbook_file([["a", 1.0]])
    begin = struct.pack("<HH", 0x0809, 16)
    end = content.index(begin) + 20
    obfuscated = content[:end] + struct.pack("<HHH", 0x002F, 2, 0) + content[end + 6 :]
    with pytest.raises(PasswordRequiredError, match="without"):
        _read(tmp_path, obfuscated)


def test_old_workbook_is_refused_in_words_when_it_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(DamagedError):
        _read(tmp_path, compound_file({"Workbook": b"\x09\x08\x04\x00\x00\x06"}))


def test_old_workbook_is_read_when_its_directory_has_no_end(tmp_path: Path) -> None:
    """The library alone follows such a chain until memory is full, and then ends its process."""
    content = workbook_file([["a", 1.0]])
    table = 512 * (1 + struct.unpack_from("<I", content, 76)[0])
    endless = content[:table] + bytes(512) + content[table + 512 :]
    assert _only(tmp_path, endless) == _only(tmp_path, content)


def test_old_workbook_is_refused_when_its_extent_has_no_width_but_a_far_end(tmp_path: Path) -> None:
    """The library reserves hundreds of terabytes for it, and ends its process."""
    content = workbook_file([["a", 1.0]])
    at = content.index(struct.pack("<HH", 0x0200, 14)) + 4
    forged = content[:at] + struct.pack("<IIHH", 0, 958_545_266, 0x3939, 0x3939) + content[at + 12 :]
    with pytest.raises(DamagedError, match="larger than any"):
        _read(tmp_path, forged)


def test_old_workbook_is_read_when_it_is_longer_than_a_sector(tmp_path: Path) -> None:
    text = _only(tmp_path, workbook_file([(f"row {number}", float(number)) for number in range(400)]))
    assert "| row 0 | 0 |" in text
    assert text.endswith("| row 399 | 399 |")


@given(st.integers(1, 20_000) | st.sampled_from([64, 65, 4095, 4096, 4097, 4 << 20, (4 << 20) + 1]))
def test_stream_is_the_same_when_it_was_written_into_a_file_of_its_own(size: int) -> None:
    data = bytes(range(1, 252)) * (size // 251 + 1)
    written = compound_file_of("Workbook", data[:size])
    with olefile.OleFileIO(BytesIO(written), raise_defects=olefile.DEFECT_INCORRECT) as file:
        assert file.listdir() == [["Workbook"]]
        assert file.openstream("Workbook").read() == data[:size]


# ---- RTF ---------------------------------------------------------------------------------------------------

RTF = rb"""{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0 Times;}{\f1\fcharset204 Arial Cyr;}}
{\stylesheet{\s0 Normal;}{\s1\outlinelevel0 Kop 1;}}{\info{\title Tide tables}}{\header left out}
\pard\s1 Tides\par
\pard Caf\'e9 \u8364?5 {\b bold} {\f1\'cc\'e8\'f0}{\v unseen}
{\field{\*\fldinst HYPERLINK "https://example.org"}{\fldrslt link}}.{\footnote A note.}\par
{\listtext\'b7\tab}\pard\ls1 first\par{\listtext\'b7\tab}second\par
\trowd\cellx1000\cellx2000\cellx3000\pard\intbl a\cell b\cell c\cell\row
\trowd\cellx2000\cellx3000\pard\intbl wide\cell 3\cell\row
\trowd\clvmgf\cellx1000\cellx2000\cellx3000\pard\intbl 1\cell 2\cell 3\cell\row
\trowd\clvmrg\cellx1000\cellx2000\cellx3000\pard\intbl\cell 5\cell 6\cell\row
\pard End \{here\}\par}"""


def test_rtf_keeps_its_structure(tmp_path: Path) -> None:
    (reading,) = _read(tmp_path, RTF)
    assert reading.markdown == (
        "# Tides\n\nCafé €5 **bold** Мир[link](https://example.org).[^1]\n\n- first\n- second\n\n"
        "| a | b | c |\n|---|---|---|\n| wide |  | 3 |\n| 1 | 2 | 3 |\n|  | 5 | 6 |\n\nEnd {here}\n\n[^1]: A note."
    )
    table = next(one.table for one in reading.elements if one.table is not None)
    assert table.spans == (CellSpan(1, 0, 1, 2), CellSpan(2, 0, 2, 1))
    assert inspect(str(tmp_path / "document"), None, 9).title == "Tide tables"


def test_rtf_is_read_as_far_as_it_goes_when_it_is_cut_off(tmp_path: Path) -> None:
    assert _only(tmp_path, RTF[: RTF.index(rb"{\footnote")]).startswith("# Tides\n\nCafé €5")
    deep = b"{\\rtf1 " + b"{" * 5000 + b"words" + b"}" * 5000 + b"}"
    assert _only(tmp_path, deep, "deep") == "words"


def test_rtf_ends_when_its_binary_data_has_a_length_below_zero(tmp_path: Path) -> None:
    assert _only(tmp_path, rb"{\rtf1 some words\bin-20 more\par}") == "some wordsmore"


def test_rtf_joins_the_halves_of_a_character_and_drops_a_half_alone(tmp_path: Path) -> None:
    text = rb"{\rtf1{\info{\title A \u-10179?\u-8704?}}\u-10179?\u-8704? a\u-10179?b\u-8704?c\par}"
    assert _only(tmp_path, text) == "\U0001f600 abc"
    assert inspect(str(tmp_path / "document"), None, 9).title == "A \U0001f600"


def test_rows_with_too_many_borders_keep_their_cells_in_order(tmp_path: Path) -> None:
    rows = b"".join(
        rb"\trowd\cellx%d\cellx90000\intbl a%d\cell b\cell\row" % (40 * n, n) for n in range(1, 301)
    )
    text = _only(tmp_path, b"{\\rtf1 " + rows + rb"\pard\par}")
    assert text.startswith("| a1 | b |\n|---|---|\n| a2 | b |\n")
    assert text.endswith("| a300 | b |")


def test_rtf_leaves_out_what_a_tracked_change_removed(tmp_path: Path) -> None:
    text = rb"{\rtf1 kept {\deleted gone }\deleted too \deleted0 back\deleted x\plain  end\par}"
    assert _only(tmp_path, text) == "kept back end"


def test_rtf_shows_the_unicode_half_of_a_text_that_is_written_twice(tmp_path: Path) -> None:
    text = rb"{\rtf1 {\upr{caf?}{\*\ud{caf\u233?}}} {\footnote {\upr{n?}{\*\ud{n\u246?}}} more}end\par}"
    assert _only(tmp_path, text) == "café [^1]end\n\n[^1]: nö more"


def test_rtf_keeps_comments_and_endnotes(tmp_path: Path) -> None:
    comment = rb"{\*\atnid AD}{\*\atnauthor Ann Doe}\chatn{\*\annotation{\*\atnref 1}\pard Why?\par So.}"
    text = rb"{\rtf1 One" + comment + rb" two{\footnote\ftnalt\pard End.}.\par}"
    assert _only(tmp_path, text) == (
        "One[^c1] two[^e1].\n\n[^c1]: **Comment by Ann Doe**: Why? So.\n[^e1]: End."
    )


def test_rtf_cell_keeps_numbers_of_items_footnotes_and_inner_tables(tmp_path: Path) -> None:
    row = rb"\trowd\cellx1000\cellx2000 "
    inner = rb"{\*\nesttableprops\trowd\cellx500\cellx900\nestrow}{\nonesttables\par}"
    text = (
        rb"{\rtf1 " + row + rb"\pard\intbl {\listtext 1.\tab}one\par{\listtext 2.\tab}two\cell"
        rb"{\listtext\'b7\tab}dot{\footnote\pard Note.}\par more\cell\row"
        + row + rb"\pard\intbl before\par\pard\intbl\itap2 a\nestcell b\nestcell" + inner
        + rb"c\nestcell d\nestcell" + inner + rb"\pard\intbl after\cell right\cell\row\pard\par}"
    )  # fmt: skip
    assert _only(tmp_path, text) == (
        "| 1. one 2. two | • dot[^1] more |\n|---|---|\n| before a, b; c, d after | right |\n\n[^1]: Note."
    )


# ---- XLSX --------------------------------------------------------------------------------------------------


def test_sheet_keeps_its_merged_cells_and_tables_that_are_side_by_side(tmp_path: Path) -> None:
    def row(number: int, **values: str) -> str:
        inner = "".join(
            f'<c r="{column}{number}" t="inlineStr"><is><t>{text}</t></is></c>'
            for column, text in values.items()
        )
        return f'<row r="{number}">{inner}</row>'

    rows = (
        row(1, A="both")
        + row(2, A="a", B="b", D="x", E="y")
        + row(3, A="1", B="2", D="3", E="4")
        + row(4, D="5", E="6")
    )
    book = xlsx({"Data": rows + '</sheetData><mergeCells><mergeCell ref="A2:A3"/></mergeCells><sheetData>'})
    (reading,) = _read(tmp_path, book)
    assert "| a | b |\n|---|---|\n| 1 | 2 |\n\n| x | y |\n|---|---|\n| 3 | 4 |\n| 5 | 6 |" in reading.markdown
    tables = [one.table for one in reading.elements if one.kind is ElementKind.TABLE and one.table]
    assert [table.spans for table in tables] == [(CellSpan(0, 0, 2, 1),), ()]


def test_thread_of_a_sheet_names_its_authors(tmp_path: Path) -> None:
    import io
    import zipfile

    threads = (
        '<ThreadedComments><threadedComment ref="A1" personId="p1"><text>Why?</text></threadedComment>'
        '<threadedComment ref="A1" personId="p2"><text>So.</text></threadedComment></ThreadedComments>'
    )
    old = (
        "<comments><authors><author>tc</author><author>Bob</author></authors><commentList>"
        '<comment ref="A1" authorId="0"><text><t>[Threaded comment]</t></text></comment>'
        '<comment ref="B2" authorId="1"><text><t>Check</t></text></comment></commentList></comments>'
    )
    with zipfile.ZipFile(io.BytesIO(xlsx({"Data": cells("n", 1) + cells("m", 2)}))) as archive:
        parts: dict[str, bytes | str] = {name: archive.read(name) for name in archive.namelist()}
    parts["xl/_rels/workbook.xml.rels"] = relations(
        ("s1", "worksheet", "worksheets/sheet1.xml"), ("pp", "person", "persons/person.xml")
    )
    parts["xl/persons/person.xml"] = (
        '<personList><person id="p1" displayName="Ann"/><person id="p2" displayName="Cid"/></personList>'
    )
    parts["xl/worksheets/_rels/sheet1.xml.rels"] = relations(
        ("t", "threadedComment", "../threads.xml"), ("c", "comments", "../comments.xml")
    )
    parts |= {"xl/threads.xml": threads, "xl/comments.xml": old}
    text = _only(tmp_path, zipped(parts))
    assert text.endswith(
        "- **Note at B2 by Bob**: Check\n- **Note at A1 by Ann**: Why?\n- **Note at A1 by Cid**: So."
    )
    assert "Threaded" not in text


def test_workbook_is_damaged_when_it_claims_more_cells_than_there_can_be(tmp_path: Path) -> None:
    """The library would make room for all cells up to it: for this one, more than 100 GB."""
    content = workbook_file([["a", 1.5]])
    cell = struct.pack("<HH3H", 0x0203, 14, 0, 1, 0)
    assert content.count(cell) == 1
    with pytest.raises(DamagedError, match="beyond the last column"):
        _read(tmp_path, content.replace(cell, struct.pack("<HH3H", 0x0203, 14, 0xFFFF, 0xFFFF, 0)))
    extent = struct.pack("<HH", 0x0200, 14)
    at = content.index(extent) + 4
    huge = content[:at] + struct.pack("<IIHH", 0, 1 << 31, 0, 200) + content[at + 12 :]
    with pytest.raises(DamagedError, match="larger than any"):
        _read(tmp_path, huge)


# ---- XML, JSON, and names that decide ----------------------------------------------------------------------


JATS = b"""<?xml version="1.0"?><!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) v1.2//EN" "JATS.dtd">
<article article-type="research-article"><front><article-meta><title-group><article-title>On <italic>tides</italic>
</article-title></title-group><contrib-group><contrib contrib-type="author"><name><surname>Doe</surname>
<given-names>Ann</given-names></name></contrib></contrib-group><abstract><p>Short.</p></abstract></article-meta></front>
<body><sec><label>1</label><title>Method</title><p>We <bold>looked</bold>.</p>
<list list-type="order"><list-item><p>one</p>
</list-item><list-item><p>two</p></list-item></list><table-wrap><label>Table 1</label><caption><p>Sums</p></caption>
<table><tr><th rowspan="2">a</th><th>b</th></tr><tr><td>2</td></tr></table></table-wrap></sec></body>
<back><ref-list><ref><mixed-citation>Doe, 1999.</mixed-citation></ref></ref-list></back></article>"""


def test_jats_article_is_read_as_an_article(tmp_path: Path) -> None:
    assert _only(tmp_path, JATS) == (
        "# On *tides*\n\nAnn Doe\n\n## Abstract\n\nShort.\n\n## 1 Method\n\nWe **looked**.\n\n1. one\n2. two\n\n"
        "Table 1 Sums\n\n| a | b |\n|---|---|\n|  | 2 |\n\n## References\n\n1. Doe, 1999."
    )


JATS_PARTS = rb"""<?xml version="1.0"?><article article-type="x" xmlns:mml="http://www.w3.org/1998/Math/MathML"><front><article-meta><title-group>
<article-title>Tides</article-title></title-group><kwd-group><kwd>sea</kwd><kwd>moon</kwd></kwd-group></article-meta>
</front>
<body><sec><title>One</title><p>See <inline-formula><alternatives><mml:math><mml:mi>x</mml:mi></mml:math>
<tex-math>\documentclass{a}\begin{document}$x^2$\end{document}</tex-math></alternatives></inline-formula>.</p>
<disp-formula><label>(3)</label><tex-math>$$y=1$$</tex-math></disp-formula>
<list list-type="alpha-lower"><list-item><label>a)</label><p>first</p></list-item></list>
<table-wrap><alternatives><graphic/><table><tr><td>a</td><td>b</td></tr></table></alternatives></table-wrap></sec></body>
<back><ack><p>Thanks.</p></ack><app-group><app><title>Data</title><p>More.</p><ref-list><title>Sources</title>
<ref><label>[7]</label><element-citation><person-group><name><surname>Doe</surname><given-names>A</given-names></name>
</person-group><source>Sea</source><year>1999</year></element-citation><mixed-citation>And more.</mixed-citation></ref>
</ref-list></app></app-group><fn-group><fn><label>*</label><p>No conflict.</p></fn></fn-group><ref-list>
<ref><label>Roe 2</label><citation-alternatives><element-citation><source>x</source></element-citation>
<mixed-citation>Roe, 2001.</mixed-citation></citation-alternatives></ref><ref><nlm-citation><source>Plain</source>
<year>2</year></nlm-citation></ref></ref-list></back>
<floats-group><fig><label>Figure 1</label><caption><p>A wave.</p></caption><graphic/></fig></floats-group>
<sub-article><front-stub><title-group><article-title>Review</article-title></title-group></front-stub>
<body><p>Good.</p></body></sub-article></article>"""


def test_jats_article_keeps_all_its_parts(tmp_path: Path) -> None:
    assert _only(tmp_path, JATS_PARTS).split("\n\n") == [
        "# Tides",
        "Keywords: sea, moon",
        "## One",
        "See $x^2$.",
        "$$\ny=1 \\tag{3}\n$$",
        "- a) first",
        "| a | b |\n|---|---|",
        "## Acknowledgements",
        "Thanks.",
        "## Data",
        "More.",
        "### Sources",
        "7. Doe A Sea 1999 And more.",
        r"\* No conflict.",
        "## References",
        "- Roe 2 Roe, 2001.\n2. Plain 2",
        "Figure 1 A wave.",
        "[Picture]",
        "## Review",
        "Good.",
    ]


def test_jats_article_keeps_titles_of_lists_and_labels_of_formulas(tmp_path: Path) -> None:
    article = rb"""<?xml version="1.0"?><article article-type="x"><body><disp-formula><label>(A.1)</label>
<tex-math>y=1</tex-math></disp-formula><disp-formula>x = <italic>2</italic> y<label>(2)</label> z</disp-formula>
<disp-formula><label>(see 3)</label><tex-math>z=3</tex-math></disp-formula><list><title>Steps</title>
<list-item><p>one</p></list-item></list></body></article>"""
    assert _only(tmp_path, article).split("\n\n") == [
        "$$\ny=1 \\tag{A.1}\n$$",
        "x = *2* y z (2)",
        "$$\nz=3\n$$",
        "(see 3)",
        "Steps",
        "- one",
    ]


def test_xml_and_json_are_shown_as_what_they_are(tmp_path: Path) -> None:
    assert _only(tmp_path, b'<?xml version="1.0"?>\n<a><b>1</b></a>') == (
        '```xml\n<?xml version="1.0"?>\n<a><b>1</b></a>\n```'
    )
    assert (
        _only(tmp_path, b'{"a": [1, 2], "text": "words"}', "j")
        == '```json\n{"a": [1, 2], "text": "words"}\n```'
    )


def test_name_decides_when_the_content_could_be_several_things(tmp_path: Path) -> None:
    notes = b"key: value\nother:\n  - one\n  - two\nlast: 3\n"
    assert _only(tmp_path, notes, "notes.md") == notes.decode().strip()
    piece = b"Words before <em>this</em> and that.\n"
    assert _only(tmp_path, piece, "piece.html") == "Words before *this* and that."
    assert _only(tmp_path, piece, "piece.txt") == piece.decode().strip()
