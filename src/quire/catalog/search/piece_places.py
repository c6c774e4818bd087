"""How the chunks and elements of a search piece are stored: as JSON in the column `places` of its row."""

from __future__ import annotations

import json

from quire.catalog.search.text_pieces import TextPiece
from quire.domain.text_chunk import ChunkPlace
from quire.domain.vault_document import ChunkStart


def packed_places(piece: TextPiece) -> str | None:
    """None where nothing is known: the text is that of a page, or an earlier version stored it."""
    if not piece.chunks and not piece.places:
        return None
    chunks = [[one.start, one.index, one.hash] for one in piece.chunks]
    places = [
        [one.start, one.page, one.element, [round(value, 1) for value in one.box] if one.box else None]
        for one in piece.places
    ]
    return json.dumps({"c": chunks, "p": places}, separators=(",", ":"))


def unpacked_places(raw: str | None) -> tuple[tuple[ChunkStart, ...], tuple[ChunkPlace, ...]]:
    """The chunks and the elements of a piece, by their offsets into its text."""
    if raw is None:
        return (), ()
    found = json.loads(raw)
    chunks = tuple(ChunkStart(*one) for one in found["c"])
    places = tuple(
        ChunkPlace(page, element, (box[0], box[1], box[2], box[3]) if box else None, start)
        for start, page, element, box in found["p"]
    )
    return chunks, places
