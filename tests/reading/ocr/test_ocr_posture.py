"""How a page lies: turned, leaning, grainy, in bad light."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from quire.reading.ocr.ocr_words import Box
from quire.reading.ocr.page_posture import (
    Posture,
    Turn,
    dense_strip,
    evened,
    posture_of,
    upright,
)
from quire.reading.ocr.unread_ink import PageShapes
from tests.reading.ocr import scans, script_pages

FACES = [("tiro", 11, 1), ("helv", 9, 2)]


@pytest.fixture(scope="module", params=FACES, ids=lambda face: f"{face[0]}{face[1]}x{face[2]}")
def sheet(request: pytest.FixtureRequest) -> scans.Sheet:
    font, size, columns = request.param
    return scans.sheet(4, font=font, size=size, dpi=150, columns=columns)


@pytest.mark.parametrize("spoil", [scans.as_is, scans.noisy])
@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_page_is_upright_again_when_it_was_turned(
    sheet: scans.Sheet, quarters: int, spoil: scans.Spoiler
) -> None:
    turned = Image.fromarray(np.rot90(np.asarray(spoil(sheet.picture, 1)), quarters))
    posture = posture_of(turned)
    assert posture.certain
    assert (posture.turns + quarters) % 4 == 0
    assert posture.skew == 0.0


@pytest.mark.parametrize("angle", [-3.0, -1.2, 0.6, 2.4])
def test_page_is_straight_again_when_it_leaned(sheet: scans.Sheet, angle: float) -> None:
    leaning = sheet.picture.rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    posture = posture_of(leaning)
    assert posture.turns == 0
    assert posture.skew == pytest.approx(-angle, abs=0.15)
    straight, _ = upright(leaning, posture)
    assert posture_of(straight).skew == 0.0


def test_grain_is_measured_when_there_is_some(sheet: scans.Sheet) -> None:
    assert posture_of(sheet.picture).noise < 1
    assert posture_of(scans.noisy(sheet.picture, 1)).noise > 13


@pytest.mark.parametrize("shade", [255, 128, 0])
def test_page_stays_as_it_lies_when_nothing_is_on_it(shade: int) -> None:
    empty = Image.new("L", (800, 1100), shade)
    posture = posture_of(empty)
    assert (posture.turns, posture.skew, posture.ink) == (0, 0.0, False)
    assert upright(empty, posture)[0] is empty
    assert evened(empty).getextrema() == (shade, shade)


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (2, 900), (900, 2), (40, 40)])
def test_tiny_pictures_pass_when_they_are_looked_at(size: tuple[int, int]) -> None:
    dots = np.random.default_rng(1).integers(0, 256, (size[1], size[0]), dtype=np.uint8)
    picture = Image.fromarray(dots)
    straight, _ = upright(picture, posture_of(picture))
    assert evened(straight).size == straight.size
    assert dense_strip(straight).width == straight.width
    shapes = PageShapes.of(straight, 0.0)
    assert shapes.unread_share([]) == 0.0
    assert 0.0 <= shapes.unread_share([(0, 0, 1, 1)]) <= 1.0


def test_paper_is_white_and_ink_black_when_the_light_was_bad(sheet: scans.Sheet) -> None:
    pale = scans.pale(sheet.picture, 1)
    assert np.percentile(pale, 50) < 200
    better = np.asarray(evened(pale))
    assert np.percentile(better, 50) > 235
    assert np.percentile(better, 1) < 70
    assert evened(sheet.picture) is sheet.picture


@pytest.mark.parametrize(("turns", "skew"), [(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0), (0, 2.0), (1, -3.0)])
def test_boxes_lead_back_when_the_page_was_turned(turns: int, skew: float) -> None:
    picture = Image.new("L", (600, 900), 255)
    spot: Box = (100, 200, 160, 230)
    picture.paste(0, spot)
    straight, turn = upright(picture, Posture(turns, skew))
    dark = np.argwhere(np.asarray(straight) < 128)
    (top, left), (bottom, right) = dark.min(axis=0), dark.max(axis=0)
    found = turn.back((int(left), int(top), int(right) + 1, int(bottom) + 1))
    # The box around a leaning box is larger; its middle is where it was.
    assert (found[0] + found[2]) / 2 == pytest.approx(130, abs=2)
    assert (found[1] + found[3]) / 2 == pytest.approx(215, abs=2)


def test_boxes_stay_inside_the_picture_when_they_lead_out_of_it() -> None:
    assert Turn(1, 0.0, (100, 50), (50, 100)).back((-500, -500, 900, 900)) == (0, 0, 100, 50)


@pytest.mark.parametrize("turned", [False, True])
def test_lines_tell_the_way_up_when_a_picture_has_most_of_the_ink(turned: bool) -> None:
    sheet = scans.sheet(6, filled=0.25)
    page = sheet.picture.copy()
    page.paste(Image.effect_noise((900, 900), 90), (300, 1200))
    posture = posture_of(scans.upside_down(page, 1) if turned else page)
    assert posture.turns == (2 if turned else 0)
    strip = np.asarray(dense_strip(page))
    assert (strip > 250).mean() > 0.6, "lines of text are mostly paper"


def test_picture_of_one_line_is_not_turned_when_only_its_few_letters_ask_for_it() -> None:
    picture = Image.new("L", (900, 220), 255)
    ImageDraw.Draw(picture).text((40, 70), "Harbour tide tables", fill=0, font=ImageFont.load_default(64))
    assert posture_of(picture).turns == 0


def test_the_strip_has_text_when_the_page_lies_on_a_dark_table() -> None:
    page = script_pages.photographed(scans.sheet(5, filled=0.3).picture, 0)
    straight, _ = upright(page, posture_of(page))
    strip = np.asarray(dense_strip(evened(straight)))
    paper = strip[:, strip.shape[1] // 5 : -strip.shape[1] // 5]
    assert 0.02 < (paper < 128).mean() < 0.4
    assert (paper < 128).mean(axis=1).max() < 0.6
