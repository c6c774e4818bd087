"""Takes out signs that are drawn rules: a reader sees the border of a cell as "|", "[" or "I".

A letter is never on a rule. So a sign of that look whose place is that of a rule which goes on above or below it is
none; at an end of a word it is cut off.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage
from quire.reading.pdf.drawn_rules import DrawnRule, Rules

_STROKES = re.compile(r"[|¦\[\](){}Il!]{1,2}")
_AT_END = "|¦"
_LONGER = 1.5
_NARROW, _OFF = 0.6, 0.2
"""In heights of the word: how wide such a sign is at most, and how far it may be from the rule."""


def without_rule_signs(seen: RecognisedPage, rules: Rules) -> RecognisedPage:
    """The page without the words that are pieces of its upright rules."""
    if not rules.vertical or not any(map(_has_stroke, seen.words())):
        return seen
    paragraphs: list[list[OcrLine]] = []
    for paragraph in seen.paragraphs:
        lines = [
            replace(line, words=words) for line in paragraph if (words := _kept(line.words, rules.vertical))
        ]
        if lines:
            paragraphs.append(lines)
    return replace(seen, paragraphs=paragraphs)


def _has_stroke(word: OcrWord) -> bool:
    return bool(_STROKES.fullmatch(word.text)) or word.text[0] in _AT_END or word.text[-1] in _AT_END


def _kept(words: Sequence[OcrWord], rules: Sequence[DrawnRule]) -> list[OcrWord]:
    kept: list[OcrWord] = []
    for word in words:
        if not _has_stroke(word):
            kept.append(word)
            continue
        beside = [rule.at for rule in rules if _goes_on_beside(rule, word)]
        off = _OFF * word.height
        if _STROKES.fullmatch(word.text):
            is_rule = word.right - word.left <= _NARROW * word.height and any(
                word.left - off <= at <= word.right + off for at in beside
            )
            kept += [] if is_rule else [word]
            continue
        text = word.text
        if any(abs(at - word.left) <= 2 * off for at in beside):
            text = text.lstrip(_AT_END)
        if any(abs(at - word.right) <= 2 * off for at in beside):
            text = text.rstrip(_AT_END)
        kept += [replace(word, text=text)] if text else []
    return kept


def _goes_on_beside(rule: DrawnRule, word: OcrWord) -> bool:
    """Whether an upright rule runs along the whole word and beyond it."""
    is_along = rule.start <= word.top + word.height / 2 <= rule.end
    return is_along and rule.end - rule.start >= _LONGER * word.height
