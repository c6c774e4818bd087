"""Pages read as Markdown: structure, classes, running lines, and nothing lost."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymupdf
import pytest

from quire.domain.page import PageClass, PageReading
from quire.errors import PageError, QuireError
from quire.reading.files.document_source import PdfSource, open_documents
from quire.reading.pdf.block_matching import compact
from quire.reading.pdf.page_reader import ReadOptions, read_pages, read_text
from quire.reading.pdf.running_lines import REACH, EdgeLine, Edges, edge_lines, running
from quire.reading.pdf.text_lines import TextLine
from quire.reading.pdf.texts_ahead import may_have
from tests.reading.conftest import PROSE, Make, form_pdf, prose, text_pdf, write


def one_page(draw: Any = None, **size: float) -> Any:
    document = pymupdf.open()
    page = document.new_page(**size)
    if draw is not None:
        draw(page)
    return document


def read_one(path: str, **options: bool) -> Any:
    return read_pages(path, None, [1], ReadOptions(**options))[0]


def grid(page: Any, rows: list[list[str]], *, left: float = 72, top: float = 150, ruled: bool = True) -> None:
    wide, high = 120, 24
    for r, row in enumerate(rows):
        for c, text in enumerate(row):
            write(page, left + c * wide + 6, top + r * high + 16, text, size=10)
    if ruled:
        for r in range(len(rows) + 1):
            page.draw_line((left, top + r * high), (left + wide * len(rows[0]), top + r * high))
        for c in range(len(rows[0]) + 1):
            page.draw_line((left + c * wide, top), (left + c * wide, top + high * len(rows)))


FIGURES = [
    ["Region", "2021", "2022", "2023"],
    ["North", "1,204", "1,311", "1,420"],
    ["South", "877", "912", "968"],
    ["East", "430", "455", "501"],
    ["West", "1,032", "1,001", "1,077"],
]


def test_one_reading_comes_for_each_number_in_the_order_asked(save: Make) -> None:
    readings = read_pages(save(text_pdf(4)), None, [3, 1, 3])
    assert [r.number for r in readings] == [3, 1, 3]
    assert "Chapter 3" in readings[0].markdown
    assert pickle.loads(pickle.dumps(readings)) == readings


def test_pages_are_left_unread_when_the_turn_is_over_but_never_the_first(save: Make) -> None:
    path = save(text_pdf(4))
    assert [r.number for r in read_pages(path, None, [3, 1, 2], ReadOptions(turn_s=0.0))] == [3]
    assert [r.number for r in read_pages(path, None, [3, 1, 2], ReadOptions(turn_s=60.0))] == [3, 1, 2]


def test_headings_have_levels_when_type_is_larger_and_bold(save: Make) -> None:
    def draw(page: Any) -> None:
        write(page, 72, 90, "Annual Report", size=26, bold=True)
        prose(page, 72, 110, 450)
        write(page, 72, 240, "Finances of the year", size=14, bold=True)
        prose(page, 72, 260, 450)

    lines = read_one(save(one_page(draw))).markdown.splitlines()
    assert "# Annual Report" in lines
    assert "## Finances of the year" in lines
    assert sum(line.startswith("#") for line in lines) == 2


def test_list_items_are_items_when_they_have_bullets(save: Make) -> None:
    def draw(page: Any) -> None:
        prose(page, 72, 80, 450)
        for i, item in enumerate(("first thing to do", "second thing to do", "third thing to do")):
            page.insert_text((90, 240 + 16 * i), f"\u2022 {item}", fontsize=10)

    markdown = read_one(save(one_page(draw))).markdown
    assert "- first thing to do\n- second thing to do\n- third thing to do" in markdown


def test_columns_are_read_one_after_the_other(save: Make) -> None:
    def draw(page: Any) -> None:
        left = "Alpha begins the left column here. " + PROSE * 4 + "Left ends."
        right = "Omega begins the right column here. " + PROSE * 4 + "Right ends."
        page.insert_textbox((50, 80, 290, 700), left, fontsize=10)
        page.insert_textbox((320, 80, 560, 700), right, fontsize=10)

    text = " ".join(read_one(save(one_page(draw))).markdown.split())
    assert (
        text.index("Alpha begins")
        < text.index("Left ends.")
        < text.index("Omega begins")
        < text.index("Right ends.")
    )


def test_ruled_table_is_a_table(save: Make) -> None:
    markdown = read_one(save(one_page(lambda page: grid(page, FIGURES)))).markdown
    assert "| Region | 2021 | 2022 | 2023 |" in markdown
    assert "| West | 1,032 | 1,001 | 1,077 |" in markdown


def test_merged_cells_keep_their_columns_when_a_head_spans(save: Make) -> None:
    def draw(page: Any) -> None:
        grid(page, FIGURES)
        for x in (312, 432):
            page.draw_line((x, 126), (x, 126))
        page.draw_rect((72, 126, 552, 150))
        page.draw_line((192, 126), (192, 150))
        write(page, 330, 142, "Members", size=10)

    rows = [line for line in read_one(save(one_page(draw))).markdown.splitlines() if line.startswith("|")]
    assert "Members" in rows[0]
    assert all(row.count("|") == 5 for row in rows)
    assert "| North | 1,204 | 1,311 | 1,420 |" in rows


def test_table_without_rules_is_a_table_when_figures_stand_in_columns(save: Make) -> None:
    def draw(page: Any) -> None:
        prose(page, 72, 80, 450)
        grid(page, FIGURES, top=230, ruled=False)

    markdown = read_one(save(one_page(draw))).markdown
    assert "| South | 877 | 912 | 968 |" in markdown
    assert "| The committee" not in markdown


def test_prose_in_columns_is_no_table(save: Make) -> None:
    def draw(page: Any) -> None:
        for x in (50, 320):
            page.insert_textbox((x, 80, x + 240, 700), PROSE * 6, fontsize=10)

    assert "|" not in read_one(save(one_page(draw))).markdown


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_rotated_page_reads_as_viewers_show_it(rotation: int, save: Make) -> None:
    document = pymupdf.open()
    upright = one_page(
        lambda page: (write(page, 72, 90, "Turned Heading", size=20, bold=True), grid(page, FIGURES))
    )
    page = (
        document.new_page(width=upright[0].rect.height, height=upright[0].rect.width)
        if rotation != 180
        else document.new_page()
    )
    page.show_pdf_page(page.rect, upright, 0, rotate=rotation)
    page.set_rotation(rotation)
    reading = read_one(save(document))
    assert "# Turned Heading" in reading.markdown
    assert "| North | 1,204 | 1,311 | 1,420 |" in reading.markdown


def running_pdf(pages: int = 8) -> Any:
    document = pymupdf.open()
    rng = random.Random(7)
    for number in range(1, pages + 1):
        page = document.new_page()
        write(page, 72, 40, "Proceedings of the Society", size=9)
        write(page, 290, 810, f"Page {number} of {pages}", size=9)
        page.insert_textbox(
            (72, 90, 520, 700), f"Body of {number}: " + PROSE * rng.randint(3, 6), fontsize=10
        )
    return document


def test_running_lines_go_when_neighbours_have_them_too(save: Make) -> None:
    for reading in read_pages(save(running_pdf()), None, range(1, 9)):
        assert ("Proceedings" in reading.markdown) == (reading.number == 1)
        assert "Page" not in reading.markdown
        assert f"Body of {reading.number}" in reading.markdown


@pytest.mark.parametrize("order", [(1, 2, 3, 4, 5), (5, 4, 3, 2, 1)])
def test_page_is_the_same_when_its_text_was_read_ahead(save: Make, order: tuple[int, ...]) -> None:
    path = save(running_pdf(9))
    alone: dict[int, PageReading] = {}
    for number in order:
        open_documents().forget()
        alone[number] = read_pages(path, None, [number])[0]
    open_documents().forget()
    source = open_documents().get(path, None)
    assert isinstance(source, PdfSource)
    were_ahead = 0
    for number in order:
        were_ahead += number in source.kept.get("ahead", {})
        assert read_pages(path, None, [number]) == [alone[number]]
        assert len(source.kept["ahead"]) <= REACH
        assert number not in source.kept["ahead"]
    assert were_ahead


def test_neighbours_are_left_alone_when_those_known_decide() -> None:
    def lines(number: int) -> list[TextLine]:
        texts = [("Proceedings of the Society", 40.0), ("A body of text", 300.0), (f"Page {number}", 800.0)]
        return [
            TextLine(text, (72.0, y, 300.0, y + 10), 10.0, False, False, True, False, i)
            for i, (text, y) in enumerate(texts)
        ]

    def unread(number: int) -> tuple[EdgeLine, ...]:
        raise AssertionError(f"page {number} was read for nothing")

    document = Edges(100, unread, lambda number, lines: unread(number) == ())
    for number in (11, 12, 13):
        document.put(number, tuple(edge_lines(lines(number), 842.0).values()))
    assert running(13, lines(13), edge_lines(lines(13), 842.0), document).left_out == {0, 2}


def test_neighbours_are_only_searched_when_they_have_none_of_the_words() -> None:
    def line(text: str) -> EdgeLine:
        box = (72.0, 40.0, 300.0, 50.0)
        lines = [TextLine(text, box, 10.0, False, False, True, False, 0)]
        return edge_lines(lines, 842.0)[0]

    asked: list[int] = []

    def read(number: int) -> tuple[EdgeLine, ...]:
        asked.append(number)
        return (line("The harbour at night"),)

    def search(number: int, lines: Sequence[Sequence[str]]) -> bool:
        return number == 14 and ["harb"] in lines

    document = Edges(100, read, search)
    assert document.may_have(14, [line("The harbour by day"), line("Lamps")])
    assert not document.may_have(15, [line("The harbour by day")])
    assert document.may_have(15, [line("The harbour by day"), line("No. 7")]), (
        "nothing in it can be searched for"
    )
    document.of(15)
    assert document.may_have(15, [line("The harbour by day")]), "it has been read"
    assert asked == [15]


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("Proceedings of the Society", True),
        ("PROCEEDINGS, SOCIETY", True),
        ("Proceedings", False),
        ("Proceedings\nSociety", False),
        ("Another head", False),
        ("The signiicant speciied edition", True),
    ],
)
def test_neighbour_may_have_a_word_when_its_text_has_it_or_is_mended(
    save: Make, text: str, may: bool
) -> None:
    document = pymupdf.open()
    page = document.new_page()
    for at, line in enumerate(text.split("\n")):
        write(page, 72, 40 + 20 * at, line)
    write(document.new_page(), 72, 40, "Proceedings of the Society")
    source = open_documents().get(save(document), None)
    assert isinstance(source, PdfSource)
    assert may_have(source, 1, [["proc", "soci"]]) is may


def test_neighbour_may_have_any_word_when_it_is_read_from_right_to_left(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_htmlbox((72, 72, 500, 200), "<p>שלום לכולם</p>")
    source = open_documents().get(save(document), None)
    assert isinstance(source, PdfSource)
    assert may_have(source, 1, [["proc"]])


def test_running_lines_stay_when_told(save: Make) -> None:
    reading = read_one(save(running_pdf()), strip_running=False)
    assert "Proceedings of the Society" in reading.markdown
    assert "Page 1 of 8" in reading.markdown


def test_page_reads_the_same_however_the_document_is_cut(save: Make) -> None:
    path = save(running_pdf(9))
    together = read_pages(path, None, range(1, 10))
    assert [read_pages(path, None, [n])[0] for n in range(9, 0, -1)] == together[::-1]


def test_rows_stay_when_they_only_begin_alike(save: Make) -> None:
    document = pymupdf.open()
    for number in range(6):
        page = document.new_page()
        for row in range(40):
            write(
                page,
                72,
                40 + 18 * row,
                f"Item {number * 977 + row * 13} sold for {number * 31 + row} pounds",
                size=10,
            )
    for reading in read_pages(save(document), None, range(1, 7)):
        assert reading.markdown.count("sold for") == 40


def test_page_number_stays_when_there_is_nothing_else(save: Make) -> None:
    document = pymupdf.open()
    for number in range(1, 5):
        write(document.new_page(), 290, 810, str(number), size=9)
    assert [r.markdown for r in read_pages(save(document), None, range(1, 5))] == ["1", "2", "3", "4"]


def test_hyphens_are_joined_only_when_asked(save: Make) -> None:
    def draw(page: Any) -> None:
        write(page, 72, 100, "The members of the society were in com-", size=10)
        write(page, 72, 112, "plete agreement about the state of the well-", size=10)
        write(page, 72, 124, "Known building at the corner of the street.", size=10)

    path = save(one_page(draw))
    joined = read_one(path).markdown
    assert "complete agreement" in joined
    assert "well- Known" in joined.replace("\n", " ")
    assert "com- plete" in read_one(path, join_hyphens=False).markdown.replace("\n", " ")


def test_text_stays_text_when_it_looks_like_markup(save: Make) -> None:
    def draw(page: Any) -> None:
        write(page, 72, 100, "<script>alert(1)</script> and 3 < 4 and a <b>bold</b> claim", size=10)
        write(
            page, 72, 140, "# not a heading of ours, and it is a full sentence, as anyone may see.", size=10
        )

    markdown = read_one(save(one_page(draw))).markdown
    assert "<script" not in markdown
    assert "</b>" not in markdown
    assert "3 < 4" in markdown
    assert not any(line.startswith("# not") for line in markdown.splitlines())


def test_table_cell_stays_one_cell_when_it_has_a_bar(save: Make) -> None:
    rows = [["Key", "Meaning"], ["a | b", "either"], ["<img src=x>", "picture"]]
    markdown = read_one(save(one_page(lambda page: grid(page, rows)))).markdown
    assert "| a \\| b | either |" in markdown
    assert "<img" not in markdown


def test_blank_page_says_so(save: Make) -> None:
    reading = read_one(save(one_page()))
    assert (reading.markdown, reading.reasons) == ("", ("blank_page",))


def with_picture(page: Any, box: tuple[float, float, float, float]) -> None:
    pixmap = pymupdf.Pixmap(pymupdf.csRGB, (0, 0, 40, 40))
    pixmap.clear_with(120)
    page.insert_image(box, pixmap=pixmap, keep_proportion=False)


def test_page_is_a_scan_when_a_picture_covers_it_and_there_is_no_text(save: Make) -> None:
    reading = read_one(save(one_page(lambda page: with_picture(page, tuple(page.rect)))))
    assert reading.page_class is PageClass.SCANNED
    assert "no_text_layer" in reading.reasons
    assert reading.signals.image_coverage > 0.95


@pytest.mark.parametrize(
    ("box", "expected"),
    [((72, 30, 132, 70), PageClass.TEXT_ONLY), ((72, 300, 500, 650), PageClass.HAS_GRAPHICS)],
    ids=["logo", "figure"],
)
def test_picture_counts_when_it_is_large(box: tuple[float, ...], expected: PageClass, save: Make) -> None:
    def draw(page: Any) -> None:
        prose(page, 72, 90, 450, paragraphs=2)
        with_picture(page, box)  # type: ignore[arg-type]

    assert read_one(save(one_page(draw))).page_class is expected


def test_page_has_graphics_when_it_has_a_chart(save: Make) -> None:
    def draw(page: Any) -> None:
        prose(page, 72, 60, 450)
        for i in range(14):
            page.draw_rect((80 + 30 * i, 600 - 15 * i, 100 + 30 * i, 700), fill=(0.2, 0.4, 0.8))

    reading = read_one(save(one_page(draw)))
    assert reading.page_class is PageClass.HAS_GRAPHICS
    assert "chart" in reading.reasons


def test_page_is_text_only_when_its_table_is_ruled_and_shaded(save: Make) -> None:
    def draw(page: Any) -> None:
        page.draw_rect((72, 150, 552, 174), fill=(0.9, 0.9, 0.9), color=None)
        grid(page, FIGURES)

    assert read_one(save(one_page(draw))).page_class is PageClass.TEXT_ONLY


def test_page_is_garbled_when_its_letters_are_private_use(tmp_path: Path) -> None:
    path = tmp_path / "garbled.txt"
    path.write_text("\ue001\ue002\ue003 " * 40, encoding="utf-8")
    assert read_one(str(path)).signals.garbled_ratio == 1.0


def test_quick_text_is_plain_when_asked(save: Make) -> None:
    readings = read_text(save(text_pdf(2)), None, [2, 1])
    assert [r.number for r in readings] == [2, 1]
    assert {r.reader for r in readings} == {"mupdf"}
    assert "Chapter 2" in readings[0].text
    assert "#" not in readings[0].markdown


def test_nothing_is_lost_when_the_layout_reader_can_not_read(
    save: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quire.reading.pdf.layout_blocks.MAX_CUT_BYTES", 1)
    reading = read_one(save(form_pdf()))
    assert reading.reader == "mupdf"
    assert "# Registration" in reading.markdown
    assert all(text in reading.markdown for text in ("Name", "Jane Doe", "Place", "North Pier"))
    assert "the tender in the spring" in " ".join(reading.markdown.split())


def test_letters_are_all_there_when_the_page_is_crowded(save: Make) -> None:
    rng = random.Random(3)

    def draw(page: Any) -> None:
        for i in range(120):
            write(
                page,
                rng.uniform(20, 480),
                rng.uniform(30, 800),
                f"word{i} x{rng.randint(1, 999)}",
                size=rng.choice((6, 8, 12, 18)),
            )

    reading = read_one(save(one_page(draw)))
    assert all(f"word{i}" in compact(reading.markdown) for i in range(120))


@pytest.mark.parametrize("number", [0, 5])
def test_page_error_when_there_is_no_such_page(number: int, save: Make) -> None:
    with pytest.raises(PageError):
        read_pages(save(text_pdf(4)), None, [1, number])


def test_only_our_errors_leave_when_bytes_are_flipped(save: Make, tmp_path: Path) -> None:
    whole = bytearray(Path(save(running_pdf(3))).read_bytes())
    rng = random.Random(11)
    for round_ in range(25):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 60)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path = tmp_path / f"{round_}.pdf"
        path.write_bytes(damaged)
        try:
            readings = read_pages(str(path), None, [1, 2, 3])
        except QuireError:
            continue
        assert all(r.markdown or r.reasons for r in readings)


def test_text_file_has_a_page_for_each_form_feed(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("first page\r\nwith two lines\fsecond page\f", encoding="utf-8")
    readings = read_pages(str(path), None, [1, 2])
    assert [r.text for r in readings] == ["first page\nwith two lines", "second page"]
    assert {r.reader for r in readings} == {"text"}


def test_long_text_is_cut_at_paragraphs_and_complete(tmp_path: Path) -> None:
    paragraphs = [f"Paragraph {i}. {PROSE}" for i in range(900)]
    path = tmp_path / "long.txt"
    path.write_text("\n\n".join(paragraphs), encoding="utf-8")
    readings = read_pages(str(path), None, [1, 2, 3])
    assert all(len(r.text) <= 60_000 for r in readings)
    assert readings[1].text.startswith("Paragraph ")
    read = [r for n in range(1, 10) for r in _maybe(str(path), n)]
    assert sum(r.text.count("Paragraph ") for r in read) == 900


def _maybe(path: str, number: int) -> list[Any]:
    try:
        return read_pages(path, None, [number])
    except PageError:
        return []


def test_hyphen_stays_at_the_end_of_a_line_when_the_page_writes_the_word_with_it(save: Make) -> None:
    document = pymupdf.open()
    page: Any = document.new_page()
    texts = (
        "All the members of the society met in the hall and heard the report on the long-",
        "term lease. A long-term lease of the whole quay is better than three short and com-",
        "plete ones, they said.",
    )
    for at, text in enumerate(texts):
        page.insert_text((72, 100 + 13 * at), text, fontsize=10)
    reading = read_pages(save(document), None, [1])[0]
    assert "on the long-term lease. A long-term lease" in reading.markdown
    assert "short and complete ones" in reading.markdown
    assert reading.words_missing == 0
