"""Cuts a document into text chunks by its structure: a chunk never goes over the beginning of a section."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from quire.domain.element import RUNNING_KINDS, Element, PageElements
from quire.domain.text_chunk import (
    BYTES_PER_TOKEN,
    ChunkOptions,
    ChunkPlace,
    TextChunk,
    size_of,
)
from quire.rendering.chunk_blocks import ChunkBlock, blocks_of, spans_of

_BETWEEN = 2  # bytes of the empty line between two blocks
_KINDS = frozenset({"table", "code", "formula", "figure"})


class Chunker:
    """Takes the pages of a document one after another and returns the chunks that are complete.

    Headings without text below them go with the next ones. Running headers, footers and page numbers are left out.
    A heading of a level ends the sections of this level and the levels below it.
    """

    def __init__(self, options: ChunkOptions) -> None:
        self._most = options.max_tokens * BYTES_PER_TOKEN
        self._overlap = options.overlap * BYTES_PER_TOKEN
        self._path: list[tuple[int, str]] = []
        self._headings: tuple[str, ...] = ()
        self._held: list[ChunkBlock] = []
        self._size = 0
        self._repeated: list[ChunkBlock] = []
        self._index = 0

    def add(self, page: PageElements) -> list[TextChunk]:
        found: list[TextChunk] = []
        for element in page.elements:
            if element.repeated or element.kind in RUNNING_KINDS:
                continue
            for block in blocks_of(element, page.number, self._room(element)):
                self._take(block, found)
        return found

    def end(self) -> list[TextChunk]:
        """The last chunk, if there is one."""
        found: list[TextChunk] = []
        self._close(found)
        return found

    def _room(self, element: Element) -> int:
        """Bytes that a block of the element may have: a section's first one leaves room for the headings above it."""
        above = all(block.is_heading for block in self._held) and self._size <= self._most // 2
        return self._most - self._size - _BETWEEN if self._held and above else self._most

    def _take(self, block: ChunkBlock, found: list[TextChunk]) -> None:
        if block.is_heading:
            if any(not held.is_heading for held in self._held):
                self._close(found)
            self._enter(block.element)
        if self._held and self._size + _BETWEEN + block.size > self._most:
            self._close(found, goes_on=not block.is_heading, room=self._most - block.size)
        self._size += block.size + (_BETWEEN if self._held else 0)
        self._held.append(block)

    def _enter(self, heading: Element) -> None:
        level = heading.level or 1
        while self._path and self._path[-1][0] >= level:
            self._path.pop()
        self._path.append((level, " ".join(heading.plain_text.split())))
        self._headings = tuple(text for _, text in self._path)

    def _close(self, found: list[TextChunk], *, goes_on: bool = False, room: int = 0) -> None:
        """Completes the chunk. If its section goes on, the next one begins with as much of it as `room` allows."""
        held, self._held, self._size = self._held, [], 0
        if not held:
            return
        found.append(self._chunk(held))
        self._index += 1
        self._repeated = _tail(held, min(self._overlap, room - _BETWEEN)) if goes_on else []
        self._held = list(self._repeated)
        self._size = sum(block.size for block in self._held) + _BETWEEN * max(0, len(self._held) - 1)

    def _chunk(self, held: list[ChunkBlock]) -> TextChunk:
        sure = [block.element.confidence for block in held if block.element.confidence is not None]
        grounds = {block.element.grounded for block in held}
        return TextChunk(
            self._index,
            _kind(held),
            _joined(held),
            self._headings,
            tuple(_places(held)),
            len(_joined(held[: len(self._repeated)])),
            min(sure, default=None),
            False if False in grounds else None if None in grounds else True,
        )


def _tail(held: list[ChunkBlock], most: int) -> list[ChunkBlock]:
    """The last blocks of a chunk that fit, else the last words of the last one. Tables are not repeated."""
    found: list[ChunkBlock] = []
    left = most
    for block in reversed(held[1:]):
        if block.element.table is not None or block.size + _BETWEEN > left:
            break
        found.insert(0, block)
        left -= block.size + _BETWEEN
    last = held[-1]
    if found or most < 16 or last.element.kind.value in _KINDS or last.is_heading:
        return found
    start, end = list(spans_of(last.text, most))[-1]
    text = last.text[start:end].strip()
    return [ChunkBlock(text, size_of(text), last.page, last.element, last.box)] if text else []


def _joined(blocks: list[ChunkBlock]) -> str:
    text = ""
    before: ChunkBlock | None = None
    for block in blocks:
        if before is not None:
            text += "\n" if before.is_item and block.is_item else "\n\n"
        text += block.text
        before = block
    return text


def _places(held: list[ChunkBlock]) -> Iterator[ChunkPlace]:
    """The places of the blocks; the text of `_joined` has each block at its `start`."""
    start = 0
    for before, block in zip([None, *held], held, strict=False):
        if before is not None:
            start += len(before.text) + (1 if before.is_item and block.is_item else 2)
        for place in block.places():
            yield replace(place, start=start + place.start)


def _kind(held: list[ChunkBlock]) -> str:
    """`heading` where there is nothing else, one of the kinds above where all of it is of that kind, else `text`."""
    kinds = {block.element.kind.value for block in held if not block.is_heading}
    if not kinds:
        return "heading"
    return kinds.pop() if len(kinds) == 1 and kinds <= _KINDS else "text"
