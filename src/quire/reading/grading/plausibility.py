"""Measures whether the letters of a text follow one another as they do in words of real languages.

The table beside this module (`letter_sequences.bin`, 20 kB) has, for every sequence of three Latin letters or of two
letters of Cyrillic, Greek, Arabic and Hebrew, how surprising the last one is, in tenths of a bit, in the
language in which it surprises least. It was counted from the 30,000 most frequent words of 32 languages in the
`wordfreq` data (CC BY-SA 4.0); it has no words in it.

Weakness: Chinese, Japanese, Korean, Devanagari and other scripts are not judged; names and codes surprise more than
prose.
"""

from __future__ import annotations

import functools
import json
import re
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

_WORD = re.compile(r"[^\W\d_⁰¹²³⁴-⁹₀-₉]{3,}")
_MOST_WORDS, _FEW_WORDS = 250, 40
ENOUGH_LETTERS = 60
"""Fewer say little about a text."""
_SURPRISING = {3: 30, 2: 48}
"""Tenths of a bit a letter, by the length of the sequences.

One real word of a hundred is as surprising; most words of random letters are.
"""
_LETTERS = str.maketrans(
    {"ß": "ss", "ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ı": "i", "ð": "d", "þ": "th"}
)
_UNKNOWN = 60
_ODD_SHIFT, _LETTERS_MASK = 32, (1 << 32) - 1
_WORDS_KEPT, _LONGEST_KEPT = 16_384, 64
"""Words of earlier pages whose surprise is kept: pages of one document share most of theirs."""


@dataclass(frozen=True, slots=True)
class Plausibility:
    """`letters` is how many were judged, `implausible` the share of them in words that hardly any language has."""

    letters: int
    implausible: float


@dataclass(frozen=True, slots=True)
class _Sequences:
    places: dict[str, int]
    order: int
    surprise: bytes


def plausibility(text: str) -> Plausibility:
    """Judges at most 250 words, spread evenly over the text; of a long text each different word once.

    A word that is there again says nothing new: a table with "dnc" in a third of its cells is no garbage. A text whose
    different words have few letters is judged by all: else garbage that is repeated would be too short to be judged.
    """
    words = text.split()
    if len(words) > _FEW_WORDS:
        found = _judge(list(dict.fromkeys(words)))
        if found.letters >= ENOUGH_LETTERS:
            return found
    return _judge(words)


def has_implausible_words(text: str) -> bool:
    """Whether any word is implausible, in less time than `plausibility` takes: most texts have none."""
    return sum(map(_judged.__getitem__, text.split())) > _LETTERS_MASK


def _judge(words: Sequence[str]) -> Plausibility:
    step = max(1, len(words) // _MOST_WORDS)
    total = sum(map(_judged.__getitem__, words[::step]))
    letters, odd = total & _LETTERS_MASK, total >> _ODD_SHIFT
    return Plausibility(letters, odd / letters if letters else 0.0)


class _JudgedWords(dict[str, int]):
    """For each word, with the marks around it, how many letters can be judged and, in the upper half, how many of these
    are implausible.

    One number for both, so that the sum over a page is made without a line of Python for each word.
    """

    def __missing__(self, marked: str) -> int:
        judged = sum(map(_letters_of, _WORD.findall(marked)))
        if len(marked) <= _LONGEST_KEPT:
            if len(self) >= _WORDS_KEPT:
                self.clear()
            self[marked] = judged
        return judged


def _letters_of(word: str) -> int:
    """The letters of one word, once if they are plausible, in both halves if they are not; 0 if it can't be judged."""
    found = _surprise(word)
    if found is None:
        return 0
    surprise, order = found
    return len(word) | (len(word) << _ODD_SHIFT if surprise > _SURPRISING[order] else 0)


_judged = _JudgedWords()


def _surprise(word: str) -> tuple[float, int] | None:
    """Tenths of a bit a letter, and the length of the sequences.

    None for an abbreviation, and for a word of a script that the table does not have.
    """
    if word.isupper() and len(word) <= 5:
        return None  # an abbreviation
    folded = word.casefold()
    if not folded.isascii():
        # Compatible forms too: PDFs of Arabic often have the shape that a letter takes in its word.
        decomposed = unicodedata.normalize("NFKD", folded.translate(_LETTERS))
        folded = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    sequences = _tables().get(folded[:1])
    if sequences is None:
        return None
    places, order = sequences.places, sequences.order
    at = [*(0,) * (order - 1), *[places.get(letter, -1) for letter in folded], 0]
    runs = zip(*(at[start:] for start in range(order)), strict=False)
    total = _known_total(runs, sequences) if -1 not in at else _total(runs, sequences)
    return total / (len(at) - order + 1), order


def _known_total(runs: Iterable[tuple[int, ...]], sequences: _Sequences) -> int:
    """The surprise of all runs of letters that are in the alphabet."""
    size, surprise = len(sequences.places), sequences.surprise
    if sequences.order == 3:
        return sum([surprise[(a * size + b) * size + c] for a, b, c in runs])
    return sum([surprise[a * size + b] for a, b in runs])


def _total(runs: Iterable[tuple[int, ...]], sequences: _Sequences) -> int:
    return sum(_UNKNOWN if -1 in run else _known_total([run], sequences) for run in runs)


@functools.cache
def _tables() -> dict[str, _Sequences]:
    """The table of each letter's script."""
    raw = zlib.decompress(files(__package__).joinpath("letter_sequences.bin").read_bytes())
    head, _, body = raw.partition(b"\n")
    found: dict[str, _Sequences] = {}
    offset = 0
    for script, alphabet, length in json.loads(head):
        places = {letter: place for place, letter in enumerate(alphabet)}
        sequences = _Sequences(places, 3 if script == "latin" else 2, body[offset : offset + length])
        offset += length
        found |= dict.fromkeys(alphabet[1:], sequences)
    return found
