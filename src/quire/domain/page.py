"""Owns what is known of one page: its class, the source of its text, the signals of its analysis, its reading."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from quire.domain.element import Element

_WORD = re.compile(r"(?!`{3})\S*?[^\W_]")
"""Of what begins with a sign: a word has a letter or a digit, and is no fence of code with its language."""


def word_count(markdown: str) -> int:
    """How many words the text has. Signs alone, as those of tables and lists, are none; a text of nothing else has one.

    A page without words is one without text, so that is the only one that has none.
    """
    parts = markdown.split()
    marked = [part for part in parts if not part[0].isalnum()]
    signs = sum(_WORD.match(part) is None for part in marked)
    return max(1, len(parts) - signs) if parts else 0


class PageClass(StrEnum):
    TEXT_ONLY = "TEXT_ONLY"
    HAS_GRAPHICS = "HAS_GRAPHICS"
    SCANNED = "SCANNED"
    GARBLED = "GARBLED"


class PageSource(StrEnum):
    LOCAL = "local"
    AI = "ai"
    OCR = "ocr"
    BATCH = "batch"
    CACHE = "cache"
    MUPDF_FALLBACK = "mupdf_fallback"
    MUPDF_TIMEOUT_FALLBACK = "mupdf_timeout_fallback"


class Grade(StrEnum):
    """How well a page was read: good needs no second look, fair has flaws, low must not be trusted."""

    GOOD = "good"
    FAIR = "fair"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class PageSignals:
    """What the analysis measured. Ratios are of the page's area (coverage) or of its characters (garbled)."""

    chars: int = 0
    image_coverage: float = 0.0
    largest_image: float = 0.0
    drawings: int = 0
    garbled_ratio: float = 0.0
    width_pt: float = 0.0
    height_pt: float = 0.0


@dataclass(frozen=True, slots=True)
class PageReading:
    """What a reader returns for one page. Small, picklable, no handles.

    `markdown` is what the elements render to. `words_missing` counts words of the text layer that no element has.
    """

    number: int
    page_class: PageClass
    text: str
    markdown: str
    reader: str
    reasons: tuple[str, ...] = ()
    signals: PageSignals = field(default_factory=PageSignals)
    elements: tuple[Element, ...] = ()
    words_missing: int = 0
    turns: int = 0
    """How many quarter turns to the left made the page upright."""
    is_unseen: bool = False
    """Most of its text layer is not what the page draws: it may be that of another page."""
