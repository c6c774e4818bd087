"""A shape that its file calls by a letter is the mark of an item at the beginning of a row, and nothing elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from quire.reading.pdf.layer_words import LayerWords
from quire.reading.pdf.symbol_marks import set_marks
from quire.reading.pdf.text_lines import layer_text


def line(x: float, y: float, *spans: tuple[str, str]) -> dict[str, Any]:
    """A line of MuPDF's dictionary, from texts with their fonts."""
    found, left = [], x
    for text, font in spans:
        box = (left, y - 8, left + 5 * len(text), y + 2)
        found.append({"text": text, "font": font, "size": 10.0, "bbox": box, "origin": (left, y)})
        left = box[2]
    return {"dir": (1.0, 0.0), "spans": found, "bbox": (x, y - 8, left, y + 2)}


def written(*lines: dict[str, Any], words: list[tuple[Any, ...]] | None = None) -> list[str]:
    content = {"blocks": [{"lines": list(lines)}]}
    set_marks(content, LayerWords(lambda: words or []))
    return layer_text(content).splitlines()


@pytest.mark.parametrize(
    ("mark", "font"),
    [
        *(("v", "XyvisionPiOne"), ("l", "Wingdings-Regular"), ("n", "ABCDEF+ZapfDingbats")),
        *(("ｲ", "BellCentennialStd"), ("\x02", "MSTT31c6fa00")),
    ],
)
def test_shape_is_a_bullet_when_it_begins_rows(mark: str, font: str) -> None:
    rows = [line(72, 100 + 14 * at, (mark, font), ("  some words", "Times")) for at in range(2)]
    assert written(*rows) == ["•  some words"] * 2


def test_shape_is_a_bullet_when_its_words_are_another_line_of_the_row() -> None:
    rows = [(line(72, y, ("\x02", "M")), line(100, y, ("Some words", "Times"))) for y in (100, 114)]
    assert written(*rows[0], *rows[1]) == ["•", "Some words"] * 2


def test_word_of_a_table_is_a_bullet_when_its_line_is_one() -> None:
    layer = LayerWords(lambda: [(72, 92, 77, 102, "v"), (87, 92, 130, 102, "some")])
    set_marks({"blocks": [{"lines": [line(72, 100, ("v", "Wingdings"), ("  some words", "Times"))]}]}, layer)
    assert [word[4] for word in layer.found()] == ["•", "some"]


@pytest.mark.parametrize(
    "row",
    [
        line(72, 100, ("v", "Times-Italic"), (" is the speed", "Times")),
        line(72, 100, ("v", "Wingdings"), ("alue", "Times")),
        line(72, 100, ("\x02", "M"), (" 2z", "Times")),
        line(72, 100, ("\x02", "CMEX10"), (" some words", "Times")),
        line(72, 100, ("\x02", "MSTT31c6fa00"), (" some words", "Times")),
        line(72, 100, ("Ｋ", "ZapfDingbatsITC"), (" 51", "Times")),
    ],
)
def test_letter_stays_when_it_is_no_mark(row: dict[str, Any]) -> None:
    before = "".join(span["text"] for span in row["spans"])
    assert written(row) == [before]


def test_shape_stays_when_text_is_close_before_it() -> None:
    rows = [(line(60, y, ("x1", "T")), line(72, y, ("\x02", "M"), (" some words", "T"))) for y in (100, 114)]
    assert written(*rows[0], *rows[1]) == ["x1", "\x02 some words"] * 2


def test_kana_stays_when_the_page_is_japanese() -> None:
    rows = [line(72, y, ("ｲ", "Mincho"), (" some words", "Mincho")) for y in (100, 114)]
    assert written(*rows, line(72, 200, ("これは本文です", "Mincho")))[0] == "ｲ some words"
