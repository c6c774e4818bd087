"""Rows of specks between the words of a page are counted as lost letters; dust, dots, rules and pictures are not."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageOps

from quire.domain.page import Grade
from quire.reading.grading.page_grade import CUT_OFF, INK_LEFT_OUT, judge_ocr
from quire.reading.ocr.faint_rows import faint_share
from quire.reading.ocr.ocr_options import QUICK, OcrOptions
from quire.reading.ocr.ocr_stages import recognise
from quire.reading.ocr.ocr_words import Box
from tests.reading.ocr import scans

TITLE: list[Box] = [(180, 180, 700, 216)]
LETTERS = 24
LINES = [f"Line {number} of the minutes, as it was read out to the members" for number in range(12)]


def empty() -> Image.Image:
    """A page that has nothing but the place of a title."""
    return Image.new("L", (1654, 2339), 255)


def faded(picture: Image.Image, darkest: int = 100) -> Image.Image:
    """What a copy of a copy leaves of small type, if it shows only what is darker than this: specks."""
    return picture.filter(ImageFilter.GaussianBlur(1.2)).point(
        [0 if tone < darkest else 255 for tone in range(256)]
    )


def dusty(picture: Image.Image, specks: int) -> Image.Image:
    """The same with dust of two pixels at any place."""
    pixels = np.array(picture)
    dice = np.random.default_rng(4)
    for y, x in zip(dice.integers(0, 2330, specks), dice.integers(0, 1640, specks), strict=True):
        pixels[y : y + 2, x] = 0
    return Image.fromarray(pixels)


@pytest.mark.parametrize("darkest", [90, 100, 120])
def test_letters_are_lost_when_only_specks_of_their_lines_are_left(darkest: int) -> None:
    small = scans.sheet(4, dpi=200, size=9, filled=0.5).picture.crop((0, 260, 1654, 2000))
    page = empty()
    page.paste(faded(small, darkest), (0, 400))
    assert faint_share(page, 0.0, TITLE, LETTERS) > 0.5
    assert faint_share(dusty(page, 400), 0.0, TITLE, LETTERS) > 0.5
    assert 0.03 < faint_share(page, 0.0, TITLE, 1000) < 0.5


def test_letters_are_lost_when_only_specks_are_left_of_light_text_in_a_dark_box() -> None:
    small = faded(scans.sheet(4, dpi=200, size=9, filled=0.5).picture.crop((180, 300, 700, 1000)))
    page = empty()
    lines: list[Box] = [(180, top, 900, top + 24) for top in range(40, 2300, 40)]
    page.paste(ImageOps.invert(ImageOps.expand(small, 40, 255)), (1000, 300))
    assert faint_share(page, 0.0, lines, 1500) > 0.03
    read: list[Box] = [(1050, top, 1500, top + 24) for top in range(320, 1100, 40)]
    assert faint_share(page, 0.0, [*lines, *read], 1500) == 0.0


def test_no_letters_are_lost_when_a_dark_picture_has_light_dots() -> None:
    page = empty()
    dice = np.random.default_rng(6)
    night = np.where(dice.random((350, 350)) < 0.02, 255, 0).astype(np.uint8)
    page.paste(Image.fromarray(night).resize((700, 700), Image.Resampling.NEAREST), (400, 800))
    assert faint_share(page, 0.0, TITLE, LETTERS) == 0.0


def test_no_letters_are_lost_when_specks_are_dust() -> None:
    assert faint_share(dusty(empty(), 1500), 0.0, TITLE, LETTERS) == 0.0


@pytest.mark.parametrize("kept", [1.0, 0.75])
def test_no_letters_are_lost_when_a_form_has_dotted_lines(kept: float) -> None:
    page = empty()
    pen, dice = ImageDraw.Draw(page), np.random.default_rng(5)
    for row in range(20):
        for x in range(200, 1400, 12):
            if dice.random() < kept:
                pen.ellipse((x, 500 + 60 * row, x + 3, 503 + 60 * row), fill=0)
    assert faint_share(page, 0.0, TITLE, LETTERS) == 0.0


def test_no_letters_are_lost_when_a_picture_is_made_of_dots() -> None:
    page = empty()
    shades = np.random.default_rng(3).random((150, 200)) < 0.3
    dots = Image.fromarray(np.where(shades, 0, 255).astype(np.uint8)).resize(
        (800, 600), Image.Resampling.NEAREST
    )
    page.paste(dots, (400, 800))
    assert faint_share(page, 0.0, TITLE, LETTERS) == 0.0


def test_nothing_is_said_of_grain_of_a_full_page_and_of_no_words() -> None:
    page = faded(scans.sheet(4, dpi=200, size=9).picture)
    lines: list[Box] = [(180, top, 1400, top + 24) for top in range(40, 2300, 40)]
    assert faint_share(page, 0.0, lines, 1500) == 0.0
    assert faint_share(page, 9.0, TITLE, LETTERS) == 0.0
    assert faint_share(page, 0.0, [], 0) == 0.0


def test_page_is_not_good_when_its_small_type_has_faded() -> None:
    clear, small = scans.written(LINES[:4]).picture, scans.sheet(4, dpi=200, size=9, filled=0.5).picture
    page = empty()
    page.paste(clear, (0, 0))
    page.paste(faded(small.crop((0, 260, 1654, 1200))), (0, clear.height))
    found = recognise(page, OcrOptions(mode=QUICK))
    text = "\n".join(line.text for line in found.seen.lines())
    judged = judge_ocr(text, found.evidence)
    assert "minutes" in text
    assert judged.grade in (Grade.FAIR, Grade.LOW)
    assert INK_LEFT_OUT in judged.reasons


@pytest.mark.parametrize(("margin", "is_cut"), [(5, True), (40, False)])
@pytest.mark.parametrize("turned", [False, True])
def test_lines_are_cut_off_when_the_edge_is_closer_than_a_letter(
    margin: int, is_cut: bool, turned: bool
) -> None:
    picture = scans.written(LINES).picture.convert("L")
    left = Image.eval(picture, lambda tone: 255 - tone).getbbox()
    assert left is not None
    cut = picture.crop((left[0] - margin, 0, picture.width, picture.height))
    came = cut.transpose(Image.Transpose.ROTATE_90) if turned else cut
    found = recognise(came, OcrOptions(mode=QUICK))
    judged = judge_ocr("\n".join(line.text for line in found.seen.lines()), found.evidence)
    assert (CUT_OFF in judged.reasons) is is_cut
