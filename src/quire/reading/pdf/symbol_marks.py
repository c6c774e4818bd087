"""Marks of list items that their file calls by a letter: "v" in a font of symbols, "ｲ", or a control character.

Such a font has shapes instead of letters, so the letter is not on the page. At the beginning of a row, before other
text, the shape is the mark of an item, and is written as a bullet.

Weakness: fonts of symbols are known by their names; a shape inside of a line stays the letter that its file says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from quire.reading.pdf.layer_words import LayerWords

BULLET = "•"
_SYMBOLS = re.compile(
    r"(?:wing|web)dings|dingbats|(?:^|\+)(?:bullets?|ornaments?)\b|(?<!al)Pi(?:One|Two|Three|Font)?(?:[,-]|$)",
    re.I,
)
_NO_LETTER = re.compile("[\x01-\x08\x0e-\x1f\x7f-\x9f\uff61-\uff9f]")
"""Control characters and half-width kana: what a font without names has for its shapes."""
_JAPANESE = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_MATHS = re.compile(r"CM(?:MI|SY|EX)|math|LINE10", re.I)
_WORD = re.compile(r"[^\W\d_]{3}")
_UPRIGHT = (1.0, 0.0)
_LEAST_ROWS = 2
_MOST_SIGNS = 3
"""A shape with the spaces around it."""
_HANGS_EM = 5.0

RawLine = dict[str, Any]


def set_marks(content: dict[str, Any], words: LayerWords) -> None:
    """Writes such marks as bullets, in MuPDF's dictionary of a page and in its words.

    Most lines cost a look at the length of a text.
    """
    lines = [line for block in content["blocks"] for line in block.get("lines", ())]
    odd = [
        line for line in lines if len(line["spans"][0]["text"]) <= _MOST_SIGNS and _begins_with_shape(line)
    ]
    odd = [line for line in odd if _begins_row(line, lines)] if odd else []
    if not odd or any(_JAPANESE.search(span["text"]) for line in lines for span in line["spans"]):
        return
    often = Counter(_shape(line) for line in odd)
    for line in odd:
        font, shape = _shape(line)
        if _SYMBOLS.search(font) or often[font, shape] >= _LEAST_ROWS:
            _write(line, shape, words)


def _shape(line: RawLine) -> tuple[str, str]:
    return line["spans"][0]["font"], line["spans"][0]["text"].strip()


def _begins_with_shape(line: RawLine) -> bool:
    """Whether its first span is one sign that may be a shape."""
    first = line["spans"][0]
    text = first["text"].strip()
    if len(text) != 1 or line["dir"] != _UPRIGHT:
        return False
    if _NO_LETTER.fullmatch(text):
        return _MATHS.search(first["font"]) is None
    return text.isascii() and text.isalnum() and _SYMBOLS.search(first["font"]) is not None


def _begins_row(line: RawLine, lines: Sequence[RawLine]) -> bool:
    """Whether nothing is close before the shape, and a word behind it, with a space between.

    The word is in the line of the shape, or in the next one of the row.
    """
    first = line["spans"][0]
    (left, top, right, bottom), size = first["bbox"], first["size"]
    y = (top + bottom) / 2
    row = [other for other in lines if other is not line and other["bbox"][1] < y < other["bbox"][3]]
    if any(left - size < other["bbox"][2] <= left + 1 for other in row):
        return False
    behind = "".join(span["text"] for span in line["spans"][1:])
    if behind.strip():
        is_apart = first["text"][-1:].isspace() or behind[0].isspace()
        return is_apart and _WORD.search(behind) is not None
    beside = [other for other in row if right - 1 <= other["bbox"][0] < right + _HANGS_EM * size]
    following = min(beside, key=lambda other: other["bbox"][0])["spans"] if beside else ()
    return any(_WORD.search(span["text"]) for span in following)


def _write(line: RawLine, shape: str, words: LayerWords) -> None:
    first = line["spans"][0]
    x0, y0, x1, y1 = first["bbox"]
    line["spans"] = [{**first, "text": first["text"].replace(shape, BULLET)}, *line["spans"][1:]]
    share = 0.5 / max(1, len(first["text"]))
    words.correct((x0 + share * (x1 - x0), (y0 + y1) / 2), shape, BULLET)
