"""Whole paragraphs from the blocks of the layout reader, which cuts and joins some of them wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quire.domain.element import ElementKind, hull
from quire.reading.pdf.block_elements import ComposeStyle, PageBuilder
from quire.reading.pdf.block_matching import FilledBlock
from quire.reading.pdf.compose import compose
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.layout_paragraphs import with_whole_paragraphs
from quire.reading.pdf.text_lines import TextLine

LEADING, SIZE = 12.0, 10.0
WIDE = "The members of the society met in the hall on"
"""A line that fills a column of 45 characters."""


def line(text: str, row: float, *, x: float = 50, bold: bool = False, size: float = SIZE) -> TextLine:
    top = 100 + row * LEADING
    return TextLine(text, (x, top, x + 5 * len(text), top + size), size, bold, False, True, False, 0)


def block(*lines: TextLine, kind: str = "paragraph") -> FilledBlock:
    return FilledBlock(LayoutBlock(kind, hull([one.box for one in lines])), list(lines))


def texts(filled: Sequence[FilledBlock]) -> list[str]:
    return [" ".join(one.text for one in item.lines) for item in filled]


def kinds(filled: Sequence[FilledBlock]) -> list[tuple[ElementKind, str]]:
    page = PageBuilder(2, ComposeStyle(SIZE, 800, True), {})
    page.add_blocks(with_whole_paragraphs(filled, SIZE))
    return [(element.kind, element.text) for element in page.finished()]


def test_paragraph_is_whole_when_the_layout_reader_cuts_it_in_a_sentence() -> None:
    cut = [block(line(WIDE, 0), line(WIDE, 1)), block(line("the second day of May and heard", 2))]
    assert texts(with_whole_paragraphs(cut, SIZE)) == [f"{WIDE} {WIDE} the second day of May and heard"]


def test_paragraphs_are_two_when_the_layout_reader_joins_them() -> None:
    joined = [block(line(WIDE, 0), line("the second day.", 1), line(WIDE, 2), line("the third day.", 3))]
    assert texts(with_whole_paragraphs(joined, SIZE)) == [f"{WIDE} the second day.", f"{WIDE} the third day."]


def test_heading_is_one_when_it_is_joined_with_the_paragraph_below_it() -> None:
    joined = [block(line("The report", 0, bold=True), line(WIDE, 1), line("the second day.", 2))]
    assert kinds(joined) == [
        (ElementKind.HEADING, "The report"),
        (ElementKind.PARAGRAPH, f"{WIDE} the second day."),
    ]


def test_bold_line_is_a_heading_when_the_layout_reader_has_seen_it_and_prose_is_below() -> None:
    heads = [block(line("Option", 0, bold=True)), block(line(WIDE, 2), line("the second day.", 3))]
    assert kinds(heads)[0] == (ElementKind.HEADING, "Option")


def test_label_is_apart_from_its_text_when_the_layout_reader_joins_it_with_the_first_line() -> None:
    text = [block(line(WIDE, 1, x=200), line("the second day.", 2, x=200))]
    joined = [block(line("Rents", 0, bold=True), line(WIDE, 0, x=200)), *text]
    assert texts(with_whole_paragraphs(joined, SIZE)) == ["Rents", f"{WIDE} {WIDE} the second day."]
    for label in ("Table 6:", "12"):
        joined = [block(line(label, 0), line(WIDE, 0, x=200)), *text]
        assert texts(with_whole_paragraphs(joined, SIZE))[0] == f"{label} {WIDE}"


def test_bold_line_is_a_paragraph_when_rows_of_a_form_are_below_it() -> None:
    heads = [block(line("Option", 0, bold=True)), block(line(f"{WIDE} 1", 2)), block(line(f"{WIDE} 2", 4))]
    assert kinds(heads)[0] == (ElementKind.PARAGRAPH, "Option")


def test_heading_of_the_layout_reader_stays_apart_when_a_paragraph_follows_closely() -> None:
    filled = [block(line("Of the society", 0), kind="heading"), block(line(WIDE, 1), line("the day.", 2))]
    assert kinds(filled)[0] == (ElementKind.HEADING, "Of the society")


def test_columns_stay_apart_when_one_follows_the_other() -> None:
    left = block(line(WIDE, 0), line("and the secretary spoke about", 1))
    right = block(line("the lamps and " + WIDE[:30], 0, x=320), line("the oil for them.", 1, x=320))
    assert len(with_whole_paragraphs([left, right], SIZE)) == 2


def test_block_stays_as_it_is_when_texts_are_side_by_side_in_it() -> None:
    mixed = block(
        line("Name", 0), line("of the member", 0, x=200), line("Day", 1), line("of birth", 1, x=200)
    )
    assert with_whole_paragraphs([mixed], SIZE) == [mixed]


def test_table_stays_between_the_paragraphs_when_these_are_made_whole() -> None:
    table = FilledBlock(LayoutBlock("table", (50, 130, 300, 180), rows=(("a", "1"), ("b", "2"))))
    filled = [block(line(WIDE, 0)), table, block(line(WIDE, 10)), block(line("the second day.", 11))]
    assert [item.block.kind for item in with_whole_paragraphs(filled, SIZE)] == [
        "paragraph",
        "table",
        "paragraph",
    ]


def test_sentence_goes_on_when_the_type_of_a_scan_is_a_little_larger_in_the_next_line() -> None:
    rows = [block(line(WIDE, 0), line("the second day of May and", 1, size=11), line("heard the report.", 2))]
    assert len(with_whole_paragraphs(rows, SIZE)) == 1


def test_sentence_goes_on_when_a_formula_makes_the_next_line_deeper() -> None:
    deep = line("the second day, and x over y is", 3)
    x0, y0, x1, y1 = deep.box
    deep.box = (x0, y0, x1, y1 + 6)
    rows = [block(*(line(WIDE, i) for i in range(3)), deep, line("less than that.", 4))]
    rows += [block(*(line(WIDE, i) for i in range(8, 12)))]
    assert texts(with_whole_paragraphs(rows, SIZE))[0].endswith("less than that.")


def test_label_of_an_axis_is_apart_when_the_layout_reader_has_it_in_a_caption() -> None:
    caption = [line("Fig. 5 The yield of the reaction in time", 0), line("at a heat of 80 degrees.", 1)]
    label = replace(line("Yield (%)", -3), upright=False)
    text = " ".join(one.text for one in [*caption, label])
    blocks = [LayoutBlock("paragraph", hull([one.box for one in [*caption, label]]), text)]
    assert texts(compose(blocks, [*caption, label], [], [])) == [
        "Fig. 5 The yield of the reaction in time at a heat of 80 degrees.",
        "Yield (%)",
    ]


def test_sentence_goes_on_when_most_of_its_first_line_is_in_bold() -> None:
    first = replace(line("Areas for developing research: a transi-", 0, bold=True), mixed=True)
    rows = [block(first, line("tion to other services requires more of it", 1), line(WIDE + " the first", 2))]
    assert (
        len(with_whole_paragraphs([*rows, block(*(line(WIDE + " the first", i) for i in (5, 6, 7)))], SIZE))
        == 2
    )
