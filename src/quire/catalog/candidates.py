"""Which documents are worth a closer look, by what the index of words told. Arrays, because there are thousands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quire.catalog.tables import PIECE_BITS

_PIECES_OF_DOCUMENT = 2

Meaning = tuple[tuple[int, ...], float]
"""Which words of the query a list is about (by number), and what being in it counts for."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The pieces of each document (by its pk) that have most of the query."""

    pieces: dict[int, list[int]]

    def best_pieces(self, pk: int) -> list[int]:
        """The head, always, and then the best of the others."""
        head = pk << PIECE_BITS
        others = [piece for piece in self.pieces.get(pk, ()) if piece != head]
        return [head, *others[:_PIECES_OF_DOCUMENT]]


def best_documents(
    lists: Sequence[tuple[Meaning, Sequence[int]]], rarities: Sequence[float], most: int
) -> Candidates:
    """The `most` documents that have the rarest words in the best places; of equals the newest."""
    # Within a word, better places come later and overwrite.
    filled = sorted(
        ((meaning, np.array(ids, np.int64)) for meaning, ids in lists if ids), key=lambda one: one[0][1]
    )
    if not filled:
        return Candidates({})
    pieces = np.unique(np.concatenate([ids for _, ids in filled]))
    documents, owner = np.unique(pieces >> PIECE_BITS, return_inverse=True)
    of_documents = np.zeros(len(documents))
    of_pieces = np.zeros(len(pieces))
    for number, rarity in enumerate(rarities):
        levels = np.zeros(len(pieces))
        for (numbers, level), ids in filled:
            if number in numbers:
                levels[np.searchsorted(pieces, ids)] = level
        best = np.zeros(len(documents))
        np.maximum.at(best, owner, levels)
        of_documents += rarity * best
        of_pieces += rarity * levels
    order = np.lexsort((-documents, -of_documents))[:most]
    chosen = np.isin(owner, order)
    found: dict[int, list[int]] = {int(documents[place]): [] for place in order}
    places = np.flatnonzero(chosen)
    for place in places[np.lexsort((pieces[places], -of_pieces[places]))]:
        found[int(documents[owner[place]])].append(int(pieces[place]))
    return Candidates(found)
