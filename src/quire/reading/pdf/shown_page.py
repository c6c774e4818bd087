"""What a page shows, as far as an answer of a model can be compared with it: its visible words, its links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from quire.reading.files.document_source import PdfSource
from quire.reading.pdf.hidden_text import seen_words, take_hidden, without_words
from quire.reading.pdf.line_pieces import PageWord
from quire.reading.pdf.picture_damage import picture_boxes
from quire.reading.pdf.reading_direction import View, view_of
from quire.reading.pdf.texts_ahead import text_of

_LEAST_SHAPES = 12
"""A page with fewer drawings and no picture has no figure that could be described."""
_MOST_LINKS = 10_000
_SCHEME = re.compile(r"(?:https?:)?//|mailto:|tel:", re.I)


@dataclass(frozen=True, slots=True)
class ShownPage:
    """The words of a page and the addresses of its links; `is_exact` if they are its file's and not what OCR sees."""

    words: Sequence[PageWord] = ()
    links: frozenset[str] = frozenset()
    has_figures: bool = True
    is_exact: bool = True


NOTHING = ShownPage()
"""A page with which no answer can be compared."""


def shown_by(source: PdfSource, number: int) -> tuple[View, ShownPage]:
    """What the picture of the page shows: hidden text supports no answer."""
    page, layer, content = text_of(source, number)
    view = view_of(page, content)
    drawings, pictures = page.get_cdrawings(), picture_boxes(source, page, number)
    hidden = take_hidden(page, content, drawings, pictures)
    words = list(without_words(layer.found(), hidden) if hidden else layer.found())
    shown = [
        PageWord(word[4], view.turn(word[:4]))
        for word in seen_words(page, words, content, drawings, pictures)
    ]
    has_figures = bool(pictures) or len(drawings) >= _LEAST_SHAPES
    return view, ShownPage(shown, links_of(page), has_figures=has_figures)


def links_of(page: Any) -> frozenset[str]:
    """The addresses that the page's links lead to."""
    links = islice(page.links(), _MOST_LINKS)
    return frozenset(bare_address(str(link["uri"])) for link in links if link.get("uri"))


def bare_address(address: str) -> str:
    """What two forms of an address have in common."""
    return _SCHEME.sub("", address.strip()).rstrip("/").lower()
