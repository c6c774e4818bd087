"""Pictures as documents: every frame is a page, upright, decoded by Pillow.

A picture in any format that can be read, as JPEG or PNG. Runs in the child pool.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quire.errors import DamagedError, PageError, QuireError, TooLargeError, UnsupportedTypeError
from quire.reading.files.document_source import DocumentInfo
from quire.reading.files.file_kinds import HEIC, SNIFF_BYTES, FileKind, sniff

if TYPE_CHECKING:
    from PIL import Image

_QUALITY = 90


def as_jpeg_or_png(path: str, max_pixels: int) -> bytes:
    """The first frame, upright. Raises UnsupportedTypeError, DamagedError, TooLargeError or PageError."""
    with open(path, "rb") as file:  # noqa: PTH123 - a plain path crosses the process border
        kind = sniff(file.read(SNIFF_BYTES))
    if not kind.is_image or not kind.supported:
        raise UnsupportedTypeError(f"This is a {kind.label} ({kind.mime}), not an image that can be read.")
    source = ImageSource(path, kind)
    try:
        width, height = source.size_px(1)
        if width * height > max_pixels:
            raise TooLargeError(
                f"The image unpacks to {width} × {height} pixels, which is more than allowed."
            )
        picture = source.frame(1)
    except PageError as error:
        raise DamagedError(error.public) from error
    finally:
        source.close()
    out = io.BytesIO()
    if picture.mode == "L":
        picture.save(out, "PNG", compress_level=3)
    else:
        picture.save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()


MAX_SOURCE_PIXELS = 200_000_000
"""A picture with more pixels than this is not decoded: 600 MB of RGB is past any child's memory limit."""

HEIC_OVER_BOUND = "heic_over_15_mb"
"""The reason on a page that AI is not asked about."""

_HEIC_AI_BYTES = 15 << 20
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "DIB", "AVIF")
_MAX_FRAMES = 10_000
_UPRIGHT_SWAPS = (5, 6, 7, 8)
_ORIENTATION_TAG = 0x0112


class ImageSource:
    """An image file held open by Pillow; it is decoded only when a frame is wanted."""

    def __init__(self, path: str, kind: FileKind) -> None:
        """Open the picture's header, or raise DamagedError."""
        from PIL import Image

        # Pillow only warns up to twice this figure; `frame` checks the figure itself before any decoding.
        Image.MAX_IMAGE_PIXELS = MAX_SOURCE_PIXELS
        self.kind = kind
        self._path = path
        try:
            self.is_heavy = kind == HEIC and Path(path).stat().st_size > _HEIC_AI_BYTES
            self.handle: Any = Image.open(path, formats=_formats(kind))
            # A phone's MPO holds the same photograph again for depth; it is one page.
            frames = 1 if self.handle.format == "MPO" else int(getattr(self.handle, "n_frames", 1))
        except MemoryError:
            raise
        except Image.DecompressionBombError as error:
            raise TooLargeError(
                f"The {kind.label} unpacks to more than the {MAX_SOURCE_PIXELS:,} pixels that can be read."
            ) from error
        except Exception as error:
            raise DamagedError(
                f"The {kind.label} is damaged and can't be opened. Save it anew and send that."
            ) from error
        self.page_count = min(frames, _MAX_FRAMES)

    def info(self) -> DocumentInfo:
        return DocumentInfo(mime=self.kind.mime, page_count=self.page_count)

    def frame(self, number: int, *, fit_px: int | None = None) -> Image.Image:
        """Frame `number` (from 1), upright, as RGB or L on white. Raises PageError if it can't be decoded.

        With `fit_px` the decoder may answer a smaller picture than the file holds, but none smaller than that.
        """
        from PIL import Image, ImageOps

        self._check(number)
        try:
            self.handle.seek(number - 1)
            handle = self._smaller(fit_px) if fit_px is not None else self.handle
            width, height = handle.size
            if width * height > MAX_SOURCE_PIXELS:
                raise PageError(f"The picture on page {number} is too large ({width} × {height} pixels).")
            upright = ImageOps.exif_transpose(handle)
            picture: Image.Image = upright if upright is not None else handle.copy()
        except (QuireError, MemoryError):
            raise
        except Exception as error:
            raise PageError(f"The picture on page {number} is damaged and could not be decoded.") from error
        if picture.has_transparency_data:
            solid = Image.new("RGB", picture.size, "white")
            layer = picture.convert("RGBA")
            solid.paste(layer, mask=layer.getchannel("A"))
            return solid
        if picture.mode in ("L", "RGB"):
            return picture
        if picture.mode.startswith(("I", "F")):
            return _scaled_to_bytes(picture)
        return picture.convert("L" if picture.mode == "1" else "RGB")

    def _smaller(self, fit_px: int) -> Any:
        """The picture, told to decode to fewer pixels if its format can; what was told so once stays small."""
        from PIL import Image

        if self.handle.format != "JPEG" or self.page_count > 1:
            return self.handle
        smaller = Image.open(self._path, formats=_FORMATS)
        smaller.draft(None, (fit_px, fit_px))
        return smaller

    def size_px(self, number: int) -> tuple[int, int]:
        """Width and height of frame `number` in pixels, upright, without decoding it."""
        self._check(number)
        try:
            self.handle.seek(number - 1)
            width, height = self.handle.size
            orientation = self.handle.getexif().get(_ORIENTATION_TAG, 1)
        except (QuireError, MemoryError):
            raise
        except Exception as error:
            raise PageError(f"The picture on page {number} is damaged and could not be decoded.") from error
        return (height, width) if orientation in _UPRIGHT_SWAPS else (width, height)

    def _check(self, number: int) -> None:
        if not 1 <= number <= self.page_count:
            raise PageError(f"There is no page {number}: the document has {self.page_count}.")

    def close(self) -> None:
        self.handle.close()


def grey_picture(picture: bytes, *, max_pixels: int, longest_px: int) -> tuple[Image.Image, float]:
    """A picture that comes as bytes: upright, in grey and not too large; and how many of its pixels make one of these.

    Raises PageError where it has more than `max_pixels` or can't be decoded.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(picture)) as opened:
            if opened.width * opened.height > max_pixels:
                raise PageError(f"The image is too large ({opened.width} × {opened.height} pixels).")
            upright = ImageOps.exif_transpose(opened)
            grey = (upright if upright is not None else opened).convert("L")
    except (PageError, MemoryError):
        raise
    except Exception as error:
        raise PageError("The image is damaged and could not be decoded.") from error
    scale = max(1.0, max(grey.size) / longest_px)
    if scale > 1.0:
        grey = grey.resize((max(1, round(grey.width / scale)), max(1, round(grey.height / scale))))
    return grey, scale


def _formats(kind: FileKind) -> tuple[str, ...]:
    """The formats that Pillow may take the file for. HEIC is taught to it when the first such picture comes."""
    if kind != HEIC:
        return _FORMATS
    from pi_heif import register_heif_opener  # type: ignore[import-untyped]

    register_heif_opener()
    return ("HEIF",)


def _scaled_to_bytes(picture: Image.Image) -> Image.Image:
    """Sixteen-bit and floating-point greys brought to eight bits; Pillow's own conversion only clips them."""
    low, high = picture.getextrema()
    if not isinstance(low, int | float) or not isinstance(high, int | float) or high <= low:
        return picture.convert("L")
    span = 255.0 / (high - low)
    return picture.point(lambda value: value * span - low * span).convert("L")
