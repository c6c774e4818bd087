"""The pictures of a page on one sheet, with a number at each, and the page with their descriptions in place.

Runs in the child pool.

Pictures that a page carries in its own text, as `data:` addresses.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from quire.errors import PageError
from quire.reading.files.document_source import open_documents, page_errors
from quire.reading.office.inline_markdown import plain
from quire.reading.office.office_source import OfficeSource, fill_placeholders
from quire.reading.office.zip_container import OfficeLimits

if TYPE_CHECKING:
    from PIL import Image

_MAX_BYTES = 16 << 20
_DATA_URL = re.compile(r"data:image/[a-z0-9.+-]{1,30}(;[a-z0-9=;-]{0,60})?,", re.IGNORECASE)


class HeldPictures:
    """Those of one page, up to a bound; what goes beyond it is as good as not there."""

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}
        self._bytes = 0

    def get(self, ref: str) -> bytes:
        return self._held.get(ref, b"")

    def hold(self, address: str) -> str:
        """A name for the picture in the address; "" if there is none, or no more room."""
        if not _DATA_URL.match(address) or self._bytes + len(address) > _MAX_BYTES * 2:
            return ""
        head, _, body = address.partition(",")
        try:
            data = unquote_to_bytes(body)
            data = base64.b64decode(data) if "base64" in head else data
        except (binascii.Error, ValueError):
            return ""
        if self._bytes + len(data) > _MAX_BYTES:
            return ""
        self._bytes += len(data)
        ref = f"data:{len(self._held)}"
        self._held[ref] = data
        return ref


MOST_PICTURES = 6
_LABEL_PX = 36
_GAP_PX = 16


@dataclass(frozen=True, slots=True)
class SheetOptions:
    max_px: int = 2048
    quality: int = 70


@dataclass(frozen=True, slots=True)
class ContactSheet:
    image: bytes
    pictures: int
    pixels: int
    text: str

    def __repr__(self) -> str:
        return f"ContactSheet({self.pictures} pictures, {len(self.image)} bytes)"


def contact_sheet(
    path: str, password: str | None, number: int, limits: OfficeLimits, options: SheetOptions
) -> ContactSheet:
    """The first pictures of page `number` that are worth describing. Raises PageError where none can be shown."""
    source = _source(path, password, limits)
    found = list(source.pictures(number).values())[:MOST_PICTURES]
    if not found:
        raise PageError(f"Page {number} has no picture that could be described.")
    image, size = page_errors(number)(_drawn)(found, options)
    return ContactSheet(image, len(found), size[0] * size[1], source.page(number).markdown)


def described_page(
    path: str, password: str | None, number: int, limits: OfficeLimits, texts: Mapping[int, str]
) -> str:
    """The page's Markdown with the descriptions at its placeholders. Numbers are those of the contact sheet."""
    source = _source(path, password, limits)
    places = {ref: place for place, ref in enumerate(list(source.pictures(number))[:MOST_PICTURES], 1)}
    page = source.page(number)
    filled = [texts.get(places.get(ref, 0)) for ref in page.pictures]
    return fill_placeholders(page.markdown, [None if text is None else _harmless(text) for text in filled])


def _harmless(text: str) -> str:
    return plain(text.replace("[", "(").replace("]", ")").replace("|", "/"))


def _source(path: str, password: str | None, limits: OfficeLimits) -> OfficeSource:
    source = open_documents().get(path, password, limits)
    if not isinstance(source, OfficeSource):
        raise PageError("A document of this type has no pictures apart from its pages.")
    return source


def _drawn(pictures: list[bytes], options: SheetOptions) -> tuple[bytes, tuple[int, int]]:
    """Cells of one size in rows, each picture upright and fit into its cell below its number."""
    from PIL import Image, ImageDraw, ImageFont, ImageOps

    columns = math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    side = min(options.max_px // columns, options.max_px // rows) - _GAP_PX
    cells: list[Image.Image] = []
    for data in pictures:
        with Image.open(io.BytesIO(data)) as opened:
            opened.draft("RGB", (side, side))
            upright = ImageOps.exif_transpose(opened) or opened
            cells.append(_on_white(ImageOps.contain(upright.convert("RGBA"), (side, side - _LABEL_PX))))
    # Small pictures need no large cells.
    width = max(cell.width for cell in cells) + _GAP_PX
    height = max(cell.height for cell in cells) + _LABEL_PX + _GAP_PX
    sheet = Image.new("RGB", (width * columns, height * rows), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(_LABEL_PX - 8)
    for place, cell in enumerate(cells):
        x, y = place % columns * width, place // columns * height
        draw.text((x + 4, y), str(place + 1), fill="black", font=font)
        sheet.paste(cell, (x, y + _LABEL_PX))
    out = io.BytesIO()
    sheet.save(out, "JPEG", quality=options.quality)
    return out.getvalue(), sheet.size


def _on_white(picture: Image.Image) -> Image.Image:
    from PIL import Image

    solid = Image.new("RGB", picture.size, "white")
    solid.paste(picture, mask=picture.getchannel("A"))
    return solid
