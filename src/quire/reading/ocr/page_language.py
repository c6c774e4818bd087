"""Tells the language of words that were read in another one, by its most frequent short words.

A reader for English drops the dots of German words and is unsure of them, but it reads "und" and "nicht". Names are
those of Tesseract. Weakness: six languages; a page of fewer than sixty words, or without sentences, has none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_FREQUENT = {
    "eng": "the and of to is that for with was on are this be by from at have not which",
    "deu": "der die und das ist nicht mit von den dem des ein eine einer auf sich auch wird werden zu zur zum oder",
    "fra": "le les des et une dans pour par sur est que qui du au aux avec ce cette dont sont",
    "spa": "el los las del una por con para que es su se al como pero sus esta entre",
    "ita": "il di che della per con una gli nel sono dei delle alla non anche dal nella",
    "nld": "het een van en niet met voor dat zijn aan wordt ook bij naar deze worden door",
}
_LANGUAGES: dict[str, list[str]] = {}
for _language, _words in _FREQUENT.items():
    for _word in _words.split():
        _LANGUAGES.setdefault(_word, []).append(_language)
_LETTERS = re.compile(r"[^\W\d_]+")
_LEAST_WORDS, _LEAST_SHARE, _CLEARLY = 60, 0.1, 2.0


def language_of(words: Iterable[str]) -> str | None:
    """The language of the words; None where they are too few, or frequent in no language or in two."""
    read = [match[0].lower() for word in words if (match := _LETTERS.search(word))]
    if len(read) < _LEAST_WORDS:
        return None
    counts = Counter(language for word in read for language in _LANGUAGES.get(word, ())).most_common(2)
    if not counts or counts[0][1] < _LEAST_SHARE * len(read):
        return None
    is_clear = len(counts) == 1 or counts[0][1] >= _CLEARLY * counts[1][1]
    return counts[0][0] if is_clear else None
