"""The few words of a text around what was found in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from quire.catalog.search.piece_places import unpacked_places
from quire.catalog.search.text_pieces import overlapping
from quire.catalog.search.word_rules import spans
from quire.domain.text_chunk import ChunkPlace
from quire.domain.vault_document import ChunkStart, Snippet

SNIPPET_CHARS = 240
_LEAD_CHARS = 60
_BLANK = re.compile(r"\s")


def highlights(text: str, wanted: Mapping[str, float]) -> tuple[tuple[int, int], ...]:
    """Returns the spans of the wanted words in the text."""
    return tuple((start, end) for start, end, _ in _found(text, wanted))


def words_in(text: str, wanted: Collection[str]) -> set[str]:
    """Those of the wanted words that the text has."""
    return {word for _, _, words in _found(text, dict.fromkeys(wanted, 1.0)) for word in words}


class StoredPiece(NamedTuple):
    """A piece of a document's text as its row has it; `places` is packed."""

    text: str
    page: int | None = None
    places: str | None = None


def best_snippet(pieces: Sequence[StoredPiece], wanted: Mapping[str, float]) -> Snippet | None:
    """A snippet of the first piece that has a wanted word, or else of the first piece with text."""
    some = [piece for piece in pieces if piece.text]
    for piece in some:
        found = _found(piece.text, wanted)
        if found:
            return _cut(piece, found, wanted)
    return _cut(some[0], [], wanted) if some else None


def _found(text: str, wanted: Mapping[str, float]) -> list[tuple[int, int, set[str]]]:
    if text.isascii():  # folding such a text leaves every letter in its place
        lowered = text.lower()
        return sorted(
            (start, start + len(word), {word}) for word in wanted for start in _places(lowered, word)
        )
    return [
        (start, end, set(parts) & wanted.keys()) for start, end, parts in spans(text) if wanted.keys() & parts
    ]


def _places(text: str, word: str) -> Iterator[int]:
    """Returns where the whole word occurs. Searching for each wanted word is faster than splitting the text."""
    at = text.find(word)
    while at >= 0:
        after = at + len(word)
        if not (at and text[at - 1].isalnum()) and not text[after : after + 1].isalnum():
            yield at
        at = text.find(word, at + 1)


def _cut(piece: StoredPiece, found: list[tuple[int, int, set[str]]], wanted: Mapping[str, float]) -> Snippet:
    """The part of the text with the most, and the rarest, of the wanted words; its beginning if there are none."""
    text = piece.text
    first = _best_start(found, wanted)
    start = 0 if first is None else _word_start(text, max(0, first - _LEAD_CHARS))
    end = _word_end(text, min(len(text), start + SNIPPET_CHARS))
    before = "… " if start > 0 else ""
    after = " …" if end < len(text) else ""
    # One blank for each blank character keeps every offset as it is.
    shown = _BLANK.sub(" ", text[start:end])
    shift = len(before) - start
    inside = [(a, b) for a, b, _ in found if a >= start and b <= end]
    marked = tuple((a + shift, b + shift) for a, b in inside)
    chunk, places = _origin(piece, inside or [(start, end)])
    page = places[0].page if places else piece.page
    return Snippet(f"{before}{shown}{after}", marked, page, chunk, places)


def _origin(
    piece: StoredPiece, spans_shown: Sequence[tuple[int, int]]
) -> tuple[ChunkStart | None, tuple[ChunkPlace, ...]]:
    """The chunk of the first span, and the elements that the spans are of."""
    chunks, places = unpacked_places(piece.places)
    first = spans_shown[0]
    of_chunk = overlapping(chunks, *first)
    shown = [one for a, b in spans_shown for one in overlapping(places, a, b)]
    return (of_chunk[0] if of_chunk else None), tuple(dict.fromkeys(shown))


def _best_start(found: list[tuple[int, int, set[str]]], wanted: Mapping[str, float]) -> int | None:
    best: tuple[float, int] | None = None
    for number, (start, _, _) in enumerate(found):
        seen: set[str] = set()
        for later, end, parts in found[number:]:
            if end - start > SNIPPET_CHARS - _LEAD_CHARS or later - start > SNIPPET_CHARS:
                break
            seen |= parts
        worth = sum(wanted[word] for word in seen)
        if best is None or worth > best[0] + 1e-9:
            best = (worth, start)
    return None if best is None else best[1]


def _word_start(text: str, at: int) -> int:
    while at > 0 and text[at - 1].isalnum() and text[at].isalnum():
        at -= 1
    return at


def _word_end(text: str, at: int) -> int:
    limit = min(len(text), at + 40)
    while at < limit and text[at - 1].isalnum() and text[at].isalnum():
        at += 1
    return at
