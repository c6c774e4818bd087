"""A page as a picture, never larger than asked for and never larger than memory allows."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quire.errors import PageError
from quire.reading.files.document_source import PdfSource, open_documents, page_errors
from quire.reading.files.image_source import ImageSource
from quire.reading.pdf.mupdf import mupdf

if TYPE_CHECKING:
    from PIL import Image

    from quire.settings import ImagesSettings

_POINTS_PER_INCH = 72


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """How a page becomes a picture. `max_px` bounds the longer side, `max_pixels` the area."""

    dpi: int = 100
    color: str = "rgb"  # or "gray"
    format: str = "jpeg"  # or "png"
    quality: int = 70
    max_px: int = 2048
    max_pixels: int = 16_000_000

    @classmethod
    def of(cls, images: ImagesSettings, max_pixels: int) -> RenderOptions:
        """As pages go to AI, and as users see them."""
        return cls(
            dpi=images.dpi,
            color=images.color,
            format=images.format,
            quality=images.jpeg_quality,
            max_px=images.max_px,
            max_pixels=max_pixels,
        )


def render_page(path: str, password: str | None, number: int, options: RenderOptions | None = None) -> bytes:
    """The encoded picture of page `number` (from 1).

    Raises what `inspect` raises for a document that can't be opened, and PageError for a page that can't be
    drawn or has no picture (a text file).
    """
    options = options or RenderOptions()
    picture = draw_page(path, password, number, options)
    return page_errors(number)(encode_picture)(picture, options)


def draw_page(path: str, password: str | None, number: int, options: RenderOptions) -> Image.Image:
    """The picture of page `number` (from 1), not encoded. Raises as `render_page` does."""
    source = open_documents().get(path, password)
    if isinstance(source, PdfSource):
        return page_errors(number)(_draw)(source, number, options)
    if isinstance(source, ImageSource):
        return page_errors(number)(_fit)(source, number, options)
    raise PageError("A document of this type has no picture of its pages.")


def scale_for(width_pt: float, height_pt: float, options: RenderOptions) -> float:
    """The zoom at which a page of this size keeps to `dpi`, `max_px` and `max_pixels` together."""
    zoom = options.dpi / _POINTS_PER_INCH
    longer = max(width_pt, height_pt, 1.0)
    area = max(width_pt, 1.0) * max(height_pt, 1.0)
    return min(zoom, options.max_px / longer, math.sqrt(options.max_pixels / area))


def _draw(source: PdfSource, number: int, options: RenderOptions) -> Image.Image:
    from PIL import Image

    page = source.page(number)
    zoom = scale_for(page.rect.width, page.rect.height, options)
    space = mupdf().csGRAY if options.color == "gray" else mupdf().csRGB
    pixmap = page.get_pixmap(matrix=mupdf().Matrix(zoom, zoom), colorspace=space, alpha=False)
    mode = "L" if pixmap.n == 1 else "RGB"
    return Image.frombuffer(
        mode, (pixmap.width, pixmap.height), pixmap.samples, "raw", mode, pixmap.stride, 1
    )


def _fit(source: ImageSource, number: int, options: RenderOptions) -> Image.Image:
    from PIL import Image

    picture = source.frame(number, fit_px=options.max_px)
    width, height = picture.size
    ratio = min(1.0, options.max_px / max(width, height), math.sqrt(options.max_pixels / (width * height)))
    if ratio < 1.0:
        size = (max(1, round(width * ratio)), max(1, round(height * ratio)))
        picture = picture.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
    if options.color == "gray" and picture.mode != "L":
        picture = picture.convert("L")
    return picture


def encode_picture(picture: Image.Image, options: RenderOptions) -> bytes:
    """The picture in the format asked for."""
    out = io.BytesIO()
    if options.format == "png":
        picture.save(out, "PNG", compress_level=6)
    else:
        picture.save(out, "JPEG", quality=options.quality)
    return out.getvalue()
