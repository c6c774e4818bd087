"""Cuts a document's text into the pieces that search reads and shows: its text chunks, or pages if it has none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from quire.catalog.search.word_rules import storable
from quire.domain.text_chunk import ChunkPlace
from quire.domain.vault_document import ChunkStart, ContentPage

PIECE_CHARS = 2_100
"""A text chunk of the usual size fits: 512 tokens of 4 bytes."""
MAX_PIECES = 4_000
"""A document's pieces are numbered within 12 bits; 0 is its head."""
_BETWEEN = "\n\n"

Placed = TypeVar("Placed", ChunkStart, ChunkPlace)


@dataclass(frozen=True, slots=True)
class TextPiece:
    """`chunks` and `places` say by offset into the text which chunk and which element it is of, where that is known."""

    number: int
    """From 1."""
    page: int | None
    text: str
    chunks: tuple[ChunkStart, ...] = ()
    places: tuple[ChunkPlace, ...] = ()


def cut(pages: Sequence[ContentPage], max_chars: int) -> tuple[list[TextPiece], bool]:
    """The pieces, and whether the text was longer than allowed. A piece is one text, or a part of it.

    Only where there are more texts than pieces are neighbours joined.
    """
    pieces: list[TextPiece] = []
    left = max_chars
    # Longer pieces rather than a lost end, where the text is allowed to be so long.
    size = max(PIECE_CHARS, -(-min(sum(len(page.text) for page in pages), max_chars) * 2 // MAX_PIECES))
    for page in _joined(pages, size) if len(pages) > MAX_PIECES else pages:
        text = storable(page.text)
        for at, part in _parts(text[:left], size):
            if len(pieces) == MAX_PIECES:
                return pieces, True
            chunks = overlapping(page.chunks, at, at + len(part))
            places = overlapping(page.places, at, at + len(part))
            number = places[0].page if places else page.number
            pieces.append(TextPiece(len(pieces) + 1, number, part, _moved(chunks, -at), _moved(places, -at)))
        if len(text) > left:
            return pieces, True
        left -= len(text)
    return pieces, False


def overlapping(found: Sequence[Placed], start: int, end: int) -> tuple[Placed, ...]:
    """Those of the entries (in order) whose text, from their start to that of the next one, is partly in the span."""
    ends = [*(one.start for one in found[1:]), end + 1]
    return tuple(one for one, stop in zip(found, ends, strict=False) if one.start < end and stop > start)


def _moved(found: Sequence[Placed], by: int) -> tuple[Placed, ...]:
    return tuple(replace(one, start=max(0, one.start + by)) for one in found)


def _joined(pages: Sequence[ContentPage], size: int) -> Iterator[ContentPage]:
    """Neighbours as one text of at most `size` characters."""
    held: ContentPage | None = None
    for page in pages:
        if held is not None and len(held.text) + len(_BETWEEN) + len(page.text) <= size:
            by = len(held.text) + len(_BETWEEN)
            held = ContentPage(
                held.text + _BETWEEN + page.text,
                held.number,
                held.chunks + _moved(page.chunks, by),
                held.places + _moved(page.places, by),
            )
            continue
        if held is not None:
            yield held
        held = page
    if held is not None:
        yield held


def _parts(text: str, size: int) -> Iterator[tuple[int, str]]:
    """Parts of about `size` characters with their offsets, cut after a paragraph, a line, a sentence or a word."""
    at = 0
    while at < len(text):
        end = _cutting_place(text, at + size // 2, at + size) if len(text) - at > size else len(text)
        part = text[at:end]
        if stripped := part.strip():
            yield at + len(part) - len(part.lstrip()), stripped
        at = end


def _cutting_place(text: str, least: int, most: int) -> int:
    for mark in ("\n\n", "\n", ". ", " "):
        found = text.rfind(mark, least, most)
        if found >= 0:
            return found + len(mark)
    return most
