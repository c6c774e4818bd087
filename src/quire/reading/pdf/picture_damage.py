"""Tells from MuPDF's warnings that a picture of a page could not be decoded, or not all of it.

MuPDF draws what it has of such a picture and leaves the rest white, so that the page looks as if there were no more.

Weakness: a picture that decodes without a warning into something else than was scanned is not noticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from quire.domain.element import Box
from quire.reading.files.document_source import PdfSource
from quire.reading.pdf.mupdf import mupdf

DAMAGED_PICTURE = "damaged_picture"
"""The reason of a page with a picture of which something is missing."""

_KEY = "damaged"
_DAMAGE = re.compile(
    r"truncated image|file in jpeg|jpeg error|Failed to read JPX|jbig2dec error|in [12]d faxd", re.I
)


@contextmanager
def watched_pictures(source: PdfSource, number: int) -> Iterator[None]:
    """Within it pictures of page `number` are loaded or drawn; `has_damage` says afterwards how that went."""
    tools = mupdf().TOOLS
    tools.reset_mupdf_warnings()
    try:
        yield
    finally:
        if _DAMAGE.search(tools.mupdf_warnings()):
            source.kept.setdefault(_KEY, set()).add(number)


def has_damage(source: PdfSource, number: int) -> bool:
    """Whether a picture of the page was damaged when it was first loaded; MuPDF keeps it and warns once."""
    return number in source.kept.get(_KEY, ())


def picture_boxes(source: PdfSource, page: Any, number: int) -> list[Box]:
    """The boxes of the pictures of MuPDF's `page` number `number` as it is stored, of those that can be loaded."""
    if not page.get_images():
        return []
    with watched_pictures(source, number):
        return [image["bbox"] for image in page.get_image_info()]


def with_damage(reasons: Iterable[str]) -> tuple[str, ...]:
    """The reasons of a page with a damaged picture: whether it is blank is not known."""
    return (*(reason for reason in reasons if reason != "blank_page"), DAMAGED_PICTURE)
