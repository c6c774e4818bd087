"""Plain pages, read without the layout reader: paragraphs, lists, columns, and text that runs sideways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymupdf
import pytest

from quire.domain.element import hull
from quire.reading.pdf.page_reader import ReadOptions, read_pages
from quire.reading.pdf.paragraph_runs import blocks_of
from quire.reading.pdf.text_lines import TextLine, body_size
from quire.reading.pdf.text_rows import TextRow
from tests.reading.conftest import PROSE, Make, form_pdf, prose, write

LEFT, LEADING = 72.0, 13.0


def column(*lines: tuple[float, str] | None, size: float = 10) -> Any:
    """A page with the lines at their indents, one below the other; None leaves half a line free."""
    document = pymupdf.open()
    page = document.new_page()
    y = 100.0
    for line in lines:
        if line is None:
            y += 0.5 * LEADING
            continue
        write(page, LEFT + line[0], y, line[1], size=size)
        y += LEADING
    return document


def full(*sentences: str) -> list[tuple[float, str]]:
    """Lines of a paragraph that fill the measure, and a short last one."""
    wide = "All the members of the society met in the hall and heard the long report of the secretary on"
    return [*((0.0, wide) for _ in range(3)), *((0.0, s) for s in sentences)]


def blocks(path: str) -> list[str]:
    reading = read_pages(path, None, [1])[0]
    assert reading.reader == "mupdf"
    return reading.markdown.split("\n\n")


def test_paragraph_is_its_own_when_it_follows_a_bulleted_list(save: Make) -> None:
    page = column(
        *full("the first matter."),
        None,
        (12, "\u2022  a spare float"),
        (12, "\u2022  oil for the lamps"),
        None,
        *full("the second matter."),
    )
    first, items, last = blocks(save(page))
    assert first.endswith("the first matter.")
    assert items == "- a spare float\n- oil for the lamps"
    assert last.startswith("All the members")


def test_paragraph_is_its_own_when_it_follows_a_numbered_list_without_a_gap(save: Make) -> None:
    page = column(
        *full("the first matter."),
        (12, "1.  read the gauge"),
        (12, "2.  write the level into the log and sign for it before the next watch comes on duty, and"),
        (24, "lock the door"),
        *full("the second matter."),
    )
    _, items, last = blocks(save(page))
    assert items.splitlines() == [
        "1. read the gauge",
        "2. write the level into the log and sign for it before the next watch comes on duty, and lock the door",
    ]
    assert last.startswith("All the members")


def test_item_goes_on_when_its_second_line_does_not_hang(save: Make) -> None:
    long = "\u2022 All the members of the society met in the hall and heard the long report of the secretary"
    page = column((0, long), (0, "and of the treasurer"), (0, "\u2022 Then they went home"))
    assert blocks(save(page))[0].splitlines() == [
        f"- {long[2:]} and of the treasurer",
        "- Then they went home",
    ]


def test_inner_items_stand_below_the_outer_ones_text(save: Make) -> None:
    page = column(
        *full("the first matter."),
        None,
        (12, "1.  outer"),
        (36, "\u2022  inner"),
        (60, "\u2013  innermost"),
        (36, "\u2022  inner again"),
        (12, "2.  outer again"),
    )
    assert blocks(save(page))[1].splitlines() == [
        "1. outer",
        "   - inner",
        "     - innermost",
        "   - inner again",
        "2. outer again",
    ]


def test_marks_belong_to_their_items_when_they_stand_far_from_them(save: Make) -> None:
    document = column(*full("the first matter."))
    for i, text in enumerate(("a spare float", "oil for the lamps")):
        write(document[0], 80, 180 + 14 * i, "\u2022", size=10)
        write(document[0], 110, 180 + 14 * i, text, size=10)
    assert blocks(save(document))[1] == "- a spare float\n- oil for the lamps"


@pytest.mark.parametrize("start", ["12. of the month", "- and only then -"])
def test_line_is_no_item_when_a_paragraph_only_happens_to_break_there(start: str, save: Make) -> None:
    wide = full()[0][1]
    page = column((0, wide), (0, wide), (0, f"{start} the secretary closed the meeting."))
    (only,) = blocks(save(page))
    assert only.endswith(f"{wide} {start} the secretary closed the meeting.")


@pytest.mark.parametrize(
    ("text", "size"), [("1. First things", 16.0), ("1. FIRST THINGS", 10.0)], ids=["large", "capitals"]
)
def test_numbered_line_is_a_heading_when_its_type_says_so(text: str, size: float, save: Make) -> None:
    document = column(*full("the first matter."))
    write(document[0], LEFT, 70, text, size=size)
    assert blocks(save(document))[0] in (f"# {text}", f"### {text}")


def test_paragraphs_are_apart_when_only_indents_tell(save: Make) -> None:
    wide = full()[0][1]
    page = column((0, wide), (0, "and so it ended"), (16, wide[:80]), (0, wide), (0, "and so on."))
    assert [block.split(" ", 1)[0] for block in blocks(save(page))] == ["All", "All"]


def two_columns(*, across: Sequence[tuple[float, str]] = ()) -> Any:
    document = pymupdf.open()
    page = document.new_page()
    for y, text in across:
        write(page, 60, y, text, size=10)
    page.insert_textbox((50, 120, 285, 700), "Alpha opens. " + PROSE * 4 + "Alpha ends.", fontsize=10)
    page.insert_textbox((315, 120, 550, 700), "Omega opens. " + PROSE * 4 + "Omega ends.", fontsize=10)
    return document


def test_columns_follow_one_another_below_what_spans_both(save: Make) -> None:
    head = "A line that runs over both columns of the page and stands alone above them all, as heads do"
    text = " ".join(" ".join(blocks(save(two_columns(across=[(90, head)])))).split())
    places = [text.index(s) for s in (head, "Alpha opens", "Alpha ends", "Omega opens", "Omega ends")]
    assert places == sorted(places)


def test_layout_reader_is_asked_when_pieces_stand_side_by_side(save: Make) -> None:
    reading = read_pages(save(form_pdf()), None, [1])[0]
    assert reading.reader == "liteparse"
    assert all(text in reading.markdown for text in ("Name", "Jane Doe", "Place", "North Pier"))


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_text_is_read_along_itself_when_viewers_show_it_turned(rotation: int, save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    write(page, 72, 90, "Turned Heading", size=20, bold=True)
    prose(page, 72, 110, 450)
    for i, item in enumerate(("first thing", "second thing")):
        write(page, 90, 300 + 14 * i, f"\u2022 {item}", size=10)
    upright = save(document, "upright.pdf")
    document = pymupdf.open(upright)
    document[0].set_rotation(rotation)
    turned = save(document, "turned.pdf")
    options = ReadOptions(strip_running=False)
    expected = read_pages(upright, None, [1], options)[0].markdown
    assert "# Turned Heading" in expected
    assert "- first thing\n- second thing" in expected
    assert read_pages(turned, None, [1], options)[0].markdown == expected


def test_layout_reader_gets_the_page_upright_when_viewers_show_it_turned(save: Make) -> None:
    turned = form_pdf()
    turned[0].set_rotation(90)
    expected = read_pages(save(form_pdf(), "upright.pdf"), None, [1])[0]
    reading = read_pages(save(turned, "turned.pdf"), None, [1])[0]
    assert (reading.reader, reading.markdown) == ("liteparse", expected.markdown)


def test_lines_are_one_paragraph_when_their_type_is_set_wider_than_the_body(save: Make) -> None:
    document = column(*full("the first matter."), *full("the second matter."), *full("the third matter."))
    names = "Ann Doe, Bob Roe, Cid Poe, Dan Loe, Eve Moe, Fay Noe, " * 2 + "Gil Boe, Hal Coe, Ida Foe,"
    for at in range(5):
        write(document[0], LEFT, 400 + 12 * at, names if at < 4 else "and Zoe.", size=6)
    assert blocks(save(document))[-1] == " ".join([names] * 4 + ["and Zoe."])


def test_page_is_read_from_top_to_bottom_when_single_rows_have_gaps(save: Make) -> None:
    document = column(*full("the first matter."), None, (0, "Tender 41"), None, *full("the second matter."),
                      *full("the third matter."), *full("the last matter."))  # fmt: skip
    write(document[0], LEFT + 300, 100 + 4.5 * LEADING, "Dated: May 6")
    texts = blocks(save(document))
    assert texts[1:3] == ["Tender 41", "Dated: May 6"]
    assert texts[-1].endswith("the last matter.")


def test_an_item_goes_on_when_its_lines_are_ragged_and_a_footer_is_wider(save: Make) -> None:
    page = column(
        (0, "a. The fee is paid by the guests of the larger houses in spring, and by the owners"),
        (0, "of the boats in autumn and winter"),
        (0, "of each year. The council sets it anew"),
        None,
        (0, "b. The rest is kept."),
        None,
        None,
        (
            0,
            "Report of the society on the fees and the harbours and the boats of the northern and southern coast 49",
        ),
    )
    items = blocks(save(page))[0].split("\n")
    assert items[0].endswith("winter of each year. The council sets it anew")
    assert items[1] == "- b. The rest is kept."


def test_text_behind_a_list_is_its_own_when_only_one_line_of_the_page_fills_the_measure(save: Make) -> None:
    """Short lines that end at about one place are no margin: with one, text would fit nowhere behind an item."""
    page = column(
        (0, "Dear members"),
        None,
        None,
        (
            0,
            "To get started with the summer of this year, bring all that is on the list below to the harbour:",
        ),
        None,
        None,
        (30, "\u2022  You can rest and look around"),
        None,
        None,
        (30, "\u2022  Paddle about the island"),
        None,
        None,
        (30, "\u2022  Enjoy the summer warmth"),
        None,
        None,
        (0, "Also, you should not forget to bring"),
        None,
        None,
        (0, "Hmm, what else is there to say"),
    )
    texts = blocks(save(page))
    assert texts[2].splitlines()[-1] == "- Enjoy the summer warmth"
    assert texts[3:] == ["Also, you should not forget to bring", "Hmm, what else is there to say"]


def test_a_heading_goes_on_when_its_second_line_hangs(save: Make) -> None:
    document = column(*full("the first matter."))
    page = document[0]
    write(page, LEFT, 200, "6.3. Training of the members who keep the harbour and the", size=14, bold=True)
    write(page, LEFT + 30, 216, "lamps", size=14, bold=True)
    write(page, LEFT, 250, "All of them are trained.", size=10)
    heading = next(block for block in blocks(save(document)) if block.startswith("#"))
    assert heading.endswith("who keep the harbour and the lamps")


def test_a_dash_marks_an_item_when_its_text_is_bold(save: Make) -> None:
    document = column(*full("the first matter."))
    page = document[0]
    write(page, LEFT + 12, 200, "- The fee was raised.", size=10, bold=True)
    write(page, LEFT + 12, 213, "- The boats were sold.", size=10, bold=True)
    assert blocks(save(document))[1] == "- The fee was raised.\n- The boats were sold."


def test_letters_take_the_place_of_ligatures(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    writer = pymupdf.TextWriter(page.rect)
    writer.append((72, 100), "So\ufb01a \ufb02ies to the o\ufb03ce.", font=pymupdf.Font("helv"))
    writer.write_text(page)
    reading = read_pages(save(document), None, [1])[0]
    assert reading.markdown == reading.text.strip() == "Sofia flies to the office."


def test_line_with_an_asterisk_is_a_note_when_no_other_has_one(save: Make) -> None:
    page = column(*full("the first matter."), None, (0, "* Corresponding author of this long report."))
    assert blocks(save(page))[-1] == r"\* Corresponding author of this long report."


def test_lines_with_asterisks_are_a_list_when_there_are_several(save: Make) -> None:
    page = column(*full("the first matter."), None, (0, "* a spare float"), (0, "* oil for the lamps"))
    assert blocks(save(page))[-1] == "- a spare float\n- oil for the lamps"


def test_stamp_in_the_margin_follows_the_text_when_the_page_is_plain_else(save: Make) -> None:
    document = column(*full("the first matter."), None, *full("the second matter."))
    document[0].insert_text((30, 500), "Archive 2407.10671 of 10 Sep 2024", fontsize=20, rotate=90)
    first, second, stamp = blocks(save(document))
    assert first.endswith("the first matter.")
    assert second.endswith("the second matter.")
    assert stamp == "Archive 2407.10671 of 10 Sep 2024"


def test_type_of_a_stamp_is_not_the_body_when_it_has_most_letters() -> None:
    def line(text: str, size: float, *, upright: bool) -> TextLine:
        return TextLine(text, (0, 0, 100, 10), size, False, False, upright, False, 0)

    stamp = line("Archive 2407.10671 of 10 Sep 2024", 20, upright=False)
    assert body_size([line("A few words.", 10, upright=True), stamp]) == 10
    assert body_size([stamp]) == 20


@pytest.mark.parametrize("y", [60, 760], ids=["head", "foot"])
def test_line_is_not_between_the_columns_when_it_is_at_the_edge_of_the_page(y: float, save: Make) -> None:
    document = two_columns()
    write(document[0], 480 if y < 100 else 60, y, "Report, Vol. 9", size=10)
    texts = " ".join(blocks(save(document)))
    assert texts.startswith("Report") if y < 100 else texts.endswith("Vol. 9")


def test_line_is_not_broken_when_a_sentence_goes_on_behind_its_ragged_end(save: Make) -> None:
    wide = full()[0][1]
    page = column(
        (0, wide), (0, "and most of them are about the boats of Indonesia"), (0, "and Japan."), (0, "")
    )
    assert blocks(save(page)) == [f"{wide} and most of them are about the boats of Indonesia and Japan."]


def test_lines_stay_lines_when_they_are_entries_that_end_with_numbers(save: Make) -> None:
    entries = (
        "end dialog of the short kind, 437",
        "end for, which is short too, 283",
        "end custom, the longer of all these entries, 302, 429, 430",
    )
    page = column(*((0.0, entry) for entry in entries))
    assert blocks(save(page)) == ["\n".join(entries)]


def test_row_is_one_line_when_it_is_stretched_to_the_margins(save: Make) -> None:
    wide = full()[0][1]
    document = column(
        (0, wide), (0, ""), (0, wide), (0, "and so it ended."), *full("the end."), *full("it all.")
    )
    right = LEFT + pymupdf.get_text_length(wide, fontsize=10)
    words = ("for vocational", "teachers, the", "specialist", "and qualified")
    widths = [pymupdf.get_text_length(text, fontsize=10) for text in words]
    gap = (right - LEFT - sum(widths)) / 3
    for i, text in enumerate(words):
        write(document[0], LEFT + sum(widths[:i]) + gap * i, 100 + LEADING, text, size=10)
    assert blocks(save(document))[0] == f"{wide} {' '.join(words)} {wide} and so it ended."


def test_entry_is_whole_when_its_second_line_hangs(save: Make) -> None:
    wide = full()[0][1]
    page = column((0, wide), (12, "extension of models."), (0, wide), (12, "Transactions of 2019."))
    assert blocks(save(page)) == [f"{wide} extension of models.", f"{wide} Transactions of 2019."]


def test_indented_paragraph_is_its_own_when_a_note_is_behind_the_last_sentence(save: Make) -> None:
    wide = full()[0][1]
    page = column(
        (0, wide), (0, wide[:-3] + "it.49"), (12, "Ongoing watch " + wide[:60]), (0, wide), (0, "it.")
    )
    assert [block[:7] for block in blocks(save(page))] == ["All the", "Ongoing"]


def labelled_references(count: int, labels: Sequence[str]) -> Any:
    """References in two columns; each label is apart from its text, as in a column of its own."""
    document = pymupdf.open()
    page = document.new_page(width=612)
    for x, first in ((50.0, 0), (320.0, count)):
        for at in range(count):
            y = 90.0 + 44 * at
            write(page, x, y, labels[first + at], size=8)
            write(page, x + 44, y, f"Author {first + at}, some title of a long report on the", size=8)
            write(page, x + 44, y + 10, "work of the society and of its many old members,", size=8)
            write(page, x + 44, y + 20, f"in the journal of the year {1900 + first + at}.", size=8)
    return document


@pytest.mark.parametrize("label", ["[Cop{:02}]", "[{}]"])
def test_references_are_whole_when_their_labels_are_in_a_column_of_their_own(label: str, save: Make) -> None:
    labels = [label.format(i) for i in range(16)]
    assert blocks(save(labelled_references(8, labels))) == [
        f"{label} Author {i}, some title of a long report on the work of the society and of its many old members, "
        f"in the journal of the year {1900 + i}."
        for i, label in enumerate(labels)
    ]


def test_reference_is_whole_when_its_line_is_stretched(save: Make) -> None:
    document = labelled_references(8, [f"[{i}]" for i in range(16)])
    for row in range(2):
        for at, word in enumerate(("Then", "All", "Went", "Home")):
            write(document[0], 94 + 56 * at, 440 + 10 * row, word, size=8)
    assert "Then All Went Home Then All Went Home" in " ".join(blocks(save(document)))


def test_clauses_with_numbers_set_apart_are_whole_paragraphs(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    y = 100.0
    for number in ("1.1", "1.2", "2.1"):
        write(page, LEFT, y, number, size=9)
        for line in (
            f"All clauses of {number} that the members heard in the hall go on from line",
            "to line here.",
        ):
            write(page, LEFT + 30, y, line, size=9)
            y += LEADING
    assert blocks(save(page.parent)) == [
        f"{n} All clauses of {n} that the members heard in the hall go on from line to line here."
        for n in ("1.1", "1.2", "2.1")
    ]


def test_lines_of_an_address_are_kept_when_no_word_would_fit_behind_the_longest(save: Make) -> None:
    address = ("Ms Anna Blythe", "Head of Collections", "Harbour Archive", "1 Quay Road")
    page = column(*((0, line) for line in address), None, None, *full("the first matter."))
    assert blocks(save(page))[0].splitlines() == list(address)


def test_lines_of_a_list_without_marks_are_kept_when_they_are_of_several_lengths(save: Make) -> None:
    names = ("oil for the lamps on the pier", "rope", "paint for the two boats", "a float", "nails")
    page = column(*((0, line) for line in names), None, None, *full("the first matter."))
    assert blocks(save(page))[0].splitlines() == list(names)


def test_text_that_is_set_narrower_than_its_column_is_one_line(save: Make) -> None:
    quote = (
        "The committee met in the large hall",
        "and heard what the secretary had to",
        "report of the new building",
    )
    page = column(*full("the first matter."), None, None, *((0, line) for line in quote))
    assert blocks(save(page))[1] == " ".join(quote)


def test_word_with_a_colon_in_the_middle_of_a_sentence_is_no_label() -> None:
    def piece(text: str, x0: float, x1: float, y: float) -> TextLine:
        return TextLine(text, (x0, y, x1, y + 10), 10.0, False, False, True, False, 0)

    first = [piece("The report is to be had from the office as well. [Online]. Avail-", 60, 400, 100)]
    second = [piece("able:", 60, 85, 113), piece("in the archive of the town", 120, 400, 113)]
    rows = [TextRow(lines, hull([line.box for line in lines])) for lines in (first, second)]
    (block,) = blocks_of(rows, frozenset())
    assert block.lines == [*first, *second]
