"""Draws the dense tables of a page apart, larger than the page itself, for vision models.

Weakness: a table that the local reader did not find is not drawn; on pages whose text runs sideways none is.
"""

from __future__ import annotations

from dataclasses import replace

from quire.domain.element import Box, Element, ElementKind
from quire.reading.files.document_source import PdfSource, open_documents
from quire.reading.pdf.page_reader import read_pages
from quire.reading.pdf.page_render import RenderOptions, draw_page, encode_picture

_DENSE_ROW_PX = 16.0
_LARGER = 2
_MARGIN_PT = 6.0


def dense_tables(
    path: str, password: str | None, number: int, render: RenderOptions, most: int
) -> tuple[bytes, ...]:
    """Pictures of at most `most` tables of page `number` whose rows are too low to be read in the page's picture.

    Raises what `read_pages` and `render_page` raise.
    """
    source = open_documents().get(path, password)
    if not isinstance(source, PdfSource):
        return ()
    reading = read_pages(path, password, [number])[0]
    shown = source.page(number).rect
    if abs(shown.width - reading.signals.width_pt) > 1 or abs(shown.height - reading.signals.height_pt) > 1:
        return ()  # it is read in another direction than it is drawn
    boxes = [box for element in reading.elements if (box := _dense_box(element, render.dpi))]
    if not boxes:
        return ()
    fine = replace(render, dpi=_LARGER * render.dpi, max_px=_LARGER * render.max_px)
    picture = draw_page(path, password, number, fine)
    zoom = picture.width / max(1.0, float(shown.width))
    crops = []
    for box in boxes[:most]:
        left, top, right, bottom = (round(side * zoom) for side in _widened(box))
        part = picture.crop(
            (max(0, left), max(0, top), min(right, picture.width), min(bottom, picture.height))
        )
        part.thumbnail((render.max_px, render.max_px))
        crops.append(encode_picture(part, render))
    return tuple(crops)


def _dense_box(element: Element, dpi: int) -> Box | None:
    """The box of a table whose rows, drawn at `dpi`, are lower than a row that can be read."""
    if element.kind is not ElementKind.TABLE or element.table is None or element.box is None:
        return None
    height = element.box[3] - element.box[1]
    row_px = height / max(1, len(element.table.rows)) * dpi / 72
    return element.box if row_px < _DENSE_ROW_PX else None


def _widened(box: Box) -> Box:
    return box[0] - _MARGIN_PT, box[1] - _MARGIN_PT, box[2] + _MARGIN_PT, box[3] + _MARGIN_PT
