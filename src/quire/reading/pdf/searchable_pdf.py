"""Adds an invisible text layer to scanned pages of a document and bookmarks to its outline. Runs in the child pool.

Weakness: a word's place is its share of its line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quire.domain.element import Box
from quire.errors import PageError, QuireError, StateConflictError
from quire.reading.files.document_source import PdfSource, open_documents
from quire.reading.files.image_source import ImageSource
from quire.reading.pdf.layer_font import FONT_NAME, LayerFont, in_visual_order
from quire.reading.pdf.mupdf import mupdf
from quire.reading.pdf.page_render import RenderOptions, draw_page, encode_picture

_INVISIBLE = 3
_BASELINE = 0.8
"""The distance of the baseline from the top of a line, as a share of the line's height."""
_TURNED = 0.05
_LEAST_PT = 1.0
_TITLE_CHARS = 200
_DEEPEST_PARENT = 50


@dataclass(frozen=True, slots=True)
class LayerLine:
    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class TextLayer:
    """The lines of page `number` (from 1); width and height are those of the page as it was read.

    `turns` is how many quarter turns to the left made the page, as it is shown, upright.
    """

    number: int
    width: float
    height: float
    lines: tuple[LayerLine, ...]
    turns: int = 0


@dataclass(frozen=True, slots=True)
class Bookmark:
    level: int
    title: str
    page: int


@dataclass(frozen=True, slots=True)
class PdfAdditions:
    """What a document gets. With `only`, the PDF has that page alone."""

    layers: tuple[TextLayer, ...]
    bookmarks: tuple[Bookmark, ...]
    only: int | None = None


def searchable_pdf(
    path: str, password: str | None, additions: PdfAdditions, render: RenderOptions, target: str
) -> None:
    """Writes the document as a searchable PDF into the file `target`. A PDF keeps its pages, its outline and password.

    Raises what `inspect` raises for a document that can't be opened, StateConflictError for one that is neither a PDF
    nor a picture, and PageError where a page can't be written.
    """
    source = open_documents().get(path, password)
    if isinstance(source, PdfSource):
        # A handle of its own: other tasks of this process read from the one that is kept open.
        own = PdfSource(path, password)
        try:
            _write(own.handle, additions, target)
            return
        finally:
            own.close()
    if not isinstance(source, ImageSource):
        raise StateConflictError("Only PDFs and pictures have a searchable PDF; this document is neither.")
    made = mupdf().open()
    try:
        sizes = {one.number: _shown_size(one) for one in additions.layers}
        for number in range(1, source.page_count + 1):
            picture = draw_page(path, password, number, render)
            width, height = sizes.get(number, (0.0, 0.0))
            if width <= 0 or height <= 0:
                width, height = picture.width * 72 / render.dpi, picture.height * 72 / render.dpi
            page = made.new_page(width=width, height=height)
            page.insert_image(page.rect, stream=encode_picture(picture, render))
        _write(made, additions, target)
    finally:
        made.close()


def _write(document: Any, additions: PdfAdditions, target: str) -> None:
    try:
        _add_layers(document, additions.layers)
        marks = [one for one in additions.bookmarks if 1 <= one.page <= document.page_count]
        if marks and not document.get_toc(simple=True):
            document.set_toc(_outline(marks))
        if additions.only is not None:
            document.select([additions.only - 1])
        # An open file, not a path: MuPDF would replace the file at a path, and its owner's lock with it.
        with Path(target).open("wb") as out:
            document.save(out, garbage=1, deflate=True, encryption=mupdf().PDF_ENCRYPT_KEEP)
    except (QuireError, MemoryError):
        raise
    except OSError as error:
        raise PageError(
            "The searchable PDF could not be stored in the folder for temporary files."
        ) from error
    except Exception as error:
        raise PageError("The PDF is damaged, so no searchable copy of it could be written.") from error


def _add_layers(document: Any, layers: Sequence[TextLayer]) -> None:
    filled = [one for one in layers if one.lines and 1 <= one.number <= document.page_count]
    if not filled:
        return
    font = LayerFont(_one_line(line.text) for layer in filled for line in layer.lines)
    number = 0
    for layer in filled:
        page = document[layer.number - 1]
        content = _layer_content(page, layer, font)
        if content:
            number = number or font.add_to(document)
            _append(document, page, content, number)


def _layer_content(page: Any, layer: TextLayer, font: LayerFont) -> str:
    """The lines at their boxes. A page that was read in another direction than is known gets none."""
    shown = page.rect
    if min(layer.width, layer.height, shown.width, shown.height) <= 0:
        return ""
    width, height = (shown.height, shown.width) if layer.turns % 2 else (shown.width, shown.height)
    if abs(width / height - layer.width / layer.height) > _TURNED * layer.width / layer.height:
        return ""
    across, down = width / layer.width, height / layer.height
    to_shown = _turned_back(layer.turns, shown.width, shown.height)
    to_page = to_shown * _from_shown(page)
    own = _own_words(page)
    pieces: list[str] = []
    for line in layer.lines:
        x0, y0, x1, y1 = line.box
        box = (x0 * across, y0 * down, x1 * across, y1 * down)
        if not _has_any(own, tuple(mupdf().Rect(box) * to_shown)):
            pieces.append(_operators(font, in_visual_order(_one_line(line.text)), box, to_page))
    return "\n".join(["q", *filter(None, pieces), "Q", ""]) if any(pieces) else ""


def _turned_back(turns: int, width: float, height: float) -> Any:
    """The matrix from the upright page to the page as it is shown, whose size is given."""
    numbers = {
        1: (0, 1, -1, 0, width, 0),
        2: (-1, 0, 0, -1, width, height),
        3: (0, -1, 1, 0, 0, height),
    }.get(turns % 4, (1, 0, 0, 1, 0, 0))
    return mupdf().Matrix(*numbers)


def _shown_size(layer: TextLayer) -> tuple[float, float]:
    """The size of the page as it is shown."""
    return (layer.height, layer.width) if layer.turns % 2 else (layer.width, layer.height)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _own_words(page: Any) -> list[tuple[float, float]]:
    """The centres of the words that the page has as text, on the page as it is shown."""
    turned = page.rotation_matrix
    return [
        ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
        for word in page.get_text("words")
        for box in [mupdf().Rect(word[:4]) * turned]
    ]


def _has_any(centres: Sequence[tuple[float, float]], box: Box) -> bool:
    return any(box[0] <= x <= box[2] and box[1] <= y <= box[3] for x, y in centres)


def _from_shown(page: Any) -> Any:
    """The matrix from the page as it is shown, origin at the top left, to the page's own space."""
    rotation, back = page.rotation, page.derotation_matrix
    # MuPDF's matrix of a page that is both cut and rotated leaves out where it is cut.
    page.set_rotation(0)
    try:
        return back * ~page.transformation_matrix
    finally:
        page.set_rotation(rotation)


def _operators(font: LayerFont, text: str, box: Box, to_page: Any) -> str:
    """One line as it is in a page's content, as wide as its box: a search marks it at its place."""
    size = max(_LEAST_PT, box[3] - box[1])
    length = font.width(text) * size
    if length <= 0:
        return ""
    stretch = max(_LEAST_PT, box[2] - box[0]) / length
    m = mupdf().Matrix(stretch, 0, 0, -1, box[0], box[1] + _BASELINE * size) * to_page
    place = f"{m.a:.5f} {m.b:.5f} {m.c:.5f} {m.d:.5f} {m.e:.3f} {m.f:.3f}"
    return f"BT {_INVISIBLE} Tr /{FONT_NAME} {size:.3f} Tf {place} Tm <{font.written(text)}> Tj ET"


def _append(document: Any, page: Any, content: str, font: int) -> None:
    """Adds the content after that of the page, whose own state of graphics is closed before."""
    page.wrap_contents()
    added = document.get_new_xref()
    document.update_object(added, "<<>>")
    document.update_stream(added, content.encode("ascii"))
    streams = " ".join(f"{xref} 0 R" for xref in [*page.get_contents(), added])
    document.xref_set_key(page.xref, "Contents", f"[{streams}]")
    _add_font(document, page.xref, font)


def _add_font(document: Any, page: int, font: int) -> None:
    """Makes the font known to the page. Resources and fonts that pages share are shared by the layer, too."""
    kind, value = document.xref_get_key(page, "Resources")
    if kind == "null":
        _own_resources(document, page)
        kind, value = document.xref_get_key(page, "Resources")
    owner, path = (int(value.split()[0]), "Font") if kind == "xref" else (page, "Resources/Font")
    kind, value = document.xref_get_key(owner, path)
    if kind == "xref":
        owner, path = int(value.split()[0]), ""
    document.xref_set_key(owner, f"{path}/{FONT_NAME}" if path else FONT_NAME, f"{font} 0 R")


def _own_resources(document: Any, page: int) -> None:
    """Writes the resources that a page has from a node above it, or none, into the page itself."""
    above, found = page, "<<>>"
    for _ in range(_DEEPEST_PARENT):
        kind, value = document.xref_get_key(above, "Parent")
        if kind != "xref":
            break
        above = int(value.split()[0])
        kind, value = document.xref_get_key(above, "Resources")
        if kind != "null":
            found = value
            break
    document.xref_set_key(page, "Resources", found)


def _outline(marks: Sequence[Bookmark]) -> list[list[Any]]:
    """Entries whose levels begin at 1 and never skip one downwards, as PDF needs them."""
    found: list[list[Any]] = []
    above = 0
    for one in marks:
        above = max(1, min(one.level, above + 1))
        found.append([above, " ".join(one.title.split())[:_TITLE_CHARS] or "-", one.page])
    return found
