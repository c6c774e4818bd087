"""All vectors of one team and model in memory, for comparing a query with every one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

_SKETCH_FROM = 20_000
_SKETCH_DIMS = 64
_SKETCH_SAMPLE = 4_000
_SKETCH_LEAST = 0.6
_LOOKED_AT = 4_000
_BLOCK = 10_000


class Matrix:
    """Rows of vectors and whose each is. Rows may be added while another thread looks for the nearest.

    Many rows get a *sketch*: their coordinates along the few directions in which they differ most. The nearest of
    the sketches, many more than are wanted, are then compared exactly. Where few directions don't tell enough, as
    with vectors that lie evenly in all of them, there is no sketch and everything is compared.
    """

    def __init__(self) -> None:
        self.change = 0
        """Up to which change of the team's vectors this is current."""
        self.removed = 0
        self.used = 0
        self.dead = 0
        self.places: dict[int, int] = {}
        self._pks: Numbers = np.empty(0, np.int64)
        self._rows: Floats = np.empty((0, 0), np.float32)
        self._directions: Floats | None = None
        self._sketch: Floats = np.empty((0, _SKETCH_DIMS), np.float32)
        self._tried_at = 0

    @property
    def size_bytes(self) -> int:
        return int(self._rows.nbytes + self._pks.nbytes + self._sketch.nbytes + 100 * len(self.places))

    @property
    def wants_sketch(self) -> bool:
        """Whether there are many more rows than when a sketch was last tried."""
        return self._directions is None and self.used >= max(_SKETCH_FROM, 2 * self._tried_at)

    def put(self, packed: Sequence[tuple[int, bytes]]) -> None:
        """Adds or replaces rows, given as float16 bytes. Those of another width are of no use and left out."""
        width = 2 * self._rows.shape[1] or len(packed[0][1])
        fitting = [(pk, row) for pk, row in packed if len(row) == width]
        if not fitting:
            return
        joined = b"".join(row for _, row in fitting)
        rows = np.frombuffer(joined, "<f2").reshape(len(fitting), width // 2).astype(np.float32)
        fresh = dict.fromkeys(pk for pk, _ in fitting if pk not in self.places)
        self._reserve(self.used + len(fresh), width // 2)
        for place, pk in enumerate(fresh, self.used):
            self.places[pk] = place
            self._pks[place] = pk
        at = [self.places[pk] for pk, _ in fitting]
        self._rows[at] = rows
        if self._directions is not None:
            self._sketch[at] = rows @ self._directions
        self.used += len(fresh)

    def drop(self, pks: Sequence[int]) -> None:
        for pk in pks:
            self._pks[self.places.pop(pk)] = -1
        self.dead += len(pks)

    def make_sketch(self) -> None:
        self._tried_at = self.used
        sample = self._rows[: self.used : max(1, self.used // _SKETCH_SAMPLE)]
        if sample.shape[1] <= 2 * _SKETCH_DIMS:
            return
        strengths, directions = np.linalg.eigh(sample.T @ sample)
        if strengths[-_SKETCH_DIMS:].sum() < _SKETCH_LEAST * strengths.sum():
            return
        along = np.ascontiguousarray(directions[:, -_SKETCH_DIMS:], np.float32)
        sketch = np.zeros((len(self._pks), _SKETCH_DIMS), np.float32)
        for first in range(0, self.used, _BLOCK):
            block = slice(first, min(first + _BLOCK, self.used))
            sketch[block] = self._rows[block] @ along
        self._sketch, self._directions = sketch, along

    def cosines(self, wanted: Floats, pks: Sequence[int]) -> dict[int, float]:
        """Of exactly these, as far as they are there."""
        if self._rows.shape[1] != len(wanted):
            return {}
        there = [pk for pk in pks if pk in self.places]
        found = _products(self._rows[[self.places[pk] for pk in there]], wanted)
        return {pk: float(cosine) for pk, cosine in zip(there, found, strict=True)}

    def nearest(self, wanted: Floats, most: int) -> dict[int, float]:
        """The `most` nearest and their cosines, nearest first."""
        # In this order: rows are counted when they are in place, and a sketch is there before its directions are.
        used, rows, directions, sketch = self.used, self._rows, self._directions, self._sketch
        if not used or rows.shape[1] != len(wanted):
            return {}
        pks = self._pks[:used]
        places = np.arange(used)
        looked_at = max(_LOOKED_AT, 20 * most)
        if directions is not None and used > 2 * looked_at:
            rough = _products(sketch[:used], wanted @ directions)
            rough[pks < 0] = -2.0
            places = np.argpartition(rough, -looked_at)[-looked_at:]
        cosines = _products(rows[:used] if len(places) == used else rows[places], wanted)
        cosines[pks[places] < 0] = -2.0
        if len(places) > most:
            best = np.argpartition(cosines, -most)[-most:]
            places, cosines = places[best], cosines[best]
        order = np.lexsort((pks[places], -cosines))
        return {int(pks[places[n]]): float(cosines[n]) for n in order if pks[places[n]] >= 0}

    def _reserve(self, wanted: int, dims: int) -> None:
        if wanted <= len(self._pks):
            return
        capacity = max(wanted, int(len(self._pks) * 1.3))
        self._pks = _grown(self._pks, (capacity,), self.used)
        self._rows = _grown(self._rows, (capacity, dims), self.used)
        if self._directions is not None:
            self._sketch = _grown(self._sketch, (capacity, _SKETCH_DIMS), self.used)


def _products(rows: Floats, wanted: Floats) -> Floats:
    # Not the matrix product: its library starts threads that wait for each other, and on a busy machine for long.
    found: Floats = np.einsum("ij,j->i", rows, wanted)
    return found


def _grown(array: np.ndarray[Any, Any], shape: tuple[int, ...], used: int) -> np.ndarray[Any, Any]:
    grown = np.zeros(shape, array.dtype)
    if used:
        grown[:used] = array[:used]
    return grown
