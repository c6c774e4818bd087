"""Pages as pictures, within bounds."""

from __future__ import annotations

import io
from pathlib import Path

import pymupdf
import pytest
from PIL import Image

from quire.errors import PageError
from quire.reading.pdf.page_render import RenderOptions, draw_scan, render_page, scale_for
from tests.reading.conftest import Make, text_pdf


def picture(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def test_page_is_a_jpeg_of_its_size_when_dpi_is_given(save: Make) -> None:
    shown = picture(render_page(save(text_pdf()), None, 1, RenderOptions(dpi=100)))
    assert (shown.format, shown.mode) == ("JPEG", "RGB")
    assert abs(shown.width - 595 * 100 / 72) <= 2
    assert shown.convert("L").getextrema()[0] < 80


def test_page_is_a_grey_png_when_asked(save: Make) -> None:
    shown = picture(render_page(save(text_pdf()), None, 1, RenderOptions(color="gray", format="png")))
    assert (shown.format, shown.mode) == ("PNG", "L")


def test_huge_page_is_scaled_down_before_it_is_drawn(save: Make) -> None:
    document = pymupdf.open()
    page = document.new_page(width=14400, height=14400)
    page.draw_rect((0, 0, 7200, 14400), fill=(0, 0, 0))
    shown = picture(render_page(save(document), None, 1, RenderOptions(dpi=300, max_px=1000)))
    assert max(shown.size) <= 1001
    assert shown.convert("L").getpixel((100, 500)) < 30


def test_area_is_bounded_when_the_sides_alone_would_allow_more() -> None:
    options = RenderOptions(dpi=300, max_px=10_000, max_pixels=1_000_000)
    zoom = scale_for(5000, 5000, options)
    assert (5000 * zoom) ** 2 <= 1_000_001


def test_rotated_page_is_shown_as_viewers_show_it(save: Make) -> None:
    document = text_pdf()
    document[0].set_rotation(90)
    shown = picture(render_page(save(document), None, 1))
    assert shown.width > shown.height


def test_photograph_is_turned_upright_and_fitted(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (3000, 1000), "blue").save(path, "JPEG", exif=exif)
    shown = picture(render_page(str(path), None, 1, RenderOptions(max_px=900)))
    assert shown.size == (300, 900)


def test_transparent_picture_stands_on_white(tmp_path: Path) -> None:
    path = tmp_path / "clear.png"
    Image.new("RGBA", (20, 20), (0, 0, 0, 0)).save(path)
    assert picture(render_page(str(path), None, 1)).convert("RGB").getpixel((10, 10)) == (255, 255, 255)


@pytest.mark.parametrize("number", [0, 2, -1])
def test_page_error_when_there_is_no_such_page(number: int, save: Make) -> None:
    with pytest.raises(PageError):
        render_page(save(text_pdf()), None, number)


def test_page_error_when_a_text_file_is_to_be_drawn(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("only words", encoding="utf-8")
    with pytest.raises(PageError):
        render_page(str(path), None, 1)


SCAN = RenderOptions(dpi=200, color="gray", max_px=6000, max_pixels=40_000_000)


def picture_page(width: float, height: float, shown: Image.Image) -> pymupdf.Document:
    document = pymupdf.open()
    out = io.BytesIO()
    shown.save(out, "PNG")
    document.new_page(width=width, height=height).insert_image((0, 0, width, height), stream=out.getvalue())
    return document


def test_a_scan_is_drawn_no_finer_than_its_picture_is(save: Make) -> None:
    document = picture_page(1837, 2267, Image.new("L", (2449, 3023), 200))
    drawn = draw_scan(save(document), None, 1, SCAN)
    assert drawn.picture.size == pytest.approx((2449, 3023), abs=2)
    assert drawn.points_per_px == pytest.approx(0.75, rel=0.01)


def test_a_coarse_scan_is_drawn_larger_than_its_picture(save: Make) -> None:
    document = picture_page(595, 842, Image.new("L", (850, 1202), 200))
    drawn = draw_scan(save(document), None, 1, SCAN)
    assert max(drawn.picture.size) == pytest.approx(842 * 200 / 72, abs=2)


def test_a_page_is_drawn_as_finely_as_asked_when_it_has_more_than_pictures(save: Make) -> None:
    document = picture_page(1837, 2267, Image.new("L", (245, 302), 200))
    document[0].draw_line((100, 100), (300, 300))
    drawn = draw_scan(save(document), None, 1, SCAN)
    assert max(drawn.picture.size) == pytest.approx(6000, abs=2)
    assert drawn.points_per_px == pytest.approx(2267 / 6000, rel=0.01)


def test_points_are_those_of_the_file_when_a_large_picture_is_made_smaller(tmp_path: Path) -> None:
    path = tmp_path / "wide.png"
    Image.new("L", (9000, 300), 200).save(path)
    drawn = draw_scan(str(path), None, 1, SCAN)
    assert drawn.picture.width == 6000
    assert drawn.picture.width * drawn.points_per_px == pytest.approx(9000 * 72 / 200)


def test_a_photograph_is_drawn_in_full_when_it_was_drawn_small_before(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    Image.new("L", (4000, 3000), 200).save(path, "JPEG")
    assert max(picture(render_page(str(path), None, 1, RenderOptions(max_px=900))).size) == 900
    assert draw_scan(str(path), None, 1, SCAN).picture.size == (4000, 3000)
