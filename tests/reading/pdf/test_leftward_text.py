"""Hebrew and Arabic: lines in the order in which they are read, however a file stores them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymupdf
import pytest

from quire.domain.element import ElementKind
from quire.reading.pdf.grounding import ground_answer
from quire.reading.pdf.leftward_order import words_in_order
from quire.reading.pdf.page_reader import read_pages
from tests.reading.conftest import Make

SIZE = 10.0
ADVANCE = 5.0
"""All signs are half as wide as the type is large."""
LAM_ALEF_GLYPH = "\ue000"
"""A glyph whose text is two letters, as files have it that name the letters of their ligatures."""

_TO_UNICODE = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /U def /CMapType 2 def
1 begincodespacerange <0000> <ffff> endcodespacerange
2 beginbfrange <0020> <dfff> <0020> <f900> <ffff> <f900> endbfrange
1 beginbfchar <e000> <06440627> endbfchar endcmap end end"""

Text = tuple[float, float, str]
"""Left end and base of a text, and its signs from left to right."""


def page_of(texts: Sequence[Text], document: Any = None) -> Any:
    """A page with the texts, whose glyphs have no shapes."""
    document = document or pymupdf.open()
    page = document.new_page()
    to_unicode, described, inner, outer = (document.get_new_xref() for _ in range(4))
    document.update_object(to_unicode, "<<>>")
    document.update_stream(to_unicode, _TO_UNICODE)
    document.update_object(
        described,
        "<</Type/FontDescriptor/FontName/Plain/Flags 4/FontBBox[0 -210 1000 780]/ItalicAngle 0"
        "/Ascent 780/Descent -210/CapHeight 700/StemV 80>>",
    )
    document.update_object(
        inner,
        f"<</Type/Font/Subtype/CIDFontType2/BaseFont/Plain/DW 500/CIDToGIDMap/Identity/FontDescriptor {described} 0 R"
        "/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>",
    )
    document.update_object(
        outer,
        "<</Type/Font/Subtype/Type0/BaseFont/Plain/Encoding/Identity-H"
        f"/DescendantFonts[{inner} 0 R]/ToUnicode {to_unicode} 0 R>>",
    )
    document.xref_set_key(page.xref, "Resources", f"<</Font<</F {outer} 0 R>>>>")
    drawn = " ".join(
        f"BT /F {SIZE} Tf {x:.2f} {page.rect.height - y:.2f} Td <{text.encode('utf-16-be').hex()}> Tj ET"
        for x, y, text in texts
    )
    stream = document.get_new_xref()
    document.update_object(stream, "<<>>")
    document.update_stream(stream, drawn.encode())
    page.set_contents(stream)
    return page


def from_right(right: float, y: float, text: str) -> Text:
    return right - ADVANCE * len(text), y, text


def markdown(save: Make, *texts: Text) -> str:
    page = page_of(texts)
    reading = read_pages(save(page.parent), None, [1])[0]
    assert reading.words_missing == 0
    return reading.markdown


def seen(*words: str) -> str:
    """Words from left to right as they are seen: those of Hebrew and Arabic with their last letter first."""
    return " ".join(word[::-1] if "\u0590" <= word.strip('().,"')[:1] <= "\u08ff" else word for word in words)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (("2024 תנשב", "25 אוה ריחמה"), "המחיר הוא 25 בשנת 2024"),
        (("רחמ John Smith", "םע השיגפה"), "הפגישה עם John Smith מחר"),
        (("₪1,234.50 םלוש",), "שולם ₪1,234.50"),
        (("11 - 10 םידומע",), "עמודים 10 - 11"),
        (("iPhone (2024) השדח תכרעמ",), "מערכת חדשה iPhone (2024)"),
        (('מ"עמ ללוכ',), 'כולל מע"מ'),
    ],
)
def test_a_line_is_read_from_the_right_when_it_is_stored_as_seen(
    pieces: tuple[str, ...], expected: str, save: Make
) -> None:
    x, texts = 200.0, list[Text]()
    for piece in pieces:
        texts.append((x, 100.0, piece))
        x += ADVANCE * (len(piece) + 1)
    assert markdown(save, *texts) == expected


def test_a_line_is_one_when_its_pieces_are_stored_from_the_right(save: Make) -> None:
    document = pymupdf.open()
    text = 'המחיר הוא 25 שקלים (כולל מע"מ) בשנת 2024'
    document.new_page().insert_htmlbox((72, 72, 500, 300), f'<p dir="rtl">{text}</p>')
    reading = read_pages(save(document), None, [1])[0]
    assert reading.markdown == reading.text.strip() == text


@pytest.mark.parametrize("brackets", ["()", ")(", "«»", "»«"])
def test_brackets_open_before_they_close_when_stored_as_seen_or_as_read(brackets: str, save: Make) -> None:
    left, right = brackets
    line = from_right(500, 100, f"המ {left}ללוכ{right} ריחמה")
    over_two = from_right(500, 130, f"תחא{right} הנש"), from_right(500, 143, f"הנש דוע {left}תחא")
    opening, closing = min(brackets), max(brackets)
    assert markdown(save, line) == f"המחיר {opening}כולל{closing} מה"
    found = markdown(save, line, *over_two)
    assert [sign for sign in found if sign in brackets] == [opening, closing] * 2


@pytest.mark.parametrize("glyph", ["\ufefb", LAM_ALEF_GLYPH])
def test_lam_comes_before_alef_when_both_are_one_glyph(glyph: str, save: Make) -> None:
    assert markdown(save, (72, 100, f"{glyph} \ufe91\ufe8e\ufe91")) == "باب لا"


def test_latin_ligatures_are_letters_when_a_page_has_arabic(save: Make) -> None:
    found = markdown(save, from_right(500, 100, "\ufe91\ufe8e\ufe91"), (72, 200, "The ﬁrst oﬃce of the ﬂeet"))
    assert "The first office of the fleet" in found


def test_words_of_hebrew_are_turned_when_a_line_is_latin(save: Make) -> None:
    assert markdown(save, (72, 100, "The words " + seen("לכולם", "שלום") + " mean hello")) == (
        "The words שלום לכולם mean hello"
    )


def test_lines_stay_two_when_text_is_printed_twice(save: Make) -> None:
    once = from_right(500, 100, "םולש")
    again = (once[0] + 0.3, *once[1:])
    assert set(markdown(save, once, again).split()) == {"שלום"}


def test_cells_are_read_from_the_right_and_columns_stay_where_they_are(save: Make) -> None:
    rows = [("מחיר", "מוצר"), ("3.50 שקלים", "תפוח עץ"), ("8 שקלים", "לחם White לבן"), ("6 שקלים", "חלב")]
    texts: list[Text] = []
    for at, row in enumerate(rows):
        for right, cell in zip((300.0, 500.0), row, strict=True):
            texts.append(from_right(right - 5, 114 + 20 * at, seen(*reversed(cell.split()))))
    page = page_of(texts)
    for at in range(len(rows) + 1):
        page.draw_line((100, 100 + 20 * at), (500, 100 + 20 * at))
    for x in (100, 300, 500):
        page.draw_line((x, 100), (x, 100 + 20 * len(rows)))
    reading = read_pages(save(page.parent), None, [1])[0]
    tables = [e.table for e in reading.elements if e.kind is ElementKind.TABLE]
    assert [table.rows for table in tables if table] == [tuple(rows)]


def column(right: float, first: str, count: int = 14) -> list[Text]:
    """Lines that end at one edge, and whose other ends are ragged."""
    words = ["הנהלה", "אסיפה", "אולם", "מזכיר", "שנה"]
    found = []
    for at in range(count):
        line = [first if at == 0 else words[at % 5], *(words[(at * k) % 5] for k in range(2, 8))]
        found.append(from_right(right, 100 + 13 * at, seen(*reversed(line))))
    return found


def test_the_right_column_comes_first(save: Make) -> None:
    found = markdown(save, *column(280, "שמאל"), *column(520, "ימין"))
    assert found.index("ימין") < found.index("שמאל")
    assert len(found.split("\n\n")) == 2


def test_a_line_is_ended_on_purpose_when_there_was_room_at_its_left(save: Make) -> None:
    short = [from_right(520, 178 + 13 * at, word[::-1]) for at, word in enumerate(["רחוב", "ירושלים"])]
    found = markdown(save, *column(520, "ימין", count=6), *short)
    assert found.endswith("רחוב\nירושלים")


def test_lines_are_ended_on_purpose_when_their_ends_are_at_one_edge(save: Make) -> None:
    lines = ["שלום לכולם", "המחיר הוא 25", "זהו מסמך ארוך לדוגמה בשפה העברית", "עוד"]
    page = [(72.0, 100 + 13 * at, seen(*reversed(line.split()))) for at, line in enumerate(lines)]
    assert markdown(save, *page).split("\n")[:3] == [*lines[:2], " ".join(lines[2:])]


def test_entries_of_an_index_are_where_they_are_seen(save: Make) -> None:
    words = ["חשבון", "סוכנות", "נכס", "יתרה", "גשר", "תקציב", "תא", "חוזה", "נחושת", "מועצה"]
    texts = [
        from_right(right, 100 + 13 * at, f"{3 + at + first} ,{word[::-1]}")
        for first, right in ((0, 500.0), (20, 280.0))
        for at, word in enumerate(words)
    ]
    reading = read_pages(save(page_of(texts).parent), None, [1])[0]
    assert [one.text for one in reading.elements] == [
        f"{word}, {3 + at + first}" for first in (0, 20) for at, word in enumerate(words)
    ]
    assert [round(one.box[2]) for one in reading.elements if one.box] == [500] * 10 + [280] * 10


def test_words_of_an_answer_are_found_when_the_page_stores_them_as_seen(save: Make) -> None:
    words = 'המחיר הוא 25 שקלים (כולל מע"מ) בשנת 2024 ועוד מעט'
    path = save(page_of([from_right(500, 100, seen(*reversed(words.split())))]).parent)
    assert ground_answer(path, None, 1, words, True).ungrounded == 0


def test_words_keep_their_order_when_none_is_read_from_the_right() -> None:
    assert words_in_order(["Größe", "10", "m²"]) == ["Größe", "10", "m²"]
    assert words_in_order(["2024", "שנה", "Bob", "לחם"]) == ["לחם", "Bob", "שנה", "2024"]


def test_text_is_an_item_when_its_drawn_mark_is_on_the_right(save: Make) -> None:
    items = ["מכתב אחד ישן", "שתי מפות של הנמל", "ספר שלישי"]
    texts = [from_right(500, 100 + 20 * at, seen(*reversed(item.split()))) for at, item in enumerate(items)]
    page = page_of(texts)
    for _, y, _ in texts:
        page.draw_circle((509, y - 3), 1.7, color=None, fill=(0, 0, 0))
    found = read_pages(save(page.parent), None, [1])[0]
    assert found.markdown == "\n".join(f"- {item}" for item in items)


def test_right_column_comes_first_when_a_line_above_crosses_the_gutter(save: Make) -> None:
    words = ["הארכיון", "נפתח", "באביב", "אחרי", "שנים", "ארוכות", "של", "עבודה"]
    above = (100, ("קצר", *words[:2])), (113, (*words, "של", "לפני"))
    texts = [from_right(540, y, seen(*reversed(line))) for y, line in above]
    for right, first in ((540, "ימין"), (290, "שמאל")):
        for at in range(9):
            line = [first if at == 0 else words[at % 8], *(words[(at + step) % 8] for step in range(1, 8))]
            texts.append(from_right(right, 160 + 13 * at, seen(*reversed(line))))
    reading = read_pages(save(page_of(texts).parent), None, [1])[0]
    text = reading.markdown
    assert reading.reader == "mupdf"
    assert text.index("קצר") < text.index("ימין") < text.index("שמאל")
    assert text.count("\n\n") == 2
