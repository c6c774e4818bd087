"""Cuts regions out of pages as pictures."""

from __future__ import annotations

from dataclasses import dataclass

from quire.domain.element import Box
from quire.errors import PageError
from quire.reading.files.document_source import page_errors
from quire.reading.pdf.page_render import RenderOptions, draw_page, encode_picture

_LEAST_PX = 2
_TURNED = 0.05


@dataclass(frozen=True, slots=True)
class PageRegions:
    """Boxes on page `number` (from 1), whose width and height are those of the page as it was read.

    `turns` is how many quarter turns to the left made it upright.
    """

    number: int
    width: float
    height: float
    boxes: tuple[Box, ...]
    turns: int = 0


def cut_regions(path: str, password: str | None, regions: PageRegions, options: RenderOptions) -> list[bytes]:
    """Pictures of the boxes.

    Raises what `render_page` raises, and PageError for a page that was read in another direction than it is drawn: its
    boxes are not where the picture has them.
    """
    number, width, height = regions.number, regions.width, regions.height
    picture = draw_page(path, password, number, options)
    if regions.turns:
        picture = picture.rotate(90 * regions.turns, expand=True)
    if width <= 0 or height <= 0:
        raise PageError(f"Page {number} has no positions.")
    if abs(picture.width / picture.height - width / height) > _TURNED * width / height:
        raise PageError(f"Page {number} was read in another direction than it is drawn.")
    across, down = picture.width / width, picture.height / height

    def cut(box: Box) -> bytes:
        left, top = max(0, round(box[0] * across)), max(0, round(box[1] * down))
        right = min(picture.width, max(round(box[2] * across), left + _LEAST_PX))
        bottom = min(picture.height, max(round(box[3] * down), top + _LEAST_PX))
        if right <= left or bottom <= top:
            raise PageError(f"A region of page {number} is outside the page.")
        return encode_picture(picture.crop((left, top, right, bottom)), options)

    return [page_errors(number)(cut)(box) for box in regions.boxes]
