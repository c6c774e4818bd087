"""A page as a picture, never larger than asked for and never larger than memory allows."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quire.errors import PageError
from quire.reading.files.document_source import PdfSource, open_documents, page_errors
from quire.reading.files.image_source import ImageSource
from quire.reading.pdf.mupdf import mupdf, text_flags
from quire.reading.pdf.picture_damage import has_damage, watched_pictures

if TYPE_CHECKING:
    from PIL import Image

    from quire.settings import ImagesSettings

_POINTS_PER_INCH = 72
_SCAN_PX = 2400
"""A coarser picture than this is drawn larger than it is, as far as `dpi` allows: small type is read better then."""
_TINY_PT, _SMALL_PT, _SMALL_PX = 1.0, 6.0, 8_000
"""Type between these sizes is drawn larger, on a page of at most so many pixels: OCR can't read it else. Smaller type
would take more pixels than memory allows.
"""
_SMALL_SHARE = 0.2
_PICTURE_MARKS = frozenset(("fill-image", "fill-imgmask", "ignore-text"))


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
        return page_errors(number)(_draw_page)(source, number, options)
    if isinstance(source, ImageSource):
        return page_errors(number)(_fit)(source, number, options)
    raise PageError("A document of this type has no picture of its pages.")


@dataclass(frozen=True, slots=True)
class DrawnPage:
    """A page's picture, and how many points of the page are one pixel of it.

    `is_damaged`: something of the pictures on it could not be decoded.
    """

    picture: Image.Image
    points_per_px: float
    is_damaged: bool = False


def draw_scan(path: str, password: str | None, number: int, options: RenderOptions) -> DrawnPage:
    """The picture of page `number` (from 1) for OCR. Raises as `render_page` does.

    A page that shows nothing but pictures is drawn no finer than they are: more pixels cost time and show no more. A
    page in very small type is drawn finer than asked for, within `max_pixels`.
    """
    source = open_documents().get(path, password)
    if isinstance(source, PdfSource):
        return page_errors(number)(_draw_scan)(source, number, options)
    picture = draw_page(path, password, number, options)
    shown = source.size_px(number)[0] if isinstance(source, ImageSource) else picture.width
    return DrawnPage(picture, _POINTS_PER_INCH / options.dpi * shown / picture.width)


def _draw_scan(source: PdfSource, number: int, options: RenderOptions) -> DrawnPage:
    page = source.page(number)
    finest = _finest_picture(page)
    if finest is None:
        options = _for_small_type(page, options)
    zoom = scale_for(page.rect.width, page.rect.height, options)
    if finest is not None:
        zoom = min(zoom, max(finest, _SCAN_PX / max(page.rect.width, page.rect.height, 1.0)))
    with watched_pictures(source, number):
        drawn = _draw(page, zoom, options)
    return DrawnPage(drawn, 1 / zoom, has_damage(source, number))


def _for_small_type(page: Any, options: RenderOptions) -> RenderOptions:
    """The options by which type is not drawn smaller than a usual page's small type, where a fifth of it is."""
    sizes: dict[float, int] = {}
    for block in page.get_text("dict", flags=text_flags())["blocks"]:
        for line in block.get("lines", ()):
            for span in line["spans"]:
                sizes[span["size"]] = sizes.get(span["size"], 0) + len(span["text"].strip())
    rest = _SMALL_SHARE * sum(sizes.values())
    for size in sorted(sizes):
        rest -= sizes[size]
        if rest <= 0:
            break
    else:
        return options
    if not _TINY_PT <= size < _SMALL_PT:
        return options
    longest = max(options.max_px, _SMALL_PX)
    return replace(options, dpi=round(options.dpi * _SMALL_PT / size), max_px=longest)


def _finest_picture(page: Any) -> float | None:
    """The pixels for each point of the finest picture; None if the page shows something else than pictures."""
    if any(kind not in _PICTURE_MARKS for kind, *_ in page.get_bboxlog()):
        return None
    return max(filter(None, map(_pixels_per_point, page.get_image_info())), default=None)


def _pixels_per_point(image: dict[str, Any]) -> float | None:
    a, b, c, d, *_ = image["transform"]
    across, down = math.hypot(a, b), math.hypot(c, d)
    return max(image["width"] / across, image["height"] / down) if across > 0 and down > 0 else None


def scale_for(width_pt: float, height_pt: float, options: RenderOptions) -> float:
    """The zoom at which a page of this size keeps to `dpi`, `max_px` and `max_pixels` together."""
    zoom = options.dpi / _POINTS_PER_INCH
    longer = max(width_pt, height_pt, 1.0)
    area = max(width_pt, 1.0) * max(height_pt, 1.0)
    return min(zoom, options.max_px / longer, math.sqrt(options.max_pixels / area))


def _draw_page(source: PdfSource, number: int, options: RenderOptions) -> Image.Image:
    page = source.page(number)
    return _draw(page, scale_for(page.rect.width, page.rect.height, options), options)


def _draw(page: Any, zoom: float, options: RenderOptions) -> Image.Image:
    from PIL import Image

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
