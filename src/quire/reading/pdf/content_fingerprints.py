"""Fingerprints of what a page of a PDF shows, however its file is written: letters, pictures, lines, and how it looks.

A program that saves a file anew cuts fonts to other letters, numbers their glyphs otherwise and compresses streams
again; all of that leaves these fingerprints as they are. They cost drawing the page, which is more than reading its
text, so they are for pages that were read by OCR or AI.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from quire.reading.files.document_source import PdfSource
from quire.reading.pdf.mupdf import mupdf
from quire.reading.pdf.page_fingerprints import page_notes
from quire.reading.pdf.structure_tags import is_tagged

_SUBSET = re.compile(r"^[A-Z]{6}\+")
_DPI = 150
_MOST_PIXELS = 40_000_000


def text_keys(path: str) -> list[str]:
    """For each page a key of its size and words: pages whose keys differ show other things. "" for a damaged page.

    Raises DocumentError for a file that can't be opened.
    """
    source = PdfSource(path)
    try:
        return [_text_key(source.handle, number) for number in range(source.page_count)]
    finally:
        source.close()


def content_fingerprints(path: str, numbers: Sequence[int]) -> list[str]:
    """One for each of the pages (from 1); "" for one that can't be examined. Raises DocumentError as `text_keys`."""
    source = PdfSource(path)
    try:
        tagged = is_tagged(source.handle)
        return [_fingerprint(source.handle, number - 1, tagged) for number in numbers]
    finally:
        source.close()


def _text_key(handle: Any, number: int) -> str:
    try:
        page = handle[number]
        seen = repr((page.rect, page.rotation, page.get_text("text").split()))
        return hashlib.sha256(seen.encode("utf-8", "replace")).hexdigest()
    except MemoryError:
        raise
    except Exception:  # a damaged page is read again
        return ""


def _fingerprint(handle: Any, number: int, tagged: bool) -> str:
    try:
        page = handle[number]
        digest = hashlib.sha256()
        for part in _parts(handle, page, tagged):
            digest.update(part)
            digest.update(b"\0")
        return digest.hexdigest()
    except MemoryError:
        raise
    except Exception:  # damaged, or too large to be drawn
        return ""


def _parts(handle: Any, page: Any, tagged: bool) -> Iterator[bytes]:
    """All that a reader of the page could see. What one of them leaves out, such as shapes of letters, another has."""
    yield repr((page.mediabox, page.cropbox, page.rotation, page_notes(handle, page, tagged))).encode(
        "utf-8", "replace"
    )
    yield repr(list(_letters(page))).encode("utf-8", "replace")
    pictures = page.get_image_info(hashes=True)
    yield repr(
        [(one["digest"], one["width"], one["height"], _rounded(one["transform"])) for one in pictures]
    ).encode()
    yield repr(page.get_cdrawings(extended=True)).encode("utf-8", "replace")
    scale = _DPI / 72
    if page.rect.width * page.rect.height * scale * scale > _MOST_PIXELS:
        raise ValueError("the page is too large to be drawn for a comparison")
    yield hashlib.sha256(page.get_pixmap(dpi=_DPI, colorspace=mupdf().csRGB).samples).digest()


def _letters(page: Any) -> Iterator[tuple[Any, ...]]:
    """The letters with their places, sizes, colours and fonts, whose names lose the mark of a subset."""
    for block in page.get_text("rawdict", flags=mupdf().TEXTFLAGS_RAWDICT)["blocks"]:
        for line in block.get("lines", ()):
            for span in line["spans"]:
                yield (
                    _SUBSET.sub("", span["font"]),
                    *(round(span["size"], 2), span["flags"], span["color"], span.get("alpha")),
                    [(one["c"], *_rounded(one["origin"])) for one in span["chars"]],
                )


def _rounded(numbers: Sequence[float]) -> list[float]:
    return [round(number, 2) for number in numbers]
