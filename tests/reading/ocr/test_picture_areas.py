"""Pictures of a scan are found without the quick reader."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from quire.domain.element import ElementKind
from quire.reading.ocr.ocr_stages import recognise
from quire.reading.ocr.page_ocr import OcrOptions
from quire.reading.ocr.picture_areas import picture_areas
from quire.reading.ocr.scan_elements import lay_out_scan
from tests.reading.ocr import scans

PHOTO = (200, 900, 900, 1300)


def _page() -> Image.Image:
    page = Image.new("L", (1240, 1754), 255)
    width, height = PHOTO[2] - PHOTO[0], PHOTO[3] - PHOTO[1]
    shades = np.random.default_rng(3).integers(20, 200, (8, 12), dtype=np.uint8)
    page.paste(Image.fromarray(shades).resize((width, height), Image.Resampling.BICUBIC), PHOTO[:2])
    return page


def test_a_photograph_is_found_below_the_words_of_a_page() -> None:
    page = _page()
    page.paste(scans.sheet(4, filled=0.3, dpi=150).picture.crop((0, 0, 1240, 500)), (0, 0))
    (found,) = picture_areas(page, [(60, 60, 1180, 480)])
    assert found == pytest.approx(PHOTO, abs=40)


def test_dark_ground_of_words_and_the_edge_of_a_page_are_no_pictures() -> None:
    page = Image.new("L", (1240, 1754), 255)
    brush = ImageDraw.Draw(page)
    brush.rectangle((100, 300, 1100, 400), fill=40)
    brush.rectangle((0, 0, 40, 1754), fill=30)
    assert picture_areas(page, [(90, 295, 1110, 405)]) == []
    assert picture_areas(Image.new("L", (9, 9), 0), []) == []


def test_a_grainy_page_has_its_figure_when_the_careful_reader_alone_reads_it() -> None:
    page = _page()
    page.paste(scans.sheet(4, filled=0.1, dpi=150).picture.crop((0, 0, 1240, 300)), (0, 0))
    found = recognise(scans.noisy(page, 4), OcrOptions(dpi=150))
    figures = [
        element.box
        for element in lay_out_scan(1, found.seen, found.rules, 1.0).elements
        if element.kind is ElementKind.FIGURE
    ]
    assert len(figures) == 1
    assert figures[0] == pytest.approx(PHOTO, abs=60)
