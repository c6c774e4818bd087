"""A picture in any format that can be read, as JPEG or PNG. Runs in the child pool."""

from __future__ import annotations

import io

from quire.errors import DamagedError, PageError, TooLargeError, UnsupportedTypeError
from quire.reading.images import ImageSource
from quire.reading.kinds import SNIFF_BYTES, sniff

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
