"""The ink of lines tells their type and their columns where the boxes around them are loose and the page is grainy."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pymupdf
import pytest
from PIL import Image, ImageDraw, ImageFont

from quire.reading.ocr.line_ink import crossing, gutters, line_inks
from quire.reading.ocr.ocr_words import Box
from tests.reading.ocr import scans

SIZE = 30
LEFT = (
    "The committee met in the",
    "large hall and heard the",
    "report of its secretary",
    "on the new building and",
    "on what it would cost in",
)
RIGHT = (
    "Members asked about the",
    "time that it would take",
    "before the first stones",
    "could be laid, and who",
    "would pay for the roof",
)


class Sheet:
    """A grainy page with lines, each with a loose box that is higher or lower than its type."""

    def __init__(self) -> None:
        self.picture = Image.new("L", (1000, 700), 255)
        self._pen = ImageDraw.Draw(self.picture)
        self._font = ImageFont.truetype(io.BytesIO(pymupdf.Font("helv").buffer), SIZE)
        self.ascent = self._font.getmetrics()[0]
        self.boxes: list[Box] = []
        self.texts: list[str] = []

    def line(self, x: int, y: int, text: str, *, taller: int = 0) -> Box:
        self._pen.text((x, y), text, font=self._font, fill=0)
        box = (x - 9, y - 4, round(x + self._font.getlength(text)) + 10, y + SIZE + 6 + taller)
        self.boxes.append(box)
        self.texts.append(text)
        return box

    def rule(self, y: int) -> None:
        self._pen.line((0, y, 1000, y), fill=0, width=3)

    def darkness(self) -> Any:
        return 255 - np.asarray(scans.noisy(self.picture, 3))


def test_type_has_one_size_when_boxes_and_letters_differ() -> None:
    sheet = Sheet()
    for place, text in enumerate(
        ("In these", "chapters we are going", "share", "NEVER AGAIN", "but the SIFT")
    ):
        sheet.line(60, 40 + 60 * place, text, taller=7 * (place % 2))
    found = line_inks(sheet.darkness(), sheet.boxes, sheet.texts)
    sizes = [ink.size for ink in found if ink]
    assert len(sizes) == 5
    assert max(sizes) < 1.13 * min(sizes)
    for ink, (left, top, right, _) in zip(found, sheet.boxes, strict=True):
        assert ink is not None
        assert abs(ink.left - left - 11) <= 5
        assert abs(right - ink.right - 11) <= 5
        assert abs(ink.baseline - top - 4 - sheet.ascent) <= 2


def test_a_rule_in_the_box_is_no_part_of_the_line() -> None:
    sheet = Sheet()
    sheet.line(60, 100, "Total of samples", taller=12)
    plain = line_inks(sheet.darkness(), sheet.boxes, sheet.texts)[0]
    sheet.rule(100 + SIZE + 15)
    ruled = line_inks(sheet.darkness(), sheet.boxes, sheet.texts)[0]
    assert plain is not None
    assert ruled is not None
    assert ruled.size == pytest.approx(plain.size, rel=0.05)


def columns(sheet: Sheet) -> None:
    for place, (left, right) in enumerate(zip(LEFT, RIGHT, strict=True)):
        sheet.line(60, 100 + 40 * place, left)
        sheet.line(440, 100 + 40 * place, right)


def tight(sheet: Sheet) -> list[Box]:
    inks = line_inks(sheet.darkness(), sheet.boxes, sheet.texts)
    return [(ink.left, box[1], ink.right, box[3]) for ink, box in zip(inks, sheet.boxes, strict=True) if ink]


def test_a_line_is_cut_when_its_box_goes_over_the_gutter_of_two_columns() -> None:
    sheet = Sheet()
    columns(sheet)
    known = gutters(tight(sheet), 1000)
    left, right = sheet.line(60, 300, "and the chair said so"), sheet.line(440, 300, "in the spring")
    cut = crossing(sheet.darkness(), (left[0], left[1], right[2], right[3]), known)
    assert len(known) == 1
    assert cut is not None
    assert left[2] - 15 <= cut <= 440


def test_a_line_is_whole_when_it_has_ink_where_the_columns_have_their_gutter() -> None:
    sheet = Sheet()
    columns(sheet)
    known = gutters(tight(sheet), 1000)
    box = sheet.line(60, 300, "Incomprehensibilities notwithstanding, everybody agreed")
    assert crossing(sheet.darkness(), box, known) is None
    far = sheet.line(60, 600, "and the chair said so")
    assert crossing(sheet.darkness(), (far[0], far[1], 900, far[3]), known) is None


def test_there_is_no_gutter_when_lines_begin_at_many_places() -> None:
    boxes = [(60 + 37 * place, 40 * place, 400 + 37 * place, 40 * place + 30) for place in range(14)]
    assert gutters(boxes, 1000) == []


def test_nothing_is_measured_when_a_box_is_empty() -> None:
    blank = np.zeros((100, 100), np.uint8)
    assert line_inks(blank, [(0, 0, 50, 30), (90, 90, 90, 95), (-5, -5, 2, 2)], ["a", "b", ""]) == [None] * 3
