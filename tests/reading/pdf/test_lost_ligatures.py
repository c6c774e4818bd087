"""Ligatures that have lost a letter get it back where their glyphs tell which, and only there."""

from __future__ import annotations

from pathlib import Path

import pymupdf
import pytest

from quire.reading.grading.layer_damage import layer_damage, may_lack_ligatures
from quire.reading.pdf.page_reader import read_pages

TEXT = (
    "The signiﬁcant ﬁles of ﬁve oﬃcers were classiﬁed. A ﬂat oﬀer for fuel followed,",
    "and for four of them it was speciﬁed before. They left the ﬁrst of the ﬁelds.",
)
SOUND = " ".join(TEXT).translate({0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi"})
LOST = {"ﬀ": "f", "ﬁ": "i", "ﬂ": "l", "ﬃ": "i"}
CMAP = """/CIDInit /ProcSet findresource begin 12 dict begin begincmap
/CIDSystemInfo <</Registry(Adobe)/Ordering(UCS)/Supplement 0>> def
/CMapName /Adobe-Identity-UCS def /CMapType 2 def
1 begincodespacerange <0000> <FFFF> endcodespacerange
{} beginbfchar
{}
endbfchar endcmap CMapName currentdict /CMap defineresource pop end end"""


def damaged(path: Path, lines: tuple[str, ...] = TEXT) -> str:
    """A PDF whose font says "i" for the shape "ﬁ"."""
    font = pymupdf.Font("helv")
    with pymupdf.open() as document:
        page = document.new_page()
        page.insert_font(fontname="F0", fontbuffer=font.buffer)
        for at, line in enumerate(lines):
            page.insert_text((40, 100 + 14 * at), line, fontsize=10, fontname="F0")
        letters = sorted(set("".join(lines)))
        codes = [f"<{font.has_glyph(ord(one)):04x}> <{ord(LOST.get(one, one)):04x}>" for one in letters]
        for xref in range(1, document.xref_length()):
            if document.xref_is_stream(xref) and b"begincmap" in document.xref_stream(xref):
                document.update_stream(xref, CMAP.format(len(codes), "\n".join(codes)).encode())
        document.save(path)
    return str(path)


def test_layer_is_read_whole_when_its_ligatures_have_lost_a_letter(tmp_path: Path) -> None:
    path = damaged(tmp_path / "a.pdf")
    with pymupdf.open(path) as document:
        assert "signiicant" in document[0].get_text()
    (reading,) = read_pages(path, None, [1])
    assert reading.markdown == SOUND
    assert layer_damage(reading.text) == ()
    assert reading.words_missing == 0


def test_cells_of_a_table_are_whole_when_ligatures_have_lost_a_letter(tmp_path: Path) -> None:
    with pymupdf.open(damaged(tmp_path / "a.pdf", (*TEXT, "", "Oﬃce           12.40"))) as document:
        page = document[0]
        for row, (one, two) in enumerate([("Total", "17.20"), ("Of these", "99.10"), ("Others", "7.00")]):
            page.insert_text((40, 156 + 14 * row), one, fontsize=10)
            page.insert_text((100, 156 + 14 * row), two, fontsize=10)
        for row in range(5):
            page.draw_line((38, 132 + 14 * row), (140, 132 + 14 * row))
        for x in (38, 95, 140):
            page.draw_line((x, 132), (x, 188))
        document.save(tmp_path / "b.pdf")
    (reading,) = read_pages(str(tmp_path / "b.pdf"), None, [1])
    assert "| Office | 12.40 |" in reading.markdown
    assert reading.words_missing == 0


def test_letters_stay_lost_when_no_glyph_tells_them(tmp_path: Path) -> None:
    with pymupdf.open() as document:
        page = document.new_page()
        page.insert_text((40, 100), "The signiicant iles of ive oicers were classiied for us.", fontsize=10)
        document.save(tmp_path / "a.pdf")
    (reading,) = read_pages(str(tmp_path / "a.pdf"), None, [1])
    assert reading.markdown == "The signiicant iles of ive oicers were classiied for us."
    assert layer_damage(reading.text) == ("lost_ligatures",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a signiicant change", True),
        ("the Paciic coast", True),
        ("It ended. he end was near", True),
        ("The end. he said so", False),
        ("part iii of the file", False),
        ("four of the fuels for forty of the four farms are from far off " * 2, False),
        ("four of the fuels for forty of the four farms are from far " * 3, True),
    ],
)
def test_glyphs_are_looked_at_only_when_letters_may_be_lost(text: str, expected: bool) -> None:
    assert may_lack_ligatures(text) is expected
