"""Marks of list items that OCR has left out are found by their ink."""

from __future__ import annotations

from PIL import Image, ImageDraw, ImageFont

from quire.reading.ocr.lost_marks import with_lost_marks
from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage
from quire.reading.ocr.unread_ink import PageShapes

WIDTH_PX, HEIGHT_PX, TYPE_PX, ROW_PX = 1240, 1700, 26, 40
TEXT_LEFT_PX, MARK_LEFT_PX = 150, 124


class Sheet:
    """A drawn page, and what a reader sees of it that gives no marks."""

    def __init__(self) -> None:
        self.picture = Image.new("L", (WIDTH_PX, HEIGHT_PX), 255)
        self._draw = ImageDraw.Draw(self.picture)
        self._font = ImageFont.load_default(TYPE_PX)
        self._lines: list[OcrLine] = []

    def write(
        self, text: str, *, mark_px: int = 0, at_px: int = MARK_LEFT_PX, is_loose: bool = False
    ) -> None:
        """A line, with a filled circle before it; the box of a loose line begins at the circle."""
        top = 200 + ROW_PX * len(self._lines)
        self._draw.text((TEXT_LEFT_PX, top), text, font=self._font, fill=0)
        if mark_px:
            y = top + 16 - mark_px // 2
            self._draw.ellipse((at_px, y, at_px + mark_px, y + mark_px), fill=0)
        left, right = TEXT_LEFT_PX, TEXT_LEFT_PX + round(self._font.getlength(text))
        words: list[OcrWord] = []
        at = left = at_px if is_loose else left
        for word in text.split():
            end = at + round((right - left) * len(word) / len(text))
            words.append(OcrWord(at, top, min(end, right), top + 32, word, 0.97))
            at = end + round((right - left) / len(text))
        self._lines.append(OcrLine(words, is_loose=is_loose))

    def texts(self) -> list[str]:
        return [line.text for line in self.read()]

    def read(self) -> list[OcrLine]:
        seen = RecognisedPage(WIDTH_PX, HEIGHT_PX, [self._lines])
        return list(with_lost_marks(seen, PageShapes.of(self.picture, 0.0)).lines())


ITEMS = ("dry gloves and a whistle", "chalk, pencil and a clean board", "the log of the previous month")


def test_items_have_bullets_when_the_reader_has_left_them_out() -> None:
    sheet = Sheet()
    sheet.write("Take these things with you on the round:")
    for item in ITEMS:
        sheet.write(item, mark_px=8)
    assert sheet.texts() == ["Take these things with you on the round:", *(f"• {item}" for item in ITEMS)]


def test_words_are_moved_to_their_ink_when_the_box_of_a_line_has_the_mark_in_it() -> None:
    sheet = Sheet()
    for item in ITEMS:
        sheet.write(item, mark_px=8, is_loose=True)
    for line in sheet.read():
        assert line.words[0].left == MARK_LEFT_PX
        assert abs(line.words[1].left - TEXT_LEFT_PX) <= 4


def test_one_speck_is_no_mark_when_no_other_line_has_one() -> None:
    sheet = Sheet()
    sheet.write(ITEMS[0], mark_px=8)
    for item in ITEMS[1:]:
        sheet.write(item)
    assert sheet.texts() == list(ITEMS)


def test_specks_are_no_marks_when_they_are_not_at_one_place() -> None:
    sheet = Sheet()
    for shift, item in zip((0, 11, -14), ITEMS, strict=True):
        sheet.write(item, mark_px=6, at_px=MARK_LEFT_PX + shift)
    assert sheet.texts() == list(ITEMS)


def test_letters_are_no_marks_when_lines_begin_with_a_word_of_one() -> None:
    sheet = Sheet()
    for text in ("a boat left the quay", "o rio passou depressa", "a buoy was lost", "I saw the tide turn"):
        sheet.write(text)
    assert sheet.texts() == [
        "a boat left the quay",
        "o rio passou depressa",
        "a buoy was lost",
        "I saw the tide turn",
    ]
