"""Raised figures, written as such: a power is no factor, and the mark of a note is no part of a number.

One rule for PDFs and office files (docs/reading.md). Raised letters, and runs that have a letter in them, are plain:
Unicode has only some of them ("5th", "xn+1").
"""

from __future__ import annotations

import re

_SIGNS = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
_FIGURES = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_POWER = re.compile(r"\s*(?:[+−–-]?[0-9]+|[0-9]+[+−-])\s*")
_CHARGE = re.compile(r"\s*[+−-]\s*")
_NOTES = re.compile(r"\s*[0-9][0-9,;*†‡§–-]*\s*")
_CLOSING = frozenset(".,;:!?)]}”’\"'%°*†‡")


def raised_text(text: str, before: str, after: str) -> str:
    """How a raised text is written behind the text `before`, and before the text `after`."""
    last = before[-1:]
    if not (last.isalnum() or last in _CLOSING):
        return text
    if _POWER.fullmatch(text) or (_CHARGE.fullmatch(text) and not after[:1].isalnum()):
        return text.translate(_SIGNS)
    return text.translate(_FIGURES) if _NOTES.fullmatch(text) else text
