"""The size of a line's type is that of its ink, whatever the boxes of its words are."""

from __future__ import annotations

import pytest
from PIL import Image, ImageDraw, ImageFont

from quire.reading.ocr.line_types import types_of, with_measured_types
from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage

X_HEIGHT_PX, ASCENT_PX, DESCENT_PX = 14, 20, 6


def _line(text: str, top: int, *, tall: bool, deep: bool = False) -> OcrLine:
    bottom = top + ASCENT_PX
    upper = top if tall else bottom - X_HEIGHT_PX
    return OcrLine([OcrWord(100, upper, 300, bottom + (DESCENT_PX if deep else 0), text, 0.95)])


@pytest.mark.parametrize(
    ("small", "tall"), [("сосновом", "большой"), ("осень", "Осень"), ("σωμα", "δενα"), ("çon", "élan")]
)
def test_lines_have_one_size_when_their_letters_are_of_different_height(small: str, tall: str) -> None:
    lines = [
        _line(small, 100, tall=False, deep=small in ("çon", "σωμα")),
        _line(tall, 140, tall=True),
    ]
    one, other = types_of(lines)
    assert one.size == other.size


class Page:
    """A page that is drawn, and its lines as a reader sees them."""

    def __init__(self) -> None:
        self.picture = Image.new("L", (1240, 900), 255)
        self._draw = ImageDraw.Draw(self.picture)
        self.lines: list[OcrLine] = []

    def write(self, text: str, top: int, *, type_px: int = 30, taller_px: int = 0) -> None:
        """A line; the boxes of its words are taller than its letters by `taller_px`."""
        font = ImageFont.load_default(type_px)
        self._draw.text((100, top), text, font=font, fill=0)
        words = []
        for place, word in enumerate(text.split()):
            left = 100 + font.getlength(" ".join(text.split()[:place]) + " ") * bool(place)
            _, upper, _, lower = font.getbbox(word)
            words.append(
                OcrWord(
                    *(round(left), round(top + upper), round(left + font.getlength(word))),
                    *(round(top + lower) + taller_px, word, 0.96),
                )
            )
        self.lines.append(OcrLine(words))

    def sizes(self) -> list[float]:
        seen = RecognisedPage(1240, 900, [self.lines])
        return [one.size for one in types_of(list(with_measured_types(seen, self.picture).lines()))]


def test_a_line_has_the_size_of_its_paragraph_when_its_boxes_are_too_tall() -> None:
    page = Page()
    for row in range(5):
        page.write("the harbour office paid for all the repairs", 100 + 50 * row)
    page.write("because nobody understood", 350, taller_px=14)
    assert len(set(page.sizes())) == 1


def test_a_heading_keeps_its_size_when_it_is_measured() -> None:
    page = Page()
    page.write("The bridge over the valley", 40, type_px=48)
    for row in range(5):
        page.write("the harbour office paid for all the repairs", 150 + 50 * row)
    heading, *body = page.sizes()
    assert len(set(body)) == 1
    assert heading > 1.4 * body[0]
