"""Letters that no recognised word covers are counted, and what is no letter is not."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageOps

from quire.reading.ocr.ink_lines import grain
from quire.reading.ocr.ocr_words import Box
from quire.reading.ocr.unread_ink import PageShapes

from . import scans, script_pages

LINES = [f"Line {number} of the minutes, as it was read out to the members" for number in range(12)]
SHEET = scans.written(LINES)
STEP = 12 * 2.6 * 200 / 72


def boxes_of(rows: range) -> list[Box]:
    """The boxes of some lines of the sheet, from edge to edge."""
    first = scans.MARGIN_PT * 200 / 72
    return [
        (0, round(first + row * STEP - 40), SHEET.picture.width, round(first + row * STEP + 16))
        for row in rows
    ]


def unread_share(picture: Image.Image, words: list[Box], noise: float) -> float:
    return PageShapes.of(picture, noise).unread_share(words)


def test_no_letters_are_unread_when_words_cover_all_lines() -> None:
    assert unread_share(SHEET.picture, boxes_of(range(12)), 0.0) == 0.0


@pytest.mark.parametrize("spoil", [scans.as_is, scans.noisy, scans.blurred])
def test_letters_of_a_line_are_unread_when_no_word_covers_them(spoil: scans.Spoiler) -> None:
    picture = spoil(SHEET.picture, 3)
    share = unread_share(picture, boxes_of(range(9)), grain(np.asarray(picture)))
    assert 0.15 < share < 0.35


def test_light_letters_are_unread_when_they_are_on_dark_ground() -> None:
    picture = SHEET.picture.copy()
    top = round(scans.MARGIN_PT * 200 / 72 + 5 * STEP - 60)
    banner = (0, top, picture.width, top + 90)
    picture.paste(ImageOps.invert(picture.crop(banner)), banner)
    covered = [box for place, box in enumerate(boxes_of(range(12))) if place != 5]
    assert unread_share(picture, covered, 0.0) > 0.05


def test_rules_and_pictures_are_not_letters_when_they_are_outside_of_words() -> None:
    picture = SHEET.picture.copy()
    pen = ImageDraw.Draw(picture)
    for row in range(12):
        y = round(scans.MARGIN_PT * 200 / 72 + row * STEP + 22)
        pen.line((100, y, 1500, y), fill=0, width=3)
    shades = np.random.default_rng(1).integers(20, 230, (9, 20), dtype=np.uint8)
    tall = Image.new("L", (picture.width, picture.height + 500), 255)
    tall.paste(picture, (0, 0))
    tall.paste(
        Image.fromarray(shades).resize((1200, 400), Image.Resampling.BICUBIC), (200, picture.height + 50)
    )
    assert unread_share(tall, boxes_of(range(12)), 0.0) < 0.01


def test_texture_of_a_picture_is_not_letters() -> None:
    picture = Image.new("L", (SHEET.picture.width, SHEET.picture.height + 700), 255)
    picture.paste(SHEET.picture, (0, 0))
    shades = np.random.default_rng(3).normal(128, 90, (500, 700)).clip(0, 255).astype(np.uint8)
    picture.paste(Image.fromarray(shades), (200, SHEET.picture.height + 100))
    assert unread_share(picture, boxes_of(range(12)), 0.0) < 0.03
    assert unread_share(picture, boxes_of(range(9)), 0.0) > 0.15, "lost lines beside it are seen"


def test_bars_of_a_chart_are_not_letters() -> None:
    picture = Image.new("L", (SHEET.picture.width, SHEET.picture.height + 800), 255)
    picture.paste(SHEET.picture, (0, 0))
    for bar in range(8):
        top = SHEET.picture.height + 500 - 50 * bar
        picture.paste(40, (100 + 60 * bar, top, 130 + 60 * bar, SHEET.picture.height + 700))
    assert unread_share(picture, boxes_of(range(12)), 0.0) < 0.02


def test_most_is_unread_when_a_page_has_rows_of_specks_instead_of_letters() -> None:
    soft = scans.sheet(4, dpi=200, size=9).picture.filter(ImageFilter.GaussianBlur(1.2))
    faint = soft.point([0 if tone < 90 else 255 for tone in range(256)])
    title = (0, 0, faint.width, round(90 * 200 / 72))
    assert unread_share(faint, [title], 0.0) >= 0.5


def test_dust_is_no_faint_text() -> None:
    dice = np.random.default_rng(2)
    page = np.full((2339, 1654), 255, np.uint8)
    for y, x in zip(dice.integers(0, 2330, 1500), dice.integers(0, 1640, 1500), strict=True):
        page[y : y + 5, x : x + 5] = 0
    picture = Image.fromarray(page)
    picture.paste(SHEET.picture, (0, 0))
    assert unread_share(picture, boxes_of(range(12)), 0.0) < 0.5


def test_nothing_is_unread_when_a_page_is_empty() -> None:
    assert unread_share(Image.new("L", (800, 1000), 255), [(0, 0, 10, 10)], 0.0) == 0.0


def test_table_around_a_photographed_page_is_not_letters() -> None:
    picture = script_pages.photographed(SHEET.picture, 5)
    whole = (0, 0, picture.width, picture.height)
    assert unread_share(picture, [whole], grain(np.asarray(picture))) == 0.0


def test_shapes_are_counted_anew_when_other_words_are_asked_for() -> None:
    shapes = PageShapes.of(SHEET.picture, 0.0)
    few, all_lines = boxes_of(range(9)), boxes_of(range(12))
    first = shapes.unread_share(few)
    assert shapes.unread_share(all_lines) == 0.0
    assert shapes.unread_share(few) == first > 0.15
