"""Cutting a document's text into the pieces that search reads and shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quire.catalog.search.word_rules import storable
from quire.domain.vault_document import ContentPage

PIECE_CHARS = 2_000
MAX_PIECES = 4_000
"""A document's pieces are numbered within 12 bits; 0 is its head."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    number: int
    """From 1."""
    page: int | None
    text: str


def cut(pages: Sequence[ContentPage], max_chars: int) -> tuple[list[TextPiece], bool]:
    """The pieces, and whether the text was longer than allowed. No piece goes over the end of a page."""
    pieces: list[TextPiece] = []
    left = max_chars
    # Longer pieces rather than a lost end, where the text is allowed to be so long.
    size = max(PIECE_CHARS, -(-min(sum(len(page.text) for page in pages), max_chars) * 2 // MAX_PIECES))
    for page in pages:
        text = storable(page.text)
        for part in _parts(text[:left], size):
            if len(pieces) == MAX_PIECES:
                return pieces, True
            pieces.append(TextPiece(len(pieces) + 1, page.number, part))
        if len(text) > left:
            return pieces, True
        left -= len(text)
    return pieces, False


def _parts(text: str, size: int) -> Iterator[str]:
    """Parts of about `size` characters, cut at the end of a paragraph, a line, a sentence or a word."""
    at = 0
    while len(text) - at > size:
        end = _cutting_place(text, at + size // 2, at + size)
        part = text[at:end].strip()
        if part:
            yield part
        at = end
    part = text[at:].strip()
    if part:
        yield part


def _cutting_place(text: str, least: int, most: int) -> int:
    for mark in ("\n\n", "\n", ". ", " "):
        found = text.rfind(mark, least, most)
        if found >= 0:
            return found + len(mark)
    return most
