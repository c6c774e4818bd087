"""Key phrases and the extractive summary of a document."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from quire.classification.document_dates import MONTHS
from quire.classification.document_kinds import STOPWORDS
from quire.classification.markdown_lines import MarkdownLine

_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"“„(]?[A-ZÄÖÜÉÈÀÁÍÓÚ0-9])")
_GENERAL = frozenset(
    [
        "summary",
        "introduction",
        "conclusion",
        "contents",
        "overview",
        "abstract",
        "appendix",
        "annex",
        "chapter",
        "section",
        "table",
        "figure",
        "services",
        "fees",
        "client",
        "provider",
        "customer",
        "seller",
        "buyer",
        "party",
        "parties",
        "price",
        "description",
        "published",
        "zusammenfassung",
        "einleitung",
        "inhalt",
        "anhang",
        "kapitel",
        "abschnitt",
        "tabelle",
        "abbildung",
        "kunde",
        "auftraggeber",
        "auftragnehmer",
        "preis",
        "menge",
        "bezeichnung",
    ]
)
_MOST_WORDS_IN_PHRASE = 3
_LEAST_CHARS = 4
_SUMMARY_CHARS = 420
_SUMMARY_SENTENCES = 3
_LEAST_SENTENCE_WORDS = 6
_ORDINAL = re.compile(r"(?<!\d)\d{1,2}\.$")
_ABBREVIATED = re.compile(
    r"\b(?:z\.\s?B|d\.\s?h|bzw|ca|Nr|No|Mr|Mrs|Ms|Dr|Prof|St|Str|vgl|inkl|evtl|usw|e\.g|i\.e|etc)\.$"
)


def phrases_of(lines: list[MarkdownLine], most: int) -> list[str]:
    """Runs of one to three words without stopwords, by how often they come and where first; small letters."""
    counts: Counter[str] = Counter()
    shown: dict[str, Counter[str]] = {}
    first: dict[str, int] = {}
    for place, line in enumerate(lines):
        weight = 3 if line.level else 1
        for run in _runs(line.text):
            for size in range(1, _MOST_WORDS_IN_PHRASE + 1):
                for start in range(len(run) - size + 1):
                    words = run[start : start + size]
                    key = " ".join(words).lower()
                    counts[key] += weight
                    shown.setdefault(key, Counter())[" ".join(words)] += 1
                    first.setdefault(key, place)
    scores = {
        key: count * (1 + 0.6 * key.count(" ")) / math.sqrt(1 + first[key] / 40)
        for key, count in counts.items()
        if _worth(key, count, shown[key])
    }
    chosen: list[str] = []
    for key in sorted(scores, key=lambda one: (-scores[one], first[one], one)):
        if len(chosen) >= most:
            break
        if not any(_overlaps(key, other) for other in chosen):
            chosen.append(key)
    return chosen


def summary_of(lines: list[MarkdownLine]) -> str:
    """Two or three of the document's own sentences, in their order; its first lines where it has no sentences."""
    sentences = [
        one
        for paragraph in _paragraphs(lines)
        for one in _sentences(paragraph)
        if len(one.split()) >= _LEAST_SENTENCE_WORDS
    ][:80]
    if not sentences:
        return _cut(" · ".join(line.text for line in lines[:12] if len(line.text) > 3 and not line.in_table))
    frequent = Counter(
        word.casefold()
        for one in sentences
        for word in _WORD.findall(one)
        if word.casefold() not in STOPWORDS
    )
    ranked = sorted(range(len(sentences)), key=lambda place: -_weight(sentences[place], place, frequent))
    chosen: list[int] = []
    room = _SUMMARY_CHARS
    for place in ranked:
        if len(chosen) == _SUMMARY_SENTENCES:
            break
        if len(sentences[place]) <= room or not chosen:
            chosen.append(place)
            room -= len(sentences[place]) + 1
    return _cut(" ".join(sentences[place] for place in sorted(chosen)))


def known_in(lines: list[MarkdownLine], known: Sequence[str], most: int) -> list[str]:
    """Returns the known tags whose words occur together in the text, the most frequent first."""
    text = f" {' '.join(' '.join(_WORD.findall(line.text)) for line in lines)} ".casefold()
    counts = {}
    for tag in known:
        words = " ".join(_WORD.findall(tag)).casefold()
        if len(words) >= 3:
            hits = text.count(f" {words} ")
            if hits:
                counts[tag] = hits
    return sorted(counts, key=lambda tag: (-counts[tag], tag))[:most]


def _runs(text: str) -> list[list[str]]:
    runs: list[list[str]] = [[]]
    for token in re.split(r"([^\w\s'’-]+)|\s+", text):
        if not token:
            continue
        word = _WORD.fullmatch(token)
        if word and token.casefold() not in STOPWORDS and len(token) > 1:
            runs[-1].append(token)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _worth(key: str, count: int, forms: Counter[str]) -> bool:
    if len(key) < _LEAST_CHARS or len(key) > 40 or count < 2 or key in _GENERAL:
        return False
    if all(word in MONTHS for word in key.split()):
        return False
    # A German noun or a name begins with a capital; verbs and adjectives make poor tags.
    return " " in key or any(form[:1].isupper() for form in forms) or count >= 4


def _overlaps(one: str, other: str) -> bool:
    stems = {word[:5] for word in one.split()}
    return bool(stems & {word[:5] for word in other.split()})


def _paragraphs(lines: list[MarkdownLine]) -> list[str]:
    """Lines that belong together and hold a sentence: addresses, lists of facts and tables are none."""
    blocks: list[list[MarkdownLine]] = []
    for line in lines:
        if line.level or line.in_table:
            blocks.append([])
        elif line.after_gap or line.in_list or not blocks:
            blocks.append([line])
        else:
            blocks[-1].append(line)
    return [" ".join(line.text for line in block) for block in blocks if block and _is_prose(block)]


def _is_prose(block: list[MarkdownLine]) -> bool:
    """Sentences run on over lines and end in a full stop; facts are one to a line."""
    ended = block[-1].text[-1:] in '.!?…"”“' or ". " in block[-1].text
    words = sum(len(line.text.split()) for line in block)
    return ended and words >= _LEAST_SENTENCE_WORDS * max(1, len(block) - 1) * 0.8


def _sentences(prose: str) -> list[str]:
    found: list[str] = []
    for piece in _SENTENCE_END.split(prose):
        if found and (_ABBREVIATED.search(found[-1]) or _ORDINAL.search(found[-1])):
            found[-1] = f"{found[-1]} {piece}"
        else:
            found.append(piece)
    return [one.strip() for one in found if one.strip()]


def _weight(sentence: str, place: int, frequent: Counter[str]) -> float:
    words = [word.casefold() for word in _WORD.findall(sentence)]
    if not words:
        return 0.0
    meaning = sum(min(frequent.get(word, 0), 6) for word in words) / (len(words) + 4)
    money = 0.8 if re.search(r"\d[\d.,]*\s?(?:€|EUR|USD|\$|£|CHF)|(?:€|\$|£)\s?\d", sentence) else 0.0
    return meaning + money + 1.6 / (1 + place * 0.5) - (0.5 if len(sentence) > 300 else 0.0)


def _cut(text: str) -> str:
    if len(text) <= _SUMMARY_CHARS:
        return text
    return text[: _SUMMARY_CHARS - 1].rsplit(" ", 1)[0].rstrip(" ,;:.") + "…"
