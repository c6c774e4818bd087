"""Adds an invisible text layer to scanned pages of a document and bookmarks to its outline. Runs in the child pool.

Weakness: a word's place is its share of its line; a line in a script that MuPDF's own fonts do not have is left out.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quire.domain.element import Box
from quire.errors import PageError, QuireError, StateConflictError
from quire.reading.files.document_source import PdfSource, open_documents
from quire.reading.files.image_source import ImageSource
from quire.reading.pdf.mupdf import mupdf
from quire.reading.pdf.page_render import RenderOptions, draw_page, encode_picture

_INVISIBLE = 3
_BASELINE = 0.8
"""The distance of the baseline from the top of a line, as a share of the line's height."""
_TURNED = 0.05
_LEAST_PT = 1.0
_TITLE_CHARS = 200
_FONTS = {"QuireLatin": "helv", "QuireWide": "cjk"}
"""The names of the layer's fonts in a page, and MuPDF's names of them. The second one is large, and rarely needed."""


@dataclass(frozen=True, slots=True)
class LayerLine:
    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class TextLayer:
    """The lines of page `number` (from 1); width and height are those of the page as it was read."""

    number: int
    width: float
    height: float
    lines: tuple[LayerLine, ...]


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
        sizes = {one.number: (one.width, one.height) for one in additions.layers}
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
        for layer in additions.layers:
            if 1 <= layer.number <= document.page_count:
                _add_layer(document, document[layer.number - 1], layer)
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


def _add_layer(document: Any, page: Any, layer: TextLayer) -> None:
    """Writes the lines at their boxes. A page that was read in another direction than it is drawn gets none."""
    shown = page.rect
    if min(layer.width, layer.height, shown.width, shown.height) <= 0:
        return
    if abs(shown.width / shown.height - layer.width / layer.height) > _TURNED * layer.width / layer.height:
        return
    across, down = shown.width / layer.width, shown.height / layer.height
    own = _own_words(page)
    to_page = _from_shown(page)
    used: set[str] = set()
    pieces: list[str] = []
    for line in layer.lines:
        x0, y0, x1, y1 = line.box
        box = (x0 * across, y0 * down, x1 * across, y1 * down)
        text = _drawable(" ".join(line.text.split()))
        if text is None or _has_any(own, box):
            continue
        name, codes = text
        used.add(name)
        pieces.append(_operators(name, codes, box, to_page))
    if pieces:
        for name in sorted(used):
            page.insert_font(fontname=name, fontbuffer=_font(name).buffer)
        _append(document, page, "\n".join(["q", *pieces, "Q", ""]))


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


def _drawable(text: str) -> tuple[str, list[int]] | None:
    """The font that has all letters of the text, and their codes; None if there is no such font."""
    codes = [ord(_known(sign)) for sign in text]
    for name in _FONTS if codes else ():
        if all(_glyph(name, code) for code in codes):
            return name, codes
    return None


def _known(sign: str) -> str:
    """The sign, or its letter without accents where no font has it."""
    if any(_glyph(name, ord(sign)) for name in _FONTS):
        return sign
    return unicodedata.normalize("NFD", sign)[0]


@functools.cache
def _font(name: str) -> Any:
    return mupdf().Font(_FONTS[name])


@functools.lru_cache(maxsize=4096)
def _glyph(name: str, code: int) -> int:
    """The number of the letter's glyph in the font; 0 if it has none."""
    return int(_font(name).has_glyph(code))


@functools.lru_cache(maxsize=4096)
def _advance(name: str, code: int) -> float:
    return float(_font(name).glyph_advance(code))


def _operators(name: str, codes: Sequence[int], box: Box, to_page: Any) -> str:
    """One line as it is in a page's content, as wide as its box: a search marks it at its place."""
    size = max(_LEAST_PT, box[3] - box[1])
    length = sum(_advance(name, code) for code in codes) * size
    stretch = max(_LEAST_PT, box[2] - box[0]) / length if length > 0 else 1.0
    m = mupdf().Matrix(stretch, 0, 0, -1, box[0], box[1] + _BASELINE * size) * to_page
    place = f"{m.a:.5f} {m.b:.5f} {m.c:.5f} {m.d:.5f} {m.e:.3f} {m.f:.3f}"
    glyphs = "".join(f"{_glyph(name, code):04x}" for code in codes)
    return f"BT {_INVISIBLE} Tr /{name} {size:.3f} Tf {place} Tm <{glyphs}> Tj ET"


def _append(document: Any, page: Any, content: str) -> None:
    """Adds the content after that of the page, whose own state of graphics is closed before."""
    page.wrap_contents()
    added = document.get_new_xref()
    document.update_object(added, "<<>>")
    document.update_stream(added, content.encode("ascii"))
    streams = " ".join(f"{xref} 0 R" for xref in [*page.get_contents(), added])
    document.xref_set_key(page.xref, "Contents", f"[{streams}]")


def _outline(marks: Sequence[Bookmark]) -> list[list[Any]]:
    """Entries whose levels begin at 1 and never skip one downwards, as PDF needs them."""
    found: list[list[Any]] = []
    above = 0
    for one in marks:
        above = max(1, min(one.level, above + 1))
        found.append([above, " ".join(one.title.split())[:_TITLE_CHARS] or "-", one.page])
    return found
