"""Corrects the marks of list items that OCR takes for other signs or for letters: "¢ dry gloves" has a bullet.

No reader knows small filled circles: it gives signs of about their look, and is hardly sure of them. So marks are
corrected before words that a reader is not sure of are dropped as specks. A sign alone may be what it seems ("©" before
a year, "«" before a quotation); a list has several marks, at one place before texts that begin at one place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from quire.reading.ocr.ocr_words import NOISE, OcrLine, RecognisedPage

BULLET = "•"
_MARK = re.compile(r"[¢©®™«»°*¤§+=~.,:;_^'\"‘’“”<>›‹\-–—•◦▪‣·■●○□]{1,2}|[eEoOQ0vVyY/]")
_LETTER = re.compile(r"[eEoOQ0]")
_TICK = re.compile(r"[vVyY/]")
_DOUBTFUL = 0.7
_ALONE = re.compile(r"[¢•·◦▪‣■●○□]")
"""No sentence begins with such a sign."""
_IN_A_LIST = re.compile(r"[¢©®™«»°•·◦▪‣■●○□]")
"""Signs that are a mark wherever another mark is at the same place."""
_SAME_PLACE = 0.6
_GAP = 0.35


def with_bullets(seen: RecognisedPage) -> RecognisedPage:
    """The page with bullets where OCR took the marks of list items for something else."""
    marked = [line for line in seen.lines() if begins_with_mark(line)]
    bullets = {id(line) for line in marked if _is_bullet(line, marked)}
    if not bullets:
        return seen
    paragraphs = [
        [_with_bullet(line) if id(line) in bullets else line for line in paragraph]
        for paragraph in seen.paragraphs
    ]
    return replace(seen, paragraphs=paragraphs)


def begins_with_mark(line: OcrLine) -> bool:
    """Whether the first word of a line may be a mark, by its signs and the gap behind it."""
    if len(line.words) < 2 or not _MARK.fullmatch(line.words[0].text):
        return False
    first, second = line.words[:2]
    is_apart = second.left - first.right >= _GAP * line.height
    return is_apart or _IN_A_LIST.search(first.text) is not None


def _is_bullet(line: OcrLine, marked: Sequence[OcrLine]) -> bool:
    mark, text = line.words[:2]
    beside = [other for other in marked if other is not line and _is_at_one_place(line, other)]
    if _LETTER.fullmatch(mark.text):
        # "o" and "e" are words in some languages: a letter is a mark only in a list that has others like it.
        return len(beside) >= 2 and mark.confidence >= NOISE and mark.height < 0.8 * text.height
    if _TICK.fullmatch(mark.text):
        # "Y" is a word too, but then its reader is sure of it.
        ticks = [line, *(other for other in beside if _TICK.fullmatch(other.words[0].text))]
        return len(ticks) >= 2 and all(one.words[0].confidence < _DOUBTFUL for one in ticks)
    if _IN_A_LIST.search(mark.text):
        is_in_list = len(beside) >= 2 or any(_IN_A_LIST.search(other.words[0].text) for other in beside)
        return is_in_list or (mark.confidence >= NOISE and _ALONE.fullmatch(mark.text) is not None)
    return mark.confidence >= NOISE and (mark.text in "*-–—" or bool(beside))


def _is_at_one_place(line: OcrLine, other: OcrLine) -> bool:
    """Whether the marks of two lines begin or end at one place, and their texts begin at one."""
    mark, text = line.words[:2]
    other_mark, other_text = other.words[:2]
    near = _SAME_PLACE * line.height
    is_level = abs(other_mark.left - mark.left) <= near or abs(other_mark.right - mark.right) <= near
    return is_level and abs(other_text.left - text.left) <= near


def _with_bullet(line: OcrLine) -> OcrLine:
    first, second = line.words[:2]
    if first.text in ("-", "–", "—"):
        return line
    # A bullet is no measure of the type: it gets the height of the word behind it. Its place tells what it is,
    # so it is as sure as that word.
    bullet = replace(
        first,
        text=BULLET,
        top=second.top,
        bottom=second.bottom,
        confidence=max(first.confidence, second.confidence),
    )
    return replace(line, words=[bullet, *line.words[1:]])
