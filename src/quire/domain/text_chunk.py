"""Owns the record of a text chunk: a piece of a document, small enough for a model, with its place in it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

from quire.domain.element import Box
from quire.errors import RequestError

TOKENIZER = "utf8-bytes/4"
"""The estimate of tokens: a quarter of the bytes in UTF-8, rounded up."""
BYTES_PER_TOKEN = 4
DEFAULT_MAX_TOKENS = 512
SMALLEST_MAX_TOKENS = 32
LARGEST_MAX_TOKENS = 8_192
CHUNKS_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class ChunkOptions:
    """How large chunks may be, and how much of a chunk the next one repeats. Raises RequestError."""

    max_tokens: int = DEFAULT_MAX_TOKENS
    overlap: int = 0

    def __post_init__(self) -> None:
        if not SMALLEST_MAX_TOKENS <= self.max_tokens <= LARGEST_MAX_TOKENS:
            raise RequestError(
                f"max_tokens: expected a number from {SMALLEST_MAX_TOKENS} to {LARGEST_MAX_TOKENS}."
            )
        if not 0 <= self.overlap <= self.max_tokens // 2:
            raise RequestError("overlap: expected a number from 0 to half of max_tokens.")


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """An element that a chunk has text of. The box is that of the lines in the chunk where they are known."""

    page: int
    element: str
    box: Box | None
    start: int = 0
    """Where the element begins in the text of the chunk."""


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A piece of a document. `overlap_chars` is how many characters at its start the chunk before ends with."""

    index: int
    kind: str
    text: str
    headings: tuple[str, ...]
    places: tuple[ChunkPlace, ...]
    overlap_chars: int = 0
    confidence: float | None = None
    grounded: bool | None = True

    @property
    def hash(self) -> str:
        """Equal for equal texts, whatever document they are in."""
        return hashlib.sha256(self.text.encode("utf-8", "replace")).hexdigest()[:32]

    def as_dict(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "kind": self.kind,
            "text": self.text,
            "headings": list(self.headings),
            "tokens": estimated_tokens(self.text),
            "hash": self.hash,
            "pages": sorted({place.page for place in self.places}),
            "elements": list(dict.fromkeys(place.element for place in self.places)),
            "boxes": [
                {
                    "page": place.page,
                    "element": place.element,
                    "box": [round(value, 1) for value in place.box],
                }
                for place in self.places
                if place.box is not None
            ],
            "overlap_chars": self.overlap_chars,
            "confidence": self.confidence,
            "grounded": self.grounded,
        }


def size_of(text: str) -> int:
    """Bytes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def estimated_tokens(text: str) -> int:
    return math.ceil(size_of(text) / BYTES_PER_TOKEN)
