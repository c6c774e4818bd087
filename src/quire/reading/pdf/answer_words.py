"""Words of a model's answer beside the words of the page, one by one: which of them the page has not at that place.

Letters are compared without case and punctuation; one letter may differ in a longer word, as readers differ. Numbers
are compared with their sign, their point and what they are numbers of: 3.5 is not 35, 450 is not -450, and $5 is not
€5. Marks of check boxes are words.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from quire.reading.pdf.block_matching import compact

_NUMBER = re.compile(r"\d+(?:[.,'’]\d+)*")
_GROUPED = re.compile(r"\d{1,3}(?:[.,'’]\d{3})+")
_SEPARATORS = str.maketrans("", "", ".,'’")
_BEFORE_SIGN = "([{\"'“‘«$€£¥"
_MINUS = "-−–‐—―‒➖˗"
_CURRENCY = "$€£¥"
_AHEAD, _BEHIND = frozenset("<>≤≥≠≈±"), frozenset("%‰‱")
"""What else, beside the signs of currencies, says what the number behind or before it means."""
_TICKS = frozenset("☐☑☒✓✔✗✘✅❌❎")
_MARKUP = re.compile(r"[\^_²³¹⁰⁴-⁹₀-₉]")
"""Raised and lowered figures: an answer writes 10^6 where the page's words have 106."""
_LATEX = str.maketrans("", "", "{}\\")
_IN_DOLLARS = re.compile(r"\$(?=\S)([^$\n]+)(?<=\S)\$(?!\d)")
_INVISIBLE = re.compile(
    r"[\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)
_BRACKETED = re.compile(r"\([^()]*\d[^()]*\)")
_ENDS_IN_MINUS = re.compile(r"[^\w]*\d[\d.,'’]*[-−]")
_CELL_END = re.compile(r"[\t\n]")
IN_BRACKETS = "("
"""Numbers of tables are negative in brackets."""
_LEAST_CLOSE = 5
_LEAST_JOINED = 4
_MOST_PAIRS = 20_000
"""Of equal words of answer and page: more of them would take too long to align."""


class AnswerWord:
    """A word as it is written, and the key by which it is compared.

    A number behind a dash may be negative or not: the dash may be that of a range, or an empty cell.
    """

    __slots__ = ("is_either", "key", "text")

    def __init__(self, text: str, *, is_either: bool = False) -> None:
        self.text = text if text.isascii() else _plainly(text)
        self.key = compact(self.text) or "".join(sorted(_TICKS.intersection(text)))
        self.is_either = is_either

    @property
    def has_digits(self) -> bool:
        return any(map(str.isdigit, self.key))

    @property
    def signs(self) -> set[str]:
        """What its number is a number of, and whether it stands in brackets or has its minus behind it."""
        found = {sign for sign in self.text if sign in _AHEAD or sign in _BEHIND or _is_currency(sign)}
        if _BRACKETED.fullmatch(self.text.strip(_CURRENCY)):
            found.add(IN_BRACKETS)
        if _ENDS_IN_MINUS.fullmatch(self.text):
            found.add("-")
        return found


def _plainly(text: str) -> str:
    """The word as it is seen: figures of full width and invisible signs make no other word."""
    shown = _INVISIBLE.sub("", text).replace("\u00ad", "-")
    return shown if _MARKUP.search(shown) else _normalised(shown)


def _normalised(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _is_currency(sign: str) -> bool:
    return sign == "$" or (not sign.isascii() and unicodedata.category(sign) == "Sc")


def words_of(text: str) -> list[AnswerWord]:
    """The words of a text of an answer, cell by cell."""
    if "$" in text:
        text = _IN_DOLLARS.sub(r"\1", text)
    return [word for cell in _CELL_END.split(text) for word in _words_of_cell(cell.split()) if word.key]


def _words_of_cell(texts: list[str]) -> list[AnswerWord]:
    if len(texts) == 2 and texts[0] in _MINUS and texts[1].lstrip(_CURRENCY)[:1].isdigit():
        texts = ["".join(texts)]  # a number with its minus set apart
    return words_in_row(texts)


def words_in_row(texts: Sequence[str]) -> list[AnswerWord]:
    """A word for each of these texts. Signs that are set apart from their number are part of it."""
    found = list(map(AnswerWord, texts))
    for at, word in enumerate(found):
        if not word.has_digits:
            continue
        before = texts[at - 1] if at and not found[at - 1].key else ""
        behind = texts[at + 1] if at + 1 < len(found) and not found[at + 1].key else ""
        lead = before if _are_signs(before, _AHEAD) else ""
        tail = behind if _are_signs(behind, _BEHIND) else ""
        is_either = bool(before) and before in _MINUS
        if lead or tail or is_either:
            found[at] = AnswerWord(f"{lead}{texts[at]}{tail}", is_either=is_either)
    return found


def signs_apart(texts: Iterable[str]) -> frozenset[str]:
    """The signs of currencies and shares that are words by themselves, as those of a column or of its head."""
    alone = {text for text in texts if not any(map(str.isalnum, text))}
    return frozenset(sign for text in alone for sign in text if sign in _BEHIND or _is_currency(sign))


def _are_signs(text: str, others: frozenset[str]) -> bool:
    return bool(text) and all(sign in others or _is_currency(sign) for sign in text)


def numbers_of(text: str) -> list[str]:
    """The numbers in a word, the first one with its sign: `(-$1,204.50)` has `-1,204.50`, `2019-2024` has two."""
    text = text.translate(_LATEX)
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
        texts = [text if text.isascii() else _normalised(text) for text in texts]
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """How words are compared. `signs_apart` of the page may be with numbers or not.

    `is_exact`: the page's words are those of its file, so that no letter may differ but for its accent.
    """

    is_exact: bool = False
    is_table: bool = False
    signs_apart: frozenset[str] = frozenset()

    def differing(self, own: Sequence[AnswerWord], page: Sequence[AnswerWord]) -> list[int] | None:
        """Which of the answer's words the page has not at that place; None if there are too many for this."""
        counts = Counter(word.key for word in page)
        if sum(counts[word.key] for word in own) > _MOST_PAIRS:
            return None
        found: list[int] = []
        keys = [word.key for word in own]
        matcher = SequenceMatcher(None, keys, [word.key for word in page], autojunk=False)
        for kind, start, end, there, there_end in matcher.get_opcodes():
            if kind == "equal":
                pairs = zip(range(start, end), page[there:there_end], strict=True)
                found += [i for i, beside in pairs if not self._same_number(own[i], beside)]
            elif not _is_written_otherwise(own[start:end], page[there:there_end]):
                found += [i for i in range(start, end) if not self._has_like(page[there:there_end], own[i])]
        return found

    def _same_number(self, word: AnswerWord, beside: AnswerWord) -> bool:
        if not word.has_digits or word.text == beside.text:
            return True
        apart = self.signs_apart if self.is_table else self.signs_apart | {IN_BRACKETS}
        if (word.signs ^ beside.signs) - apart:
            return False
        texts = [beside.text, f"-{beside.text}"] if beside.is_either else [beside.text]
        return PageNumbers(texts).has_all_of(word)

    def _has_like(self, page: Sequence[AnswerWord], word: AnswerWord) -> bool:
        if word.has_digits or len(word.key) < _LEAST_CLOSE:
            return False
        if self.is_exact:
            bare = _without_accents(word.key)
            return any(bare == _without_accents(beside.key) for beside in page)
        return any(_is_close(word.key, beside.key) for beside in page)


def _without_accents(key: str) -> str:
    if key.isascii():
        return key
    return "".join(sign for sign in unicodedata.normalize("NFKD", key) if not unicodedata.combining(sign))


def in_any_order(own: Iterable[AnswerWord], page: Iterable[str]) -> int:
    """How many of the answer's words the page has not, each word of the page counted once."""
    return (Counter(word.key for word in own) - Counter(page)).total()


def _is_written_otherwise(own: Sequence[AnswerWord], page: Sequence[AnswerWord]) -> bool:
    """Whether both have the same letters with other spaces between them."""
    ours, theirs = ("".join(word.key for word in words) for words in (own, page))
    if any(word.has_digits for word in own):
        return ours == theirs
    return len(ours) >= _LEAST_JOINED and ours in theirs


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
