"""Lines found one by one, in reading order."""

from __future__ import annotations

from quire.reading.ocr.ocr_words import OcrLine, OcrWord, in_reading_order


def line(left: int, top: int, right: int, text: str, height: int = 20) -> OcrLine:
    return OcrLine([OcrWord(left, top, right, top + height, text)])


def texts(lines: list[OcrLine]) -> list[list[str]]:
    return [[one.text for one in paragraph] for paragraph in in_reading_order(lines)]


def column(left: int, right: int, top: int, names: str) -> list[OcrLine]:
    return [line(left, top + 30 * row, right, name) for row, name in enumerate(names.split())]


def test_nothing_is_in_order_when_there_is_nothing() -> None:
    assert in_reading_order([]) == []


def test_lines_go_down_the_page_when_there_is_one_column() -> None:
    lines = column(50, 900, 100, "a b c d e f g")
    assert texts(lines[::-1]) == [["a", "b", "c", "d", "e", "f", "g"]]


def test_left_column_goes_first_when_there_are_two() -> None:
    lines = [
        *column(50, 450, 200, "a b c d"),
        *column(500, 900, 206, "e f g h"),
        line(50, 100, 900, "title"),
        line(50, 400, 900, "foot"),
    ]
    assert texts(lines) == [["title"], ["a", "b", "c", "d"], ["e", "f", "g", "h"], ["foot"]]


def test_columns_go_one_after_the_other_when_there_are_three() -> None:
    lines = [
        *column(50, 300, 200, "a b c"),
        *column(350, 600, 204, "d e f"),
        *column(650, 900, 198, "g h i"),
    ]
    assert texts(lines) == [["a", "b", "c"], ["d", "e", "f"], ["g", "h", "i"]]


def test_rows_stay_together_when_cells_stand_apart() -> None:
    names = [("Grain", "Tons"), ("Wheat", "120"), ("Oats", "40"), ("Rye", "7")]
    lines = []
    for row, (name, tons) in enumerate(names):
        lines.append(line(50, 100 + 30 * row, 50 + 12 * len(name), name))
        lines.append(line(400, 102 + 30 * row, 400 + 30 * len(tons), tons))
    assert texts(lines) == [["Grain Tons", "Wheat 120", "Oats 40", "Rye 7"]]


def test_paragraphs_part_when_the_gap_or_the_type_is_larger() -> None:
    lines = [
        line(50, 50, 500, "head", height=40),
        *column(50, 900, 110, "a b c"),
        *column(50, 900, 240, "d e f"),
    ]
    assert texts(lines) == [["head"], ["a", "b", "c"], ["d", "e", "f"]]
