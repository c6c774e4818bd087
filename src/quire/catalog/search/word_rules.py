"""How texts become words: the one rule by which documents are indexed and queries are read, on every database.

Words are folded (case, accents, ligatures, full-width forms) and consist of letters and digits only, so they can
be part of a query of either database without escaping. Scripts written without spaces are cut into pairs of
characters, as is usual for them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

MAX_WORD_CHARS = 40
"""Longer words are cut: they are never typed, and a hostile text could consist of them."""

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
_GAP = re.compile(r"[\W_]+")


def fold(text: str) -> str:
    """The text without case, accents and compatibility forms. May be longer or shorter than it was."""
    if text.isascii():
        return text.lower()
    # Twice, because some capitals only appear when a letter is taken apart, and some accents only in small letters.
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    if decomposed.isascii():
        return decomposed
    bare = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
    return unicodedata.normalize("NFKC", bare)


def words(text: str) -> list[str]:
    """The words of a text in their order."""
    folded = fold(text)
    found = _WORD.findall(folded)
    if folded.isascii():
        return [word if len(word) <= MAX_WORD_CHARS else word[:MAX_WORD_CHARS] for word in found]
    return [part for word in found for part in _parts(word)]


def spans(text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Where each stretch of letters and digits begins and ends in `text`, and the words it is indexed under."""
    # Folding the whole text would lose its offsets, so each stretch is folded alone. Combining marks belong to
    # the letter before them, though they are not letters themselves.
    for match in re.finditer(r"(?:[^\W_][\u0300-\u036f]*)+", text):
        yield match.start(), match.end(), tuple(words(match.group()))


def slug(name: str) -> str:
    """Returns the form of a tag's name for addresses, which is equal for all spellings of one tag."""
    return _GAP.sub("-", fold(name)).strip("-")


def storable(text: str) -> str:
    """The text without what a database can't keep: NUL characters and lone surrogates."""
    if text.isascii():
        return text.replace("\0", "")
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _parts(word: str) -> Iterator[str]:
    if word.isascii() or not _UNSPACED.search(word):
        yield word[:MAX_WORD_CHARS]
        return
    at = 0
    for run in _UNSPACED.finditer(word):
        if run.start() > at:
            yield word[at : run.start()][:MAX_WORD_CHARS]
        characters = run.group()
        if len(characters) == 1:
            yield characters
        for first in range(len(characters) - 1):
            yield characters[first : first + 2]
        at = run.end()
    if at < len(word):
        yield word[at:][:MAX_WORD_CHARS]
