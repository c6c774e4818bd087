"""The vectors of a document's text chunks as one block of bytes: a sheet.

Each number of a vector is a byte, which is a quarter of the memory of a float and changes a cosine by less than 0.01.
Vectors keep the key of their text, so that a text that has not changed is not embedded again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]
Bytes = np.ndarray[Any, np.dtype[np.int8]]
_HEAD = np.dtype([("number", "<u2"), ("key", "<u8"), ("scale", "<f4")])


@dataclass(frozen=True, slots=True)
class PackedVector:
    """`scale` is one divided by the length of `values`; 0 for a text without words, which is near to nothing."""

    values: Bytes
    scale: float


@dataclass(frozen=True, slots=True)
class NearestPiece:
    """The piece of a document that is nearest to a query, by its number, and the key of its text."""

    number: int
    key: int
    cosine: float


class ChunkSheet:
    """The vectors of some pieces of one document. Raises ValueError for bytes that are no sheet of these sizes."""

    def __init__(self, raw: bytes, chunks: int, dims: int) -> None:
        if len(raw) != chunks * (_HEAD.itemsize + dims):
            raise ValueError("not a sheet of this size")
        self._heads = np.frombuffer(raw, _HEAD, chunks)
        self._rows: Bytes = np.frombuffer(raw, np.int8, chunks * dims, chunks * _HEAD.itemsize).reshape(
            chunks, dims
        )

    def vectors(self) -> dict[int, PackedVector]:
        """The vectors by the key of their text."""
        return {
            int(head["key"]): PackedVector(row, float(head["scale"]))
            for head, row in zip(self._heads, self._rows, strict=True)
        }

    def nearest(self, wanted: Floats) -> NearestPiece | None:
        """The piece nearest to a vector of length one; None if the sheet is empty or of another width."""
        if not len(self._rows) or self._rows.shape[1] != len(wanted):
            return None
        # Not the matrix product: its library starts threads that wait for each other (see `nearness`).
        cosines = np.einsum("ij,j->i", self._rows.astype(np.float32), wanted) * self._heads["scale"]
        best = int(np.argmax(cosines))
        head = self._heads[best]
        return NearestPiece(int(head["number"]), int(head["key"]), float(cosines[best]))


def text_key(text: str) -> int:
    """Equal for equal texts."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def packed_vector(values: Sequence[float] | Floats) -> PackedVector:
    """The vector in bytes. One that is not finite is as one without direction."""
    row = np.asarray(values, np.float32)
    largest = float(np.abs(row).max(initial=0.0))
    if not np.isfinite(largest) or largest == 0.0:
        return PackedVector(np.zeros(len(row), np.int8), 0.0)
    small = np.rint(row * (127.0 / largest)).astype(np.int8)
    return PackedVector(small, 1.0 / float(np.linalg.norm(small.astype(np.float32))))


def packed_sheet(pieces: Sequence[tuple[int, int]], known: Mapping[int, PackedVector]) -> bytes:
    """The bytes of a sheet; `pieces` are numbers and keys, and those whose key has no vector are left out."""
    there = [(number, key) for number, key in pieces if key in known]
    heads = np.array([(number, key, known[key].scale) for number, key in there], _HEAD)
    return heads.tobytes() + b"".join(known[key].values.tobytes() for _, key in there)
