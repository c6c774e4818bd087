"""Finds text layers that have lost letters, although each of their words looks like one.

A font whose ligatures have no letters gives "signiicant" for "significant", or no "fi", "fl" and "ff" at all. A layer
that was made for searching may have neither capitals nor full stops. Bytes taken for another encoding give "Ã¤" for
"ä". Each is looked for by what sound text never has, so that a sound layer is not doubted.

Weakness: Latin script only; a page with few words says nothing.
"""

from __future__ import annotations

import re

LOST_LIGATURES = "lost_ligatures"
LOST_CAPITALS = "lost_capitals"
WRONG_ENCODING = "wrong_encoding"

_LOST_FI = re.compile(r"\b(?:d|[a-zß-ÿ]{2,})ii(?:c[a-zß-ÿ]*|e[drs]|ée?s?)\b")
"""What "-ific-", "-iffic-", "-ified", "-ifier" and "-ifies" become; languages with words in "ii", as Finnish, have none
of these.
"""
_MAY_LACK_FI = re.compile(r"[a-zß-ÿ]ii(?:c|e[drs])")
_LOST_TH = re.compile(r"(?:^|[.!?]\s+)h(?:e|is|ese|ere|ey|at|us)\b", re.MULTILINE)
"""What "The" and "This" become at the beginning of a sentence."""
_LEAST_TORN = 2
_F_BEFORE, _LETTERS_F = re.compile(r"f(?=[a-zß-öø-ÿ])"), 45
"""Of the corpus a third of these are before f, i or l, and on no sound page less than a tenth."""
_SOME_LETTERS_F = 10
_SMALL = re.compile(r"\b[a-zß-öø-ÿ]{2,}\b")
_CAPITAL = re.compile(r"\b[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]+")
_LEAST_SMALL, _MOST_CAPITALS, _WORDS_A_STOP = 100, 0.03, 150
_SIGNS, _MOST_SIGNS = re.compile(r"[^\w\s-]"), 0.01
_SENTENCE_END = re.compile(r"\w[.!?](?:\s|$)")
_TWO_BYTES = re.compile(r"Ã[\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u2013-\u2026\u20ac]|â€")
_LEAST_TWO_BYTES = 3


UNREADABLE = frozenset((LOST_CAPITALS, WRONG_ENCODING))
"""With these a layer is not the text of its page; without its ligatures it is, but for some letters."""


def layer_damage(text: str) -> tuple[str, ...]:
    """What the text has lost; nothing for sound text. Most pages cost a few searches without expressions."""
    found = (
        (LOST_LIGATURES, _has_lost_ligatures(text)),
        (LOST_CAPITALS, _has_lost_capitals(text)),
        (WRONG_ENCODING, ("Ã" in text or "â" in text) and len(_TWO_BYTES.findall(text)) >= _LEAST_TWO_BYTES),
    )
    return tuple(reason for reason, is_found in found if is_found)


def may_lack_ligatures(text: str) -> bool:
    """Whether it is worth looking at the glyphs: it has no ligature and would be likely to, or a word without one."""
    if "ii" in text and _MAY_LACK_FI.search(text):
        return True
    if "Th" not in text and "he" in text and _LOST_TH.search(text):
        return True
    has_any = any(pair in text for pair in ("fi", "ff", "fl"))
    return (
        not has_any and text.count("f") >= _SOME_LETTERS_F and len(_F_BEFORE.findall(text)) >= _SOME_LETTERS_F
    )


def _has_lost_ligatures(text: str) -> bool:
    has_any = any(pair in text for pair in ("fi", "ff", "fl"))
    if not has_any and text.count("f") >= _LETTERS_F and len(_F_BEFORE.findall(text)) >= _LETTERS_F:
        return True
    if "ii" not in text:
        return False
    return len(set(_LOST_FI.findall(text))) >= (_LEAST_TORN if has_any else 1)


def _has_lost_capitals(text: str) -> bool:
    if text.count(". ") + text.count(".\n") > len(text) // 600:
        return False
    if len(_SIGNS.findall(text)) > _MOST_SIGNS * len(text):
        return False  # code and lists of words have no capitals, but signs
    small = len(_SMALL.findall(text))
    return (
        small >= _LEAST_SMALL
        and len(_CAPITAL.findall(text)) <= _MOST_CAPITALS * small
        and len(_SENTENCE_END.findall(text)) <= small // _WORDS_A_STOP
    )
