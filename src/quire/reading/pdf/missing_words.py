"""Compares the words of a page's text layer with the words of its elements, and names those that no element has.

The order does not count, and neither do white space, control characters, leader dots, hyphens at line ends, ligatures
and punctuation: two readers of the same page disagree about them. Weakness: a word that another place of the page has
once too often is not missed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from quire.domain.element import Box, Element
from quire.reading.pdf.block_matching import compact
from quire.reading.pdf.text_lines import TextLine

_SEPARATOR = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]|\.{4,}|_{4,}")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
"""Signs of a font without names; elements don't have them."""
_MOST_TEXTS = 100
"""Looking for more texts one by one would cost more than counting all words."""


def missing_words(layer: str, elements: Sequence[Element]) -> list[str]:
    """The words of `layer` that are in none of the elements, each as often as it is missing."""
    texts = _texts(elements)
    if len(texts) <= _MOST_TEXTS:
        layer, texts = _without_same(layer, texts)
        if layer.isspace():
            return []
    wanted, there = Counter(_split(layer)), Counter(_split(" ".join(texts)))
    missing = _more_often(wanted, there)
    if not missing:
        return []
    # Whole words first: "2³" is the layer's "23", wherever "23" may also be part of other words.
    alike = Counter(map(compact, _more_often(there, wanted)))
    open_words: list[tuple[str, str]] = []
    for word in sorted(missing, key=len, reverse=True):
        key = compact(word)
        if alike[key] > 0:
            alike[key] -= 1
        elif key:
            open_words.append((word, key))
    return _not_within(open_words, "".join(alike.elements()))


def _not_within(words: Iterable[tuple[str, str]], surplus: str) -> list[str]:
    """The words whose keys are not parts of `surplus`, each part of which counts once."""
    lost: list[str] = []
    for word, key in words:
        at = surplus.find(key)
        if at < 0:
            lost.append(word)
        else:
            surplus = surplus[:at] + " " + surplus[at + len(key) :]
    return lost


def _split(text: str) -> list[str]:
    separated = "...." in text or "____" in text or _CONTROL.search(text)
    return (_SEPARATOR.sub(" ", text) if separated else text).split()


def _without_same(layer: str, texts: Sequence[str]) -> tuple[str, list[str]]:
    """Both without the texts that the layer has word for word; on most pages nothing is left of it.

    Long texts first: a short one may also be a part of a long one.
    """
    rest = f" {' '.join(layer.split())} "
    same: set[int] = set()
    for place in sorted(range(len(texts)), key=lambda place: -len(texts[place])):
        # Two spaces, so that no text is found across a gap.
        shorter = rest.replace(f" {texts[place]} ", "  ", 1)
        if len(shorter) < len(rest):
            rest = shorter
            same.add(place)
    return rest, [text for place, text in enumerate(texts) if place not in same]


def _more_often(words: Counter[str], others: Counter[str]) -> list[str]:
    """The words that `words` has more often than `others`, each as many times."""
    return [
        word
        for word, count in words.items()
        if count > others.get(word, 0)
        for _ in range(count - others.get(word, 0))
    ]


def lines_with(
    words: Sequence[str], lines: Iterable[TextLine], body_size: float, elements: Sequence[Element]
) -> list[TextLine]:
    """The lines that have the given words, reduced to these words.

    In doubt, lines come first that no element has at their place, then those that have nothing else. They are set in
    the type of the body: a part of a line is no heading.
    """
    left = Counter(words)
    held = [(line, _split(line.text)) for line in lines]
    held = [(line, texts) for line, texts in held if any(text in left for text in texts)]
    texts = [(element.box, compact(element.plain_text)) for element in elements if element.box is not None]
    held.sort(
        key=lambda one: (_is_in_one(one[0], texts), -sum(text in left for text in one[1]) / len(one[1]))
    )
    found: list[TextLine] = []
    for line, line_words in held:
        taken: list[str] = []
        for text in line_words:
            if left[text] > 0:
                left[text] -= 1
                taken.append(text)
        if taken:
            found.append(replace(line, text=" ".join(taken), bold=False, size=min(line.size, body_size)))
    return sorted(found, key=lambda line: (line.middle[1], line.box[0]))


def _is_in_one(line: TextLine, texts: Iterable[tuple[Box, str]]) -> bool:
    """Whether an element has the line's text where the line is."""
    (x, y), key = line.middle, compact(line.text)
    return any(x0 <= x <= x1 and y0 <= y <= y1 and key in text for (x0, y0, x1, y1), text in texts)


def _texts(elements: Iterable[Element]) -> list[str]:
    texts: list[str] = []
    for element in elements:
        if element.marker:
            texts.append(element.marker)
        if element.table is None:
            texts.append(element.text)
        else:
            texts.extend(cell for row in element.table.rows for cell in row)
    return texts
