"""Words of a model's answer beside the words of the page, one by one: which of them the page has not at that place.

Letters are compared without case and punctuation; one letter may differ in a longer word, as readers differ. Numbers
are compared with their sign and their point: 3.5 is not 35, and 450 is not -450.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from quire.reading.pdf.block_matching import compact

_NUMBER = re.compile(r"\d+(?:[.,'’]\d+)*")
_GROUPED = re.compile(r"\d{1,3}(?:[.,'’]\d{3})+")
_SEPARATORS = str.maketrans("", "", ".,'’")
_BEFORE_SIGN = "([{\"'“‘«$€£¥"
_MINUS = "-−–‐"
_CURRENCY = "$€£¥"
_MARKUP = re.compile(r"[\^_{}\\²³¹⁰⁴-⁹₀-₉]")
"""Raised and lowered figures: an answer writes 10^6 where the page's words have 106."""
_LEAST_CLOSE = 5
_LEAST_JOINED = 4
_MOST_PAIRS = 20_000
"""Of equal words of answer and page: more of them would take too long to align."""


class AnswerWord:
    """A word as it is written, and the key by which it is compared."""

    __slots__ = ("key", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.key = compact(text)

    @property
    def has_digits(self) -> bool:
        return any(map(str.isdigit, self.key))


def words_of(text: str) -> list[AnswerWord]:
    return [word for one in text.split() if (word := AnswerWord(one)).key]


def numbers_of(text: str) -> list[str]:
    """The numbers in a word, the first one with its sign: `(-$1,204.50)` has `-1,204.50`, `2019-2024` has two."""
    found = _NUMBER.findall(text)
    lead = text.lstrip(_BEFORE_SIGN)
    if found and lead[:1] in _MINUS and lead[1:].lstrip(_CURRENCY)[:1].isdigit():
        found[0] = f"-{found[0]}"
    return found


def _ungrouped(number: str) -> str:
    """Without the signs between its thousands; empty where it has none, or where they may be a decimal point."""
    bare = number.lstrip("-")
    return number.translate(_SEPARATORS) if _GROUPED.fullmatch(bare) else ""


class PageNumbers:
    """The numbers of some words: those of a page, or those at one place of it."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._written: set[str] = set()
        self._digits: set[str] = set()
        for at, text in enumerate(texts):
            self._written.update(numbers_of(text))
            before = texts[at - 1] if at else ""
            if before and (before in _MINUS or before[-1].isdigit()):
                # A minus sign may be set apart; behind a figure it is the dash of a range.
                self._written.update(f"-{one}" for one in numbers_of(text) if before in _MINUS)
                self._written.update(one.lstrip("-") for one in numbers_of(text))
            if key := compact(text):
                self._digits.add("".join(filter(str.isdigit, key)))
        runs = "".join(text if text.isdigit() else " " for text in texts)  # 1 204 is one number
        self._written.update(runs.split())
        self._digits.update(runs.split())
        self._ungrouped = {_ungrouped(one) for one in self._written} - {""}

    def has_all_of(self, word: AnswerWord) -> bool:
        """Whether each number of the word is among them, however its thousands are grouped."""
        if _MARKUP.search(word.text):
            return "".join(filter(str.isdigit, word.key)) in self._digits
        return all(map(self._has, numbers_of(word.text)))

    def _has(self, number: str) -> bool:
        return number in self._written or number in self._ungrouped or _ungrouped(number) in self._written


def differing(own: Sequence[AnswerWord], page: Sequence[AnswerWord]) -> list[int] | None:
    """Which of the answer's words the page has not at that place; None if there are too many to compare in order."""
    counts = Counter(word.key for word in page)
    if sum(counts[word.key] for word in own) > _MOST_PAIRS:
        return None
    found: list[int] = []
    matcher = SequenceMatcher(None, [word.key for word in own], [word.key for word in page], autojunk=False)
    for kind, start, end, there, there_end in matcher.get_opcodes():
        if kind == "equal":
            pairs = zip(range(start, end), page[there:there_end], strict=True)
            found += [i for i, beside in pairs if not _same_number(own[i], beside)]
        elif not _is_written_otherwise(own[start:end], page[there:there_end]):
            found += [i for i in range(start, end) if not _has_like(page[there:there_end], own[i])]
    return found


def in_any_order(own: Iterable[AnswerWord], page: Iterable[str]) -> int:
    """How many of the answer's words the page has not, each word of the page counted once."""
    return (Counter(word.key for word in own) - Counter(page)).total()


def _same_number(word: AnswerWord, beside: AnswerWord) -> bool:
    return not word.has_digits or PageNumbers([beside.text]).has_all_of(word)


def _is_written_otherwise(own: Sequence[AnswerWord], page: Sequence[AnswerWord]) -> bool:
    """Whether both have the same letters with other spaces between them."""
    ours, theirs = ("".join(word.key for word in words) for words in (own, page))
    if any(word.has_digits for word in own):
        return ours == theirs
    return len(ours) >= _LEAST_JOINED and ours in theirs


def _has_like(page: Sequence[AnswerWord], word: AnswerWord) -> bool:
    if word.has_digits or len(word.key) < _LEAST_CLOSE:
        return False
    return any(_is_close(word.key, beside.key) for beside in page)


def _is_close(one: str, other: str) -> bool:
    """Whether one letter was changed, added or left out."""
    longest, shortest = max(len(one), len(other)), min(len(one), len(other))
    if longest - shortest > 1:
        return False
    same = 0
    while same < shortest and one[same] == other[same]:
        same += 1
    behind = 0
    while behind < shortest - same and one[-1 - behind] == other[-1 - behind]:
        behind += 1
    return longest - same - behind <= 1
