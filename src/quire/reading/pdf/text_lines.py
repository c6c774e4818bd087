"""Lines of a page with their type: where they are, how large, how bold. From MuPDF, in its own order."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any

Box = tuple[float, float, float, float]

BULLETS = "•●▪■◦‣▶▸➢➤►❖◆○□✓✔∙·\uf0b7\uf0a7\uf0d8\uf076\uf0fc"
"""Signs that begin an item of a list."""
_BOLD_FLAG = 16
_ITALIC_FLAG = 2
_MONO_FLAG = 8
_ALL_BOLD = 0.9
_LEVEL = (1.0, 0.0)
_BOLD_NAME = re.compile(r"bold|black|heavy|semibold|demi\b|[,.-]bi?\b", re.I)
_ITALIC_NAME = re.compile(r"italic|oblique|[,.-]b?i\b", re.I)
_MATH_NAME = re.compile(
    r"(?:^|\+)(?:CM(?:MI|SY|EX|BSY)|LM(?:Math|Mono)?(?:MI|Sy|Ex)|MSAM|MSBM|EU[FRSE]|rsfs|(?:new|t|p)x(?:mi|sy|ex)|"
    r"MT(?:Extra|SY|MI)|Symbol|Euclid|MathJax)|math",
    re.I,
)


@dataclass(slots=True)
class TextLine:
    """One line of text. `size`, `bold`, `italic` and `mono` are those of most of its characters.

    `math` is the share of its characters that are set in a font for formulas. Nothing changes a line once it is made;
    it is not frozen because a page makes fifty of them, and frozen ones take three times as long to make.
    """

    text: str
    box: Box
    size: float
    bold: bool
    italic: bool
    upright: bool
    mono: bool
    block: int
    math: float = 0.0
    mixed: bool = False
    """Most of it is bold, and some of it is not."""

    @property
    def middle(self) -> tuple[float, float]:
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2


def lines_of(content: dict[str, Any], turn: Callable[[Box], Box] = lambda box: box) -> list[TextLine]:
    """The lines in MuPDF's dictionary of a page, without those that are only white space.

    `turn` brings a box of the page as it is stored, in which MuPDF answers, to the page as read.
    """
    found: list[TextLine] = []
    upright: dict[tuple[float, float], bool] = {}
    for index, block in enumerate(content["blocks"]):
        for raw in block.get("lines", ()):
            direction = raw["dir"]
            if direction not in upright:
                upright[direction] = _is_upright(direction, turn)
            line = _line(raw, index, turn, upright[direction])
            if line is not None:
                found.append(line)
    return found


def layer_text(content: dict[str, Any]) -> str:
    """The text of the layer, line by line: what MuPDF's `extractText` returns, without another walk over its glyphs."""
    texts: list[str] = []
    for block in content["blocks"]:
        for raw in block.get("lines", ()):
            spans = raw["spans"]
            text = spans[0]["text"] if len(spans) == 1 else "".join([span["text"] for span in spans])
            texts.append(text if text.endswith("\n") else text + "\n")
    return "".join(texts)


@functools.lru_cache(maxsize=512)
def _face(font: str) -> tuple[bool, bool, bool]:
    """Whether the font's name says bold, italic, and mathematics: many files forget the flags."""
    return (
        _BOLD_NAME.search(font) is not None,
        _ITALIC_NAME.search(font) is not None,
        _MATH_NAME.search(font) is not None,
    )


def _line(raw: dict[str, Any], block: int, turn: Callable[[Box], Box], is_upright: bool) -> TextLine | None:
    texts: list[str] = []
    sizes: dict[float, int] = {}
    bold = italic = mono = math = total = 0
    spans = raw["spans"]
    if len(spans) == 1:
        return _whole_line(raw, spans[0], block, turn, is_upright)
    for part in spans:
        text: str = part["text"]
        if not text:
            continue
        font, flags = part["font"], part["flags"]
        bold_name, italic_name, math_name = _face(font)
        is_bold = bool(flags & _BOLD_FLAG) or bold_name
        is_italic = bool(flags & _ITALIC_FLAG) or italic_name
        size = round(part["size"] * 2) / 2
        texts.append(text)
        weight = len(text) - text.count(" ")
        total += weight
        sizes[size] = sizes.get(size, 0) + weight
        bold += weight * is_bold
        italic += weight * is_italic
        if flags & _MONO_FLAG:
            mono += weight
        if math_name:
            math += weight
    if not total:
        return None
    box = turn(_text_box(raw))
    if not isfinite(sum(box)):
        return None
    return TextLine(
        text=" ".join("".join(texts).split()),
        box=box,
        size=size if len(sizes) == 1 else max(sizes, key=lambda s: (sizes[s], s)),
        bold=bold * 2 > total,
        italic=italic * 2 > total,
        upright=is_upright,
        mono=mono * 2 > total,
        block=block,
        math=math / total,
        mixed=total < bold * 2 and bold < _ALL_BOLD * total,
    )


def _text_box(raw: dict[str, Any]) -> Box:
    """The line's box without the spaces that it begins with in type of one width: they are the indent of code."""
    box: Box = tuple(raw["bbox"])
    first = raw["spans"][0]
    if first["text"][:1] != " " or not first["flags"] & _MONO_FLAG or raw["dir"] != _LEVEL:
        return box
    for span in raw["spans"]:
        text, (x0, _, x1, _) = span["text"], span["bbox"]
        if text.strip():
            return x0 + (x1 - x0) * (len(text) - len(text.lstrip())) / len(text), *box[1:]
    return box


def _whole_line(
    raw: dict[str, Any], span: dict[str, Any], block: int, turn: Callable[[Box], Box], is_upright: bool
) -> TextLine | None:
    """A line of one type throughout, as most are: nothing has to be weighed."""
    text = " ".join(span["text"].split())
    if not text:
        return None
    box = turn(_text_box(raw))
    if not isfinite(sum(box)):
        return None
    flags = span["flags"]
    bold_name, italic_name, math_name = _face(span["font"])
    return TextLine(
        text,
        box,
        round(span["size"] * 2) / 2,
        bool(flags & _BOLD_FLAG) or bold_name,
        bool(flags & _ITALIC_FLAG) or italic_name,
        is_upright,
        bool(flags & _MONO_FLAG),
        block,
        1.0 if math_name else 0.0,
    )


def _is_upright(direction: tuple[float, float], turn: Callable[[Box], Box]) -> bool:
    x, y, *_ = turn((0.0, 0.0, 0.0, 0.0))
    ax, ay, *_ = turn((direction[0], direction[1], direction[0], direction[1]))
    return abs(ay - y) < 0.05 and ax > x


def body_size(lines: Iterable[TextLine]) -> float:
    """The size of type that the middle character has when all are ordered by size; 0 for no lines.

    Text that runs up or down the page counts only where there is no other: a stamp in the margin is no body.
    """
    weights: dict[float, int] = {}
    turned: dict[float, int] = {}
    for line in lines:
        kept = weights if line.upright else turned
        kept[line.size] = kept.get(line.size, 0) + len(line.text)
    weights = weights or turned
    half = sum(weights.values()) / 2
    for size in sorted(weights):
        half -= weights[size]
        if half <= 0:
            return size
    return 0.0
