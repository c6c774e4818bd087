"""Numbers of lists on slides: how they are written (PPTX, PPT), and where PowerPoint 2000 keeps them ([MS-PPT])."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from quire.reading.office.word_styles import written_number

_FORMATS = {
    "arabic": "decimal",
    "alphaLc": "lowerLetter",
    "alphaUc": "upperLetter",
    "romanLc": "lowerRoman",
    "romanUc": "upperRoman",
}
_SCHEME = re.compile(r"(arabic|alphaLc|alphaUc|romanLc|romanUc)(Period|ParenR|ParenBoth|Plain)")
_SCHEMES = (
    *("alphaLcPeriod", "alphaUcPeriod", "arabicParenR", "arabicPeriod", "romanLcParenBoth", "romanLcParenR"),
    *(
        "romanLcPeriod",
        "romanUcPeriod",
        "alphaLcParenBoth",
        "alphaLcParenR",
        "alphaUcParenBoth",
        "alphaUcParenR",
    ),
    *("arabicParenBoth", "arabicPlain", "romanUcParenBoth", "romanUcParenR"),
)
_DEFAULT = "arabicPeriod"
_DEEPEST = 8
_BLIP, _PLACE, _IS_NUMBERED = 1 << 23, 1 << 24, 1 << 25
_STYLE_BITS = 0x3FFF
_LETTER_FIELDS = (
    *((0x10000, 2), (0x200000, 2), (0x400000, 2), (0x800000, 2), (0x20000, 2), (0x40000, 4)),
    (0x80000, 2),
)
"""Optional fields of the properties of letters behind their style, in their order: (bit, bytes)."""
_SPELLING_FIELDS = ((0x1, 2), (0x2, 2), (0x4, 2), (0x40, 2), (0x20, 4))


class AutoNumber(NamedTuple):
    """How a paragraph is numbered, and with what the list begins."""

    scheme: str = _DEFAULT
    start: int = 1


class SlideNumbers:
    """Counts the paragraphs of a text, which are to be asked for in their order."""

    def __init__(self) -> None:
        self._counts: list[tuple[AutoNumber, int] | None] = [None] * (_DEEPEST + 1)

    def label(self, depth: int, number: AutoNumber | None) -> tuple[str, str]:
        """The marker of a paragraph as Markdown takes it, and the number that is shown before it if that is another."""
        self._counts[depth + 1 :] = [None] * (_DEEPEST - depth)
        if number is None:
            self._counts[depth] = None
            return "-", ""
        last = self._counts[depth]
        count = last[1] + 1 if last is not None and last[0] == number else number.start
        self._counts[depth] = (number, count)
        found = _SCHEME.fullmatch(number.scheme)
        form, sign = (found[1], found[2]) if found else ("arabic", "Period")
        shown = written_number(count, _FORMATS[form])
        if form == "arabic" and sign != "ParenBoth":
            return f"{count}.", ""
        ends = {"Period": ("", "."), "ParenR": ("", ")"), "ParenBoth": ("(", ")"), "Plain": ("", "")}
        return "-", f"{ends[sign][0]}{shown}{ends[sign][1]}"


def auto_numbers(data: bytes) -> list[AutoNumber | None]:
    """The entries of a record of further properties of a text (StyleTextProp9Atom)."""
    found: list[AutoNumber | None] = []
    at = 0
    while at + 4 <= len(data):
        mask = _u32(data, at)
        at += 4 + (2 if mask & _BLIP else 0)
        is_numbered = False
        if mask & _IS_NUMBERED:
            is_numbered, at = bool(_u16(data, at)), at + 2
        number = AutoNumber()
        if mask & _PLACE:
            scheme, start = _u16(data, at), _u16(data, at + 2)
            number = AutoNumber(_SCHEMES[scheme] if scheme < len(_SCHEMES) else _DEFAULT, max(1, start))
            at += 4
        found.append(number if is_numbered else None)
        at += 4 + (4 if _u32(data, at) & 0x100000 else 0)
        flags = _u32(data, at)
        at += 4 + sum(size for bit, size in _SPELLING_FIELDS if flags & bit)
    return found


def letter_runs(style: bytes, at: int, length: int) -> Iterator[tuple[int, int]]:
    """(end, place of the entry of `auto_numbers`) of each stretch of letters; their properties begin at `at`."""
    end = 0
    while end < length and at + 8 <= len(style):
        count, mask = struct.unpack_from("<II", style, at)
        at += 8
        place = 0
        if mask & _STYLE_BITS:
            place, at = _u16(style, at) >> 10 & 15, at + 2
        at += sum(size for bit, size in _LETTER_FIELDS if mask & bit)
        end += count
        yield end, place


def _u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")
