"""How well documents fit a query. Pure: the same on every database.

Each part is from 0 to 1 and depends on one document alone, so a document's score doesn't change because others
were found or not; that is what makes cursors stable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_K1 = 1.2
_B = 0.5
_HEAD = 1.0
_NEAR = 0.25
_NEAR_WORDS = 12

LEVELS = {"head": 1.0, "often": 0.8, "all": 0.5}
"""The weight of a word before texts are read, by where the index has it."""

_SUMMARY_FLOOR = 0.10
_TAG_FLOOR = 0.45
_CHUNK = 0.6
"""What the nearest chunk of a document counts beside its summary: the best of many is near by chance, too."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much of the score each part can bring. Chosen by `bench/relevance.py`."""

    text: float = 0.40
    summary: float = 0.50
    tags: float = 0.10


DEFAULT_WEIGHTS = Weights()


@dataclass(frozen=True, slots=True)
class TermGroup:
    """One word of the query and the words of the index that match it, each with its weight."""

    asked: str
    forms: Mapping[str, float]
    rarity: float


def rarity(documents: int, of_all: int) -> float:
    """What finding a word tells: much if it is rare (the inverse document frequency of BM25)."""
    return math.log(1 + (max(of_all, documents) - documents + 0.5) / (documents + 0.5)) + 0.05


class WordsOfQuery:
    """The query's words, ready to be counted in many texts."""

    def __init__(self, groups: Sequence[TermGroup], usual_length: float) -> None:
        self._groups = groups
        self._usual_length = max(1.0, usual_length)
        self._all_rarity = sum(group.rarity for group in groups) or 1.0
        # A form may match two words of the query; the better match counts.
        self._forms: dict[str, tuple[int, float]] = {}
        self._nothing: tuple[list[float], float] = ([0.0] * len(groups), 0.0)
        for number, group in enumerate(groups):
            for form, weight in group.forms.items():
                if weight > self._forms.get(form, (0, 0.0))[1]:
                    self._forms[form] = (number, weight)

    def score(self, head: Sequence[str], bodies: Iterable[Sequence[str]]) -> float:
        """How well the words of a document fit; `bodies` are its best pieces."""
        if not self._groups:
            return 0.0
        best, near = self._counted(head, in_head=True)
        for body in bodies:
            strengths, closeness = self._counted(body)
            near = max(near, closeness)
            best = [max(pair) for pair in zip(best, strengths, strict=True)]
        score = (
            sum(group.rarity * one for group, one in zip(self._groups, best, strict=True)) / self._all_rarity
        )
        if len(self._groups) > 1:
            score *= 1 - _NEAR + _NEAR * near
        return min(1.0, score)

    def _counted(self, words: Sequence[str], *, in_head: bool = False) -> tuple[list[float], float]:
        """How strongly the text has each word of the query, and the share of its pairs that are adjacent."""
        forms = self._forms
        if forms.keys().isdisjoint(words):
            return self._nothing
        found = [(place, *forms[word]) for place, word in enumerate(words) if word in forms]
        times = [0.0] * len(self._groups)
        seen: dict[int, int] = {}
        pairs: set[int] = set()
        for place, number, weight in found:
            times[number] = max(times[number], weight * _HEAD) if in_head else times[number] + weight
            before = seen.get(number - 1)
            if before is not None and place - before <= _NEAR_WORDS:
                pairs.add(number)
            seen[number] = place
        near = len(pairs) / (len(times) - 1) if len(times) > 1 else 0.0
        if in_head:
            return times, near
        length = _K1 * (1 - _B + _B * len(words) / self._usual_length)
        return [one / (one + length) if one else 0.0 for one in times], near


def summary_score(cosine: float) -> float:
    return max(0.0, (cosine - _SUMMARY_FLOOR) / (1 - _SUMMARY_FLOOR))


def tag_score(cosine: float) -> float:
    return max(0.0, (cosine - _TAG_FLOOR) / (1 - _TAG_FLOOR))


def mixed(weights: Weights, parts: Mapping[str, float]) -> float:
    """The score, rounded so that it is the same number each time it is computed.

    What a document means is what its summary says or what its nearest chunk says, whichever is nearer.
    """
    meaning = max(parts["summary"], _CHUNK * parts["chunk"])
    return round(weights.text * parts["text"] + weights.summary * meaning + weights.tags * parts["tags"], 6)
