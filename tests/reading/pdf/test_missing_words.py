"""Words of the text layer that no element has are named, and come back at their place."""

from __future__ import annotations

import pymupdf

from quire.domain.element import Element, ElementKind, TableGrid
from quire.reading.pdf.block_matching import FilledBlock
from quire.reading.pdf.compose import place_lines
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.missing_words import lines_with, missing_words
from quire.reading.pdf.page_reader import read_pages
from quire.reading.pdf.text_lines import TextLine
from tests.reading.conftest import PROSE, Make


def paragraph(text: str, **fields: object) -> Element:
    return Element("p1-e1", ElementKind.PARAGRAPH, text, **fields)  # type: ignore[arg-type]


def line(text: str, y: float, x: float = 72.0, *, size: float = 10.0, block: int = 0) -> TextLine:
    box = (x, y, x + 5.0 * len(text), y + size)
    return TextLine(text, box, size, False, False, True, False, block)


def test_nothing_is_missing_when_words_only_changed_their_order() -> None:
    assert missing_words("one two three", [paragraph("three one two")]) == []


def test_each_occurrence_counts() -> None:
    assert missing_words("add 1 and 1 and 1", [paragraph("add 1 and and 1")]) == ["1"]


def test_a_numerator_that_is_left_out_is_missing() -> None:
    assert missing_words("mix 1 ⁄4 cup of oil", [paragraph("mix ⁄4 cup of oil")]) == ["1"]
    assert missing_words("mix 1⁄4 cup of oil", [paragraph("mix ⁄4 cup of oil")]) == ["1⁄4"]


def test_a_joined_hyphen_a_ligature_and_a_split_word_are_not_missing() -> None:
    assert missing_words("commit- tee", [paragraph("committee")]) == []
    assert missing_words("ﬁgure", [paragraph("figure")]) == []
    assert missing_words("key:value", [paragraph("key: value")]) == []


def test_marks_without_letters_or_digits_are_not_missing() -> None:
    assert missing_words("• one — two", [paragraph("one two")]) == []


def test_control_characters_only_separate_words() -> None:
    assert missing_words("\x0012 + 22\x01 Peters\x00Valentina", [paragraph("Valentina 12 + 22 Peters")]) == []
    assert [one.text for one in lines_with(["12"], [line("\x0012 + 22", 100)], 10.0, [])] == ["12"]


def test_words_of_cells_markers_and_running_lines_count_as_there() -> None:
    table = Element("p1-e1", ElementKind.TABLE, table=TableGrid((("Region", "2021"), ("North", "12"))))
    item = Element("p1-e2", ElementKind.LIST_ITEM, "first", marker="a)")
    running = Element("p1-e3", ElementKind.RUNNING_HEADER, "Report", repeated=True)
    assert missing_words("Report Region 2021 North 12 a) first", [table, item, running]) == []


def test_lost_words_are_named_when_all_other_texts_are_there_word_for_word() -> None:
    layer = "Page 3\nThe gauge is read.\nIt is\nread at noon.\nThe gauge is read."
    there = [paragraph("The gauge is read."), paragraph("Page 3")]
    assert (
        missing_words(layer, [*there, paragraph("It is read at noon."), paragraph("The gauge is read.")])
        == []
    )
    assert missing_words(layer, [*there, paragraph("It is read at noon.")]) == ["gauge", "read.", "The", "is"]
    assert missing_words(layer, [*there, paragraph("The gauge is read.")]) == [
        "noon.",
        "read",
        "It",
        "is",
        "at",
    ]


def test_lost_words_are_named_when_a_table_has_hundreds_of_cells() -> None:
    rows = tuple((str(number), f"part{number}") for number in range(100))
    table = Element("p1-e1", ElementKind.TABLE, table=TableGrid(rows))
    layer = " ".join(cell for row in rows for cell in row)
    assert missing_words(layer, [table]) == []
    assert missing_words(f"{layer} lost", [table]) == ["lost"]


def test_a_word_that_is_part_of_another_surplus_word_is_taken_once() -> None:
    assert missing_words("ab ab", [paragraph("xaby")]) == ["ab"]


def test_lines_are_reduced_to_the_missing_words_in_the_type_of_the_body() -> None:
    lines = [line("1 cup of oil", 100, size=14.0), line("stir well", 120)]
    found = lines_with(["1"], lines, 10.0, [])
    assert [(one.text, one.size, one.bold) for one in found] == [("1", 10.0, False)]
    assert found[0].box == lines[0].box


def test_the_line_that_has_nothing_but_missing_words_is_taken_first() -> None:
    lines = [line("chapter 1 of two", 100), line("1", 300)]
    assert [one.box[1] for one in lines_with(["1"], lines, 10.0, [])] == [300]


def test_a_word_that_is_in_no_line_brings_none_back() -> None:
    assert lines_with(["gone"], [line("here", 100)], 10.0, []) == []


def test_words_of_a_block_come_back_behind_it() -> None:
    code = FilledBlock(LayoutBlock("code", (50, 100, 500, 700), lines=("a", "b")))
    filled = [code]
    place_lines(filled, [line("lost", 300, x=60.0)])
    assert [item.block.kind for item in filled] == ["code", "paragraph"]


def test_lines_come_back_below_the_block_that_ends_above_them_in_their_column() -> None:
    def block(text: str, x: float, y: float) -> FilledBlock:
        return FilledBlock(LayoutBlock("paragraph", (x, y, x + 200, y + 40), text))

    filled = [block("left top", 50, 100), block("left bottom", 50, 300), block("right", 300, 100)]
    place_lines(filled, [line("beside", 200, x=60.0), line("at the end", 200, x=310.0, block=1)])
    assert [item.block.text for item in filled] == [
        "left top",
        "beside",
        "left bottom",
        "right",
        "at the end",
    ]


def test_exponents_are_not_missing_when_their_figures_are_parts_of_other_words() -> None:
    found = paragraph("1² + 2² = 6 (11)")
    assert missing_words("12 + 22 = 6(11)", [found]) == []
    assert missing_words("12 + 22 = 6(11) 12", [found]) == ["12"]


def test_numerators_and_a_line_beside_a_figure_are_on_the_page_when_it_is_read(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_font(fontname="F0", fontbuffer=pymupdf.Font("helv").buffer)
    page.insert_textbox((72, 60, 520, 200), PROSE * 2, fontsize=11)
    for row, (above, below) in enumerate((("1", "4"), ("3", "8"), ("2", "3"))):
        for x, y, text, size in (
            (72, 0, "Add", 11),
            (96, -4, above, 6.5),
            (100, 0, "⁄", 11),
            (103, 1, below, 6.5),
        ):
            page.insert_text((x, 220 + 18 * row + y), text, fontsize=size, fontname="F0")
        page.insert_text((115, 220 + 18 * row), "cup of oil", fontsize=11, fontname="F0")
    blue = pymupdf.Pixmap(pymupdf.csRGB, (0, 0, 60, 60))
    blue.set_rect(blue.irect, (90, 120, 200))
    page.insert_image((72, 300, 252, 480), pixmap=blue)
    page.insert_text((270, 390), "The finished loaf, cut in half.", fontsize=11)
    page.insert_textbox((72, 500, 520, 640), PROSE * 2, fontsize=11)
    (reading,) = read_pages(save(document), None, [1])
    assert reading.words_missing == 0
    assert all(part in reading.markdown for part in ("1⁄4", "3⁄8", "2⁄3", "The finished loaf, cut in half."))
