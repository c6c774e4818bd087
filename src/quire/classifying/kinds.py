"""What kind of document it is, by the words that such documents have, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

from quire.classifying.lines import Line
from quire.classifying.words import TYPES

_HEAD_LINES = 25
_LEAST = 2.0
_MOST_KINDS = 2
_PART_OF_FIRST = 0.5


@dataclass(frozen=True, slots=True)
class KindFound:
    """`label` is the word for it in the document's language, English where that has none here."""

    name: str
    label: str
    score: float


def kinds_of(lines: list[Line], language: str | None) -> list[KindFound]:
    """The likeliest first, at most two; none where nothing speaks for any."""
    scores: dict[str, KindFound] = {}
    for name, labels, pattern in TYPES:
        score = 0.0
        for place, line in enumerate(lines):
            hits = len(pattern.findall(line.text[:400]))
            if not hits:
                continue
            if line.level or (place < _HEAD_LINES and len(line.text) < 60):
                score += 3.0 if line.level == 1 or place < 5 else 1.5
            else:
                score += min(hits, 2) * 0.5
        label = labels.get(language or "", labels["en"])
        scores[name] = KindFound(name, label, min(score, 12.0))
    ranked = sorted(scores.values(), key=lambda one: one.score, reverse=True)
    best = ranked[0].score
    return [one for one in ranked[:_MOST_KINDS] if one.score >= max(_LEAST, best * _PART_OF_FIRST)]
