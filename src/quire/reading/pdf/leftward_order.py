"""The order in which pieces of a line are read where it has Hebrew or Arabic, from the order in which they are seen.

This is the inverse of the bidirectional algorithm of Unicode, as far as places alone tell it: a line that is read from
right to left has its pieces from right to left, but for figures and for words of other scripts, which keep their order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

LEFTWARD = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
"""A letter that is written from right to left."""

MIRRORED = str.maketrans("()[]{}<>«»‹›", ")(][}{><»«›‹")
_OPENING, _CLOSING = "([{«‹", ")]}»›"
_IN_NUMBERS = frozenset(".,:/+-−–%$€£₪°#")


class Piece(NamedTuple):
    """A run of signs of one kind: `R` for letters read from right to left, `L` for others, `E` for figures, `N`."""

    text: str
    kind: str
    has_space: bool
    """Whether there is a space between it and the piece to the right of it."""


class Placed(NamedTuple):
    """The place of a piece among those given, and whether it is read from right to left there."""

    at: int
    is_leftward: bool


def kind_of(sign: str) -> str:
    """The kind of a sign; empty for marks, which are of the kind of their letter."""
    found = unicodedata.bidirectional(sign)
    if found in ("R", "AL"):
        return "R"
    if found in ("EN", "AN"):
        return "E"
    return {"L": "L", "NSM": ""}.get(found, "N")


def word_kind(word: str) -> str:
    """The kind of a word: that of its first letter, else of a figure."""
    kinds = [kind_of(sign) for sign in word]
    return next((kind for kind in kinds if kind in ("R", "L")), "E" if "E" in kinds else "N")


def is_mainly_leftward(text: str) -> bool:
    """Whether at least half of the letters are read from right to left."""
    leftward = len(LEFTWARD.findall(text))
    return leftward > 0 and 2 * leftward >= sum(map(str.isalpha, text))


def words_in_order(words: Sequence[str]) -> list[str]:
    """Words that are given as they are seen from left to right, in the order in which they are read."""
    if not any(LEFTWARD.search(word) for word in words if not word.isascii()):
        return list(words)
    pieces = [Piece(word, word_kind(word), True) for word in words]
    return [words[one.at] for one in in_order(pieces, is_mainly_leftward("".join(words)))]


def in_order(pieces: Sequence[Piece], is_leftward: bool) -> list[Placed]:
    """The pieces, given from left to right, in the order in which they are read."""
    return _leftward(pieces, range(len(pieces))) if is_leftward else _rightward(pieces)


def _rightward(pieces: Sequence[Piece]) -> list[Placed]:
    """A line that is read from left to right: runs from one leftward piece to the last before another script's."""
    found: list[Placed] = []
    at = 0
    while at < len(pieces):
        last = at
        if pieces[at].kind == "R":
            ahead = at
            while ahead < len(pieces) and pieces[ahead].kind != "L":
                last = ahead if pieces[ahead].kind == "R" else last
                ahead += 1
            found += _leftward(pieces, range(at, last + 1))
        else:
            found.append(Placed(at, False))
        at = last + 1
    return found


def _leftward(pieces: Sequence[Piece], places: range) -> list[Placed]:
    runs: list[list[Placed]] = []
    at = places.start
    while at < places.stop:
        stop = _run_end(pieces, at, places.stop) if pieces[at].kind in "LE" or _is_sign(pieces, at) else at
        if stop == at:
            runs.append([Placed(at, True)])
            at += 1
        else:
            runs.append([Placed(one, False) for one in range(at, stop)])
            at = stop
    return [one for run in reversed(runs) for one in run]


def _is_sign(pieces: Sequence[Piece], at: int) -> bool:
    """Whether a currency sign or the like is directly before a figure."""
    piece = pieces[at]
    is_next = not piece.has_space and at + 1 < len(pieces) and pieces[at + 1].kind == "E"
    return is_next and piece.text in _IN_NUMBERS and piece.text not in ".,:/"


def _run_end(pieces: Sequence[Piece], start: int, stop: int) -> int:
    """Where the run ends that keeps its order: words of another script with all between them, or one number."""
    end = next((at for at in range(start, stop) if pieces[at].kind == "R"), stop)
    if any(pieces[at].kind == "L" for at in range(start, end)):
        last = max(at for at in range(start, end) if pieces[at].kind in "LE")
        return _with_closing(pieces, start, last + 1, end)
    last = start
    for at in range(start + 1, end):
        if pieces[at - 1].has_space or not (pieces[at].kind == "E" or pieces[at].text in _IN_NUMBERS):
            break
        if pieces[at].kind == "E" or pieces[at].text in "%°€$£₪":
            last = at
    return last + 1


def _with_closing(pieces: Sequence[Piece], start: int, stop: int, end: int) -> int:
    """The end of a run with the brackets behind it that were opened in it."""
    inside = "".join(pieces[at].text for at in range(start, stop))
    while stop < end and pieces[stop].text in _CLOSING and not pieces[stop - 1].has_space:
        closing = pieces[stop].text
        if inside.count(_OPENING[_CLOSING.index(closing)]) <= inside.count(closing):
            break
        inside += closing
        stop += 1
    return stop


def closed_brackets(text: str) -> int:
    """How many brackets are opened before they are closed."""
    count = 0
    opened: list[str] = []
    for sign in text:
        if sign in _OPENING:
            opened.append(sign)
        elif sign in _CLOSING and opened and opened[-1] == _OPENING[_CLOSING.index(sign)]:
            opened.pop()
            count += 1
    return count
