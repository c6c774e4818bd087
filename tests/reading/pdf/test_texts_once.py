"""A page's text is written once, where it is: blocks that repeat lines of others, tables that cut a line, words of the
layout reader that run backwards."""

from __future__ import annotations

from dataclasses import replace

from quire.domain.element import Element, ElementKind
from quire.reading.pdf.compose import compose, with_whole_lines
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.missing_words import lines_with
from quire.reading.pdf.ruled_tables import Table
from quire.reading.pdf.text_lines import TextLine

TEXT = [
    "These numbers in the chart above do not look outrageous.",
    "Competitors will have to charge higher prices to cover",
    "their costs, so that others may charge higher prices too.",
]
BOX = (72.0, 98.0, 400.0, 140.0)


def line(text: str, y: float, x: float = 72.0, width: float = 300.0) -> TextLine:
    return TextLine(text, (x, y, x + width, y + 10), 10.0, False, False, True, False, 0)


def prose() -> list[TextLine]:
    return [line(text, 100 + 14 * at) for at, text in enumerate(TEXT)]


def shown(blocks: list[LayoutBlock], lines: list[TextLine], tables: list[Table] | None = None) -> str:
    found = []
    for item in compose(blocks, lines, tables or [], []):
        cells = [cell for row in item.block.rows for cell in row]
        own = [*cells, *item.block.lines, item.block.text]
        found += [one.text for one in item.lines] or [text for text in own if text]
    return " ".join(found)


def test_a_block_that_repeats_parts_of_another_blocks_lines_is_left_out() -> None:
    whole = LayoutBlock("paragraph", BOX, " ".join(TEXT))
    part = LayoutBlock(
        "paragraph", (120.0, 113.0, 360.0, 138.0), "will have to charge higher may charge higher"
    )
    assert shown([whole, part], prose()) == " ".join(TEXT)


def test_a_block_keeps_its_own_lines_only_when_its_text_has_those_of_a_neighbour() -> None:
    lines = [line("but outlook weakens", 100, width=150), line("Reduce", 100, x=300, width=60)]
    mixed = LayoutBlock("heading", (150.0, 98.0, 360.0, 112.0), "outlook Reduce weakens")
    other = LayoutBlock("paragraph", (72.0, 98.0, 222.0, 112.0), "but outlook weakens")
    assert shown([other, mixed], lines) == "but outlook weakens Reduce"


def test_a_block_whose_letters_no_line_has_keeps_its_text() -> None:
    whole = LayoutBlock("paragraph", BOX, " ".join(TEXT))
    other = LayoutBlock("paragraph", (120.0, 113.0, 360.0, 138.0), "Jazz quiz: 7 zebras, 9 foxes")
    assert "Jazz quiz: 7 zebras, 9 foxes" in shown([whole, other], prose())


def test_signs_that_two_readers_count_differently_are_not_repeated() -> None:
    roots = [line("ffi" * 19 + " q", 100), line("frequencies of the trap", 112)]
    first = LayoutBlock("paragraph", (72.0, 98.0, 372.0, 124.0), "ffi" * 19 + " q frequencies of the trap")
    again = LayoutBlock("paragraph", (100.0, 99.0, 300.0, 111.0), "q " + "ffi" * 18)
    assert shown([first, again], roots) == f"{'ffi' * 19} q frequencies of the trap"


def test_code_beside_a_table_does_not_repeat_its_rows() -> None:
    table = Table((72.0, 90.0, 400.0, 130.0), (("8", "x"), ("9", "Washington, D.C.")))
    code = LayoutBlock(
        "code", (72.0, 118.0, 400.0, 200.0), lines=("9 Washington, D.C.", "10 The matter came on")
    )
    texts = {118: "9 Washington, D.C.", 150: "10 The matter came on"}
    lines = [replace(line(text, y), mono=True) for y, text in texts.items()]
    assert shown([code], lines, [table]) == "8 x 9 Washington, D.C. 10 The matter came on"


def test_a_table_is_as_wide_as_its_lines() -> None:
    rows = (("Saccharometer DI Water", "Yeast Suspension"), ("2 24 ml", "4 ml"))
    made = compose([LayoutBlock("table", (140.0, 98.0, 320.0, 140.0), rows=rows)], [], [], [])
    lines = [
        line("Saccharometer DI Water", 100, x=75, width=200),
        line("Yeast Suspension", 100, x=295, width=80),
    ]
    beside = line("A note that is not of the table", 114, x=300, width=200)
    assert with_whole_lines(made, [*lines, beside])[0].block.box == (75.0, 98.0, 375.0, 140.0)


def test_words_of_arabic_are_in_their_own_order() -> None:
    rows = (("Arabic يبرع", "Azeri"), ("Pashto وتښپ", "Hausa"))
    lines = [line("Arabic عربي", 100, width=80), line("Pashto پښتو", 120, width=80)]
    lines += [line("Azeri", 100, x=300, width=40), line("Hausa", 120, x=300, width=40)]
    found = shown([LayoutBlock("table", (70.0, 98.0, 400.0, 132.0), rows=rows)], lines)
    assert found == "Arabic عربي Azeri Pashto پښتو Hausa"
    code = LayoutBlock("code", (70.0, 98.0, 400.0, 112.0), lines=("یپاک یک رفئاس",))
    made = compose([code], [line("سائفر کی کاپی", 100)], [], [])
    assert [(item.block.kind, [one.text for one in item.lines]) for item in made] == [
        ("paragraph", ["سائفر کی کاپی"])
    ]


def test_the_line_that_no_element_has_is_taken_first() -> None:
    held = Element("p1-e1", ElementKind.PARAGRAPH, "Series ended", box=(70.0, 90.0, 400.0, 112.0))
    lines = [line("Series ended", 100), line("Series ended", 300)]
    found = lines_with(["Series", "ended"], lines, 10.0, [held])
    assert [(one.text, one.box[1]) for one in found] == [("Series ended", 300)]
