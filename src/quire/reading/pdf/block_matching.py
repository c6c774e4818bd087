"""Which lines of MuPDF's make up which block of the layout reader's: the one has the type, the other the order."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.text_lines import TextLine

_ENOUGH = 0.85
_SHORT = 4
_FAR = 200.0
_BESIDE = 40.0
"""A block that has a line's text and is farther away may have the same words once more: the line is where it is."""
_LOWER = bytes(range(256)).lower()
_NO_WORD = bytes(byte for byte in range(128) if not chr(byte).isalnum())
_WHOLE = ("table", "contents", "code")
"""Kinds that are shown as the layout reader gives them; a line that it left out of one is an orphan."""


@dataclass(slots=True)
class FilledBlock:
    """A block and its lines in reading order. No lines: the block's own text has to do."""

    block: LayoutBlock
    lines: list[TextLine] = field(default_factory=list)


def compact(text: str) -> str:
    """Letters and digits only, in one case: what two readers of the same page agree on."""
    if text.isascii():
        return text.encode().translate(_LOWER, _NO_WORD).decode()
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text))).lower()


def match(
    blocks: Sequence[LayoutBlock], lines: Sequence[TextLine], cut: frozenset[int] = frozenset()
) -> tuple[list[FilledBlock], list[TextLine]]:
    """Every block with its lines, and the lines that no block has: text that the layout reader left out.

    Of the blocks `cut` a part has gone elsewhere, so their own text must not be used.
    """
    texts = [compact(block_text(b)) for b in blocks]
    taken: list[list[tuple[str, TextLine]]] = [[] for _ in blocks]
    orphans: list[TextLine] = []
    candidates = [(i, b) for i, b in enumerate(blocks) if b.kind != "rule"]
    for line in lines:
        key = compact(line.text)
        best = _best_block(candidates, texts, line, key)
        if best is None:
            orphans.append(line)
        else:
            taken[best].append((key, line))
    filled = []
    for i, (block, text, found) in enumerate(zip(blocks, texts, taken, strict=True)):
        if i in cut and not found:
            continue
        covered = sum(len(key) for key, _ in found)
        enough = i in cut or covered >= _ENOUGH * len(text)
        usable = found and block.kind not in ("table", "code", "rule") and enough
        filled.append(FilledBlock(block, _ordered(found, text) if usable else []))
    return filled, orphans


def _best_block(
    candidates: Sequence[tuple[int, LayoutBlock]], texts: Sequence[str], line: TextLine, key: str
) -> int | None:
    """The nearest block that has the line's text; else the block the line is in, whatever its text says.

    Two readers decode odd fonts differently: a line inside a block is that block's line all the same.
    """
    x, y = line.middle
    near, near_distance, inside = None, _FAR, None
    for i, block in candidates:
        x0, y0, x1, y1 = block.box
        if y < y0 - _FAR or y > y1 + _FAR:
            continue
        distance = max(x0 - 3 - x, 0.0, x - x1 - 3) * 0.5 + max(y0 - 3 - y, 0.0, y - y1 - 3)
        if distance == 0:
            if key in texts[i]:
                return i
            if block.kind in _WHOLE:
                if _mostly_in(line.text, texts[i]):
                    return i
            elif inside is None:
                inside = i
            continue
        if distance < near_distance and len(key) > _SHORT and key in texts[i]:
            near, near_distance = i, distance
    return inside if near is None or (inside is not None and near_distance > _BESIDE) else near


def _mostly_in(text: str, whole: str) -> bool:
    """Whether a table has the line's words, if not in one cell."""
    words = [compact(word) for word in text.split()]
    return sum(word in whole for word in words) >= 0.7 * len(words)


def block_text(block: LayoutBlock) -> str:
    """All text of a block, cells of a table one after the other."""
    if block.rows:
        return " ".join(cell for row in block.rows for cell in row)
    if block.lines:
        return " ".join(block.lines)
    return f"{block.marker} {block.text}"


def _ordered(found: list[tuple[str, TextLine]], text: str) -> list[TextLine]:
    """The lines in the order in which the block's text has them, as far as it has them."""
    rest = [(key, line) for key, line in found if key and key in text]
    ordered: list[TextLine] = []
    at = 0
    while rest:
        choice = next((i for i, (key, _) in enumerate(rest) if text.startswith(key, at)), None)
        if choice is None:
            places = [(text.find(key, at), i) for i, (key, _) in enumerate(rest)]
            choice = min((p for p in places if p[0] >= 0), default=(0, 0))[1]
        key, line = rest.pop(choice)
        place = text.find(key, at)
        at = place + len(key) if place >= 0 else at
        ordered.append(line)
    before: TextLine | None = None
    for key, line in found:
        if not key or key not in text:
            ordered.insert(0 if before is None else ordered.index(before) + 1, line)
        before = line
    return ordered
