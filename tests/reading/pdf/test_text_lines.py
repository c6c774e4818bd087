"""The lines and the text of a page's layer are what MuPDF says, without lines of mere white space."""

from __future__ import annotations

import pymupdf
import pytest

from quire.reading.pdf.text_lines import layer_text, lines_of
from quire.rendering.markdown_writer import clean


def test_layer_text_is_that_of_mupdf_when_a_page_has_several_types_and_blocks() -> None:
    with pymupdf.open() as document:
        page = document.new_page()
        page.insert_htmlbox(
            (50, 50, 400, 300), "<h1>Totals</h1><p>One <b>bold</b> word.</p><ul><li>a</li></ul>"
        )
        page.insert_text((50, 400), "Alone")
        found = page.get_textpage(flags=pymupdf.TEXTFLAGS_TEXT)
        assert layer_text(found.extractDICT()) == found.extractText()


def test_line_is_left_out_when_it_has_only_no_break_spaces() -> None:
    spans = [{"text": "\u00a0", "font": "Helvetica", "flags": 0, "size": 11.0}]
    line = {"dir": (1.0, 0.0), "bbox": (0.0, 0.0, 5.0, 10.0), "spans": spans}
    assert lines_of({"blocks": [{"lines": [line]}]}) == []


def test_line_of_one_type_has_that_type_when_it_is_a_single_span() -> None:
    spans = [{"text": " Total  due ", "font": "CMMI10", "flags": 16 | 2, "size": 11.2}]
    line = {"dir": (1.0, 0.0), "bbox": (0.0, 0.0, 50.0, 10.0), "spans": spans}
    (found,) = lines_of({"blocks": [{"lines": [line]}]})
    assert (found.text, found.size, found.bold, found.italic, found.mono, found.math) == (
        *("Total due", 11.0, True, True, False),
        1.0,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text", "plain text"),
        (" two  spaces ", "two spaces"),
        ("a\u00a0b\tc", "a b c"),
        ("bell\x07", "bell"),
        ("Intro . . . . . . 3", "Intro 3"),
        ("e.g. this", "e.g. this"),
        ("", ""),
    ],
)
def test_clean_text_has_one_kind_of_space_and_no_leaders(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.parametrize(
    ("font", "bold", "italic"),
    [
        ("AdvOT62cab712.B", True, False),
        ("AdvOT7.BI+20", True, True),
        ("AdvOTdf.I", False, True),
        ("Obi", False, False),
    ],
)
def test_type_is_bold_or_italic_when_the_end_of_its_name_says_so(font: str, bold: bool, italic: bool) -> None:
    span = {"text": "INTRODUCTION", "font": font, "flags": 4, "size": 10.0}
    block = {"lines": [{"dir": (1.0, 0.0), "bbox": (0.0, 0.0, 90.0, 10.0), "spans": [span]}]}
    (line,) = lines_of({"blocks": [block]})
    assert (line.bold, line.italic) == (bold, italic)
