"""Which lines of MuPDF's make up which block of the layout reader's: the one has the type, the other the order."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from quire.domain.element import Box, hull
from quire.reading.pdf.backward_words import turned
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.text_lines import TextLine

_ENOUGH = 0.85
_SHORT = 4
_FAR = 200.0
_BESIDE = 40.0
"""A block that has a line's text and is farther away may have the same words once more: the line is where it is."""
_NEXT_TO = 3.0
_NUMBER = re.compile(r"\d{2,}")
_Keyed = tuple[str, TextLine]
_LOWER = bytes(range(256)).lower()
_NO_WORD = bytes(byte for byte in range(128) if not chr(byte).isalnum())
_FOUND = ("table", "contents", "numbered_lines")
_WHOLE = (*_FOUND, "code")
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

    Of the blocks `cut` a part has gone elsewhere, so their own text must not be used. The same holds for a block whose
    text is that of lines at its place which are not all its own: the page has them once.
    """
    texts = [compact(block_text(b)) for b in blocks]
    taken: list[list[_Keyed]] = [[] for _ in blocks]
    orphans: list[TextLine] = []
    candidates = [(i, b) for i, b in enumerate(blocks) if b.kind != "rule"]
    for line in lines:
        key = compact(line.text)
        best = _best_block(candidates, texts, line, key)
        if best is None:
            orphans.append(line)
        else:
            taken[best].append((key, line))
    enough = [
        i in cut or sum(len(key) for key, _ in found) >= _ENOUGH * len(text)
        for i, (text, found) in enumerate(zip(texts, taken, strict=True))
    ]
    by_lines = [
        is_enough and block.kind not in _WHOLE for block, is_enough in zip(blocks, enough, strict=True)
    ]
    shown = [*orphans, *_shown(texts, taken, by_lines)] if not all(enough) else []
    filled = []
    for i, (block, text, found) in enumerate(zip(blocks, texts, taken, strict=True)):
        if i in cut and not found:
            continue
        repeats = not enough[i] and block.kind not in _FOUND and _repeats(block, text, found, shown)
        if repeats and not found:
            continue
        if repeats:
            shown += [line for _, line in found]
        usable = found and block.kind not in (*_WHOLE, "rule") and (enough[i] or repeats)
        filled.append(FilledBlock(block, _ordered(found, text) if usable else []))
    return filled, orphans


def _shown(
    texts: Sequence[str], taken: Sequence[Sequence[_Keyed]], by_lines: Sequence[bool]
) -> Iterator[TextLine]:
    """The lines of blocks that are shown by their lines, or by a text that has them."""
    for text, found, is_by_lines in zip(texts, taken, by_lines, strict=True):
        yield from (line for key, line in found if is_by_lines or key in text)


def _repeats(block: LayoutBlock, text: str, found: Sequence[_Keyed], shown: Sequence[TextLine]) -> bool:
    """Whether a block's text is that of its lines and of others at its place that are shown anyway.

    The box of a block may be that of its first line.
    """
    own = {id(line) for _, line in found}
    place = hull([block.box, *(line.box for _, line in found)])
    others = [line for line in shown if id(line) not in own and _touch(line.box, place)]
    if not others or not text:
        return False
    there = [*(line for _, line in found), *others]
    numbers = {number for line in there for number in _NUMBER.findall(line.text)}
    if not numbers.issuperset(_NUMBER.findall(block_text(block))):
        return False  # it says a number that the lines do not have: "3036" is not "63036"
    most = (1 - _ENOUGH) * len(text)
    left = text
    for word in sorted(
        {compact(word) for line in there for word in line.text.split()}, key=len, reverse=True
    ):
        left = left.replace(word, " ") if word in left else left.replace(turned(word), " ")
    if len(left.replace(" ", "")) <= most:
        return True
    # Two readers may cut and order the letters of odd fonts differently: they are counted, in lines level with it.
    level = [line for line in there if place[1] - _NEXT_TO <= line.middle[1] <= place[3] + _NEXT_TO]
    return (Counter(text) - Counter("".join(compact(line.text) for line in level))).total() <= most


def _touch(box: Box, other: Box) -> bool:
    return (
        box[0] < other[2] + _NEXT_TO
        and other[0] < box[2] + _NEXT_TO
        and box[1] < other[3] + _NEXT_TO
        and other[1] < box[3] + _NEXT_TO
    )


def _best_block(
    candidates: Sequence[tuple[int, LayoutBlock]], texts: Sequence[str], line: TextLine, key: str
) -> int | None:
    """The nearest block that has the line's text; else the block the line is in, whatever its text says.

    Two readers decode odd fonts differently: a line inside a block is that block's line all the same.
    """
    x, y = line.middle
    near, near_distance, inside, whole = None, _FAR, list[int](), None
    for i, block in candidates:
        x0, y0, x1, y1 = block.box
        if y < y0 - _FAR or y > y1 + _FAR:
            continue
        distance = max(x0 - 3 - x, 0.0, x - x1 - 3) * 0.5 + max(y0 - 3 - y, 0.0, y - y1 - 3)
        if distance == 0:
            if key in texts[i]:
                return i
            if block.kind in _WHOLE:
                if whole is None and _mostly_in(line.text, texts[i]):
                    whole = i
            else:
                inside.append(i)
            continue
        if distance < near_distance and len(key) > _SHORT and key in texts[i]:
            near, near_distance = i, distance
    if whole is not None:
        return whole
    if near is not None and not (inside and near_distance > _BESIDE):
        return near
    # Where blocks overlap, the one that has most of its words.
    return max(inside, key=lambda i: _words_in(line.text, texts[i])) if inside else None


def _mostly_in(text: str, whole: str) -> bool:
    """Whether a table has the line's words, if not in one cell."""
    return _words_in(text, whole) >= 0.7 * len(text.split())


def _words_in(text: str, whole: str) -> int:
    return sum(compact(word) in whole for word in text.split())


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
