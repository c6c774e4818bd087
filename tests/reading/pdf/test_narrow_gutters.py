"""Two columns whose gutter is as narrow as a space are read one after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pymupdf

from quire.reading.pdf.narrow_gutters import column_edge, cut_at_gutter
from quire.reading.pdf.page_reader import read_pages

LEFT = [f"left line {number} goes on to the edge of" for number in range(14)]
RIGHT = [f"right line {number} is in the other one" for number in range(14)]
EDGE = 300.0


def drawn(page: pymupdf.Page) -> None:
    """Two columns; in every third row the left one reaches the right one, and MuPDF joins their lines."""
    for number, (left, right) in enumerate(zip(LEFT, RIGHT, strict=True)):
        y, gap = 100 + 14 * number, 14 if number % 3 else 3
        page.insert_text((EDGE - gap - pymupdf.get_text_length(left, fontsize=11), y), left, fontsize=11)
        page.insert_text((EDGE, y), right, fontsize=11)


def test_columns_are_read_one_after_the_other_when_the_gutter_is_as_narrow_as_a_space(tmp_path) -> None:
    with pymupdf.open() as document:
        page = document.new_page()
        drawn(page)
        joined = [line for line in page.get_text().split("\n") if "left" in line and "right" in line]
        document.save(tmp_path / "columns.pdf")
    assert len(joined) >= 2, "MuPDF must join lines, or the test shows nothing"
    found = read_pages(str(tmp_path / "columns.pdf"), None, [1])[0]
    words = found.markdown.split()
    assert words.index("right") > max(at for at, word in enumerate(words) if word == "left")
    assert found.words_missing == 0


def line(*texts: tuple[str, float, float]) -> dict:
    spans = [{"text": text, "size": 9.0, "bbox": (x0, 0.0, x1, 10.0)} for text, x0, x1 in texts]
    return {"dir": (1.0, 0.0), "bbox": (texts[0][1], 0.0, texts[-1][2], 10.0), "spans": spans}


def test_line_is_cut_before_the_whole_word_when_other_words_have_its_letters() -> None:
    edge = 246.0
    joined = [line(("fill it till llama a WIDE WIDER WIDEST", 50.0, 540.0)) for _ in range(2)]
    apart = [line((text, x0, x1)) for text, x0, x1 in (("left", 50.0, 240.0), ("right", edge, 540.0))]
    content = {"blocks": [{"lines": [*joined, *apart * 6]}]}
    cut_at_gutter(content, lambda: [(edge, 0.0, edge + 9, 10.0, "a")])
    texts = ["".join(span["text"] for span in one["spans"]) for one in content["blocks"][0]["lines"][:4]]
    assert texts == ["fill it till llama ", "a WIDE WIDER WIDEST"] * 2


def test_words_stay_apart_when_each_space_of_a_joined_line_is_a_span_of_its_own() -> None:
    edge = 246.0
    left = [("some", 50.0, 80.0), (" ", 80.0, 84.0), ("words", 84.0, 120.0), (" ", 120.0, 245.0)]
    right = [("right", edge, 300.0), (" ", 300.0, 304.0), ("words", 304.0, 540.0)]
    apart = [line((text, x0, x1)) for text, x0, x1 in (("left", 50.0, 240.0), ("right", edge, 540.0))]
    content = {"blocks": [{"lines": [*(line(*left, *right) for _ in range(2)), *apart * 6]}]}
    cut_at_gutter(content, list)
    texts = ["".join(span["text"] for span in one["spans"]) for one in content["blocks"][0]["lines"][:4]]
    assert texts == ["some words", "right words"] * 2


def titled(path: Path, above: Callable[[pymupdf.Page], object]) -> str:
    """The Markdown of the two columns with something as wide as the page above them."""
    with pymupdf.open() as document:
        page = document.new_page()
        drawn(page)
        above(page)
        document.save(path)
    return read_pages(str(path), None, [1])[0].markdown


def test_title_over_both_columns_is_not_cut_when_a_word_of_it_begins_at_the_gutter(tmp_path: Path) -> None:
    first, second = "Responsibility of companies and ", "the tobacco industry"

    def title(page: pymupdf.Page) -> None:
        start = EDGE - pymupdf.get_text_length(first, fontsize=16)
        page.insert_text((start, 60), first + second, fontsize=16)

    assert first + second in titled(tmp_path / "title.pdf", title)


def test_prose_as_wide_as_the_page_is_not_cut_when_few_of_its_lines_have_a_word_at_the_gutter(
    tmp_path: Path,
) -> None:
    ends = ["here and the words go on", "is one more line of it", "so it ends", "not here either at all"]

    def abstract(page: pymupdf.Page) -> None:
        for row, (end, shift) in enumerate(zip(ends, (0, 1, 9, 14), strict=True)):
            begun = f"row {row} of a summary as wide as both "
            start = EDGE + shift - pymupdf.get_text_length(begun, fontsize=11)
            page.insert_text((start, 30 + 14 * row), begun + end, fontsize=11)

    words = titled(tmp_path / "abstract.pdf", abstract).split()
    assert all(f"as wide as both {end}" in " ".join(words) for end in ends)
    assert words.index("right") > max(at for at, word in enumerate(words) if word == "left")


def test_line_is_not_cut_when_few_lines_begin_at_the_edge() -> None:
    rows = [line(("prose with a ", 50.0, 300.0), ("bold word", 300.0, 540.0)) for _ in range(20)]
    content = {"blocks": [{"lines": list(rows)}]}
    cut_at_gutter(content, list)
    assert content["blocks"][0]["lines"] == rows


def test_there_is_no_column_edge_when_lines_begin_at_the_left_margin() -> None:
    assert column_edge([(50.0, 10.0 * y, 540.0, 10.0 * y + 9) for y in range(40)]) is None
    assert column_edge([]) is None
