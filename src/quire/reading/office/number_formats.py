"""Formats of numbers in a workbook: thousands, decimals, per cent, currencies, brackets for what is negative, words.

A format that has anything else is not understood, and its numbers stay as they are stored: a plain number is better
than a wrong one. Those are fractions, exponents and conditions. Formats of dates are not read here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache

from quire.reading.office.inline_markdown import plain

_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|_.|\*(?P<fill>.)|\[\$(?P<currency>[^\]-]*)(?:-[^\]]*)?\]'
    r"|\[(?:black|blue|cyan|green|magenta|red|white|yellow|color ?\d{1,2})\]|(?P<general>general)"
    r"|(?P<mark>[0#?.,%@])|(?P<end>;)|(?P<sign>[-+$()\s:!'=]|[^\x00-\x7f])",
    re.IGNORECASE | re.DOTALL,
)
_LONGEST_CODE = 255
"""What Excel itself takes."""
_MOST_DECIMALS = 30
_MOST_MARKS = 4
"""Of per cent, or of thousands that are left out."""
_LARGEST = 1e15
"""A number has 15 figures. What a format would show of more is made up."""
_EXACT = Context(prec=60, rounding=ROUND_HALF_UP)
_GENERAL, _WORDS, _PER_CENT = "general", "@", "%"
_DIGITS = frozenset("0#?")
_BUILT_IN = {
    1: "0",
    2: "0.00",
    **dict.fromkeys((3, 5, 6), "#,##0"),
    **dict.fromkeys((4, 7, 8), "#,##0.00"),
    9: "0%",
    10: "0.00%",
    **dict.fromkeys((37, 38), "#,##0_);(#,##0)"),
    **dict.fromkeys((39, 40), "#,##0.00_);(#,##0.00)"),
    **dict.fromkeys((41, 42), '#,##0_);(#,##0);"-"'),
    **dict.fromkeys((43, 44), '#,##0.00_);(#,##0.00);"-"'),
}
"""Formats that a workbook need not write down. Those of money have the currency of the reader's machine: none here."""


@dataclass(frozen=True, slots=True)
class _Section:
    """The text around a number, and its places.

    `whole` are the signs of the part before the point, from the left, with the texts between them, each behind a zero
    byte; None where the section has no places, but its texts alone, or with `is_general` the number as it is.
    """

    before: str
    after: str
    whole: tuple[str, ...] | None = None
    decimals: str = ""
    has_point: bool = False
    has_thousands: bool = False
    shift: int = 0
    """By how many powers of ten the number is shown larger than it is: two for each per cent, less for thousands."""
    is_general: bool = False

    def shown(self, number: float) -> str:
        """The number, which is not negative."""
        if self.is_general:
            return f"{self.before}{plain_number(number)}{self.after}"
        if self.whole is None:
            return self.before
        value = Decimal(f"{number:.15g}").scaleb(self.shift)
        value = value.quantize(Decimal(1).scaleb(-len(self.decimals)), context=_EXACT)
        whole, _, decimals = f"{value:f}".partition(".")
        kept = len(self.decimals.rstrip("#?"))
        decimals = decimals[:kept] + decimals[kept:].rstrip("0")
        point = "." if self.has_point and decimals else ""
        return f"{self.before}{self._whole(whole)}{point}{decimals}{self.after}"

    def _whole(self, digits: str) -> str:
        signs = self.whole or ()
        places = [sign for sign in signs if sign in _DIGITS]
        first = next((at for at, sign in enumerate(places) if sign == "0"), len(places))
        digits = ("" if digits == "0" else digits).zfill(len(places) - first)
        if self.has_thousands:
            head = len(digits) % 3
            return ",".join(filter(None, [digits[:head], *_threes(digits[head:])]))
        if len(places) == len(signs):
            return digits
        # Texts between the places: the places are filled from the right, and the first one takes what is left.
        made: list[str] = []
        left = len(places)
        for sign in reversed(signs):
            if sign not in _DIGITS:
                made.append(sign[1:] if digits else "")
                continue
            left -= 1
            cut = max(0, len(digits) - 1) if left else 0
            made.append(digits[cut:])
            digits = digits[:cut]
        return "".join(reversed(made))


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """`words` are, as Markdown, the texts before and after a text in a cell of this format; None where it adds none."""

    sections: tuple[_Section, ...]
    words: tuple[str, str] | None = None

    def shown(self, number: float) -> str:
        """The number as its cell shows it. One that the format would hide is shown as it is, but for zero."""
        if not abs(number) < _LARGEST or not self.sections:
            return plain_number(number)
        section, sign = self.sections[0], ""
        if number < 0 and len(self.sections) > 1:
            section = self.sections[1]
        elif number < 0:
            sign = "-"
        elif number == 0 and len(self.sections) > 2:
            section = self.sections[2]
        text = " ".join(section.shown(abs(number)).split())
        if sign and any("1" <= one <= "9" for one in text):
            text = f"-{text}"
        return text if text or not number else plain_number(number)

    def worded(self, text: str) -> str:
        """A text, which is Markdown, as its cell shows it."""
        return " ".join(f"{self.words[0]}{text}{self.words[1]}".split()) if self.words and text else text


def format_of(number: int, code: str | None) -> NumberFormat | None:
    """A format by its number, and by its code where the workbook has one. None: nothing is shown otherwise."""
    written = code if code is not None else _BUILT_IN.get(number)
    return read_format(written) if written else None


@lru_cache(maxsize=500)
def read_format(code: str) -> NumberFormat | None:
    """The format with that code; None where it is not understood, or shows numbers as they are."""
    if code.lower() in (_GENERAL, _WORDS) or len(code) > _LONGEST_CODE:
        return None
    sections: list[list[str]] = [[]]
    at = 0
    while at < len(code):
        found = _TOKEN.match(code, at)
        if found is None:
            return None
        at = found.end()
        if found["end"]:
            sections.append([])
        else:
            sections[-1].append(_part(found))
    *numbers, words = sections if len(sections) == 4 else [*sections, []]
    if len(sections) == 1 and _WORDS in words + sections[0]:
        numbers, words = [], sections[0]
    made = [_section(parts) for parts in numbers]
    if len(sections) > 4 or None in made:
        return None
    around = _around(words)
    return NumberFormat(tuple(one for one in made if one is not None), around)


def _part(found: re.Match[str]) -> str:
    """A mark as it is; a text with a zero byte before it, so that it is none."""
    if found["mark"]:
        return found["mark"]
    if found["general"]:
        return _GENERAL
    if found["fill"]:
        return "\0 " if found["fill"] == " " else "\0"
    for name in ("quoted", "escaped", "currency", "sign"):
        if found[name] is not None:
            return f"\0{found[name]}"
    return "\0 " if found[0].startswith("_") else "\0"


def _around(parts: Sequence[str]) -> tuple[str, str] | None:
    """The texts before and after the text of a cell."""
    if parts.count(_WORDS) != 1 or any(one[:1] != "\0" and one != _WORDS for one in parts):
        return None
    at = parts.index(_WORDS)
    before, after = plain(_text(parts[:at])), plain(_text(parts[at + 1 :]))
    return (before, after) if before.strip() or after.strip() else None


def _text(parts: Sequence[str]) -> str:
    """The text of parts that are no places; a sign of per cent is one of them."""
    return "".join(one.removeprefix("\0") for one in parts)


def _section(parts: Sequence[str]) -> _Section | None:
    """None where the parts are not understood."""
    if _WORDS in parts:
        return None
    places = [at for at, one in enumerate(parts) if one in _DIGITS or one == "."]
    if _GENERAL in parts:
        at = parts.index(_GENERAL)
        is_plain = not places and parts.count(_GENERAL) == 1 and not {",", "%"} & set(parts)
        return _Section(_text(parts[:at]), _text(parts[at + 1 :]), is_general=True) if is_plain else None
    if not places:
        return _Section(_text(parts), "") if not {",", "%"} & set(parts) else None
    first, end = places[0], places[-1] + 1
    while end < len(parts) and parts[end] == ",":
        end += 1
    before, core, after = parts[:first], list(parts[first:end]), parts[end:]
    thousands = 0
    while core[-1] == ",":
        core.pop()
        thousands += 1
    point = core.index(".") if "." in core else len(core)
    whole, decimals = core[:point], core[point + 1 :]
    while whole and whole[-1] == ",":
        whole.pop()
        thousands += 1
    has_commas = "," in whole
    whole = [one for one in whole if one != ","]
    texts = [one for one in whole if one not in _DIGITS]
    is_known = (
        all(one in _DIGITS for one in decimals)
        and len(decimals) <= _MOST_DECIMALS
        and not ({",", "."} & {*before, *after})
        and all(one[:1] == "\0" for one in texts)
        and not (has_commas and texts)
    )
    if not is_known:
        return None
    per_cent = (*before, *after).count(_PER_CENT)
    if per_cent > _MOST_MARKS or thousands > _MOST_MARKS:
        return None
    return _Section(
        _text(before),
        _text(after),
        tuple(whole),
        "".join(decimals),
        point < len(core),
        has_commas,
        2 * per_cent - 3 * thousands,
    )


def _threes(digits: str) -> list[str]:
    return [digits[at : at + 3] for at in range(0, len(digits), 3)]


def plain_number(number: float) -> str:
    """A number without its binary noise."""
    if number == int(number) if abs(number) < _LARGEST else False:
        return str(int(number))
    return f"{number:.15g}"
