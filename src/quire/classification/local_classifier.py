"""A classification without AI: from the document's own title, headings, dates and words. Runs in the child pool.

Weakness: it takes what the document says of itself; it can't draw a conclusion that isn't written there.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quire.classification.document_dates import document_date
from quire.classification.document_kinds import kinds_of
from quire.classification.document_titles import title_of
from quire.classification.key_phrases import known_in, phrases_of, summary_of
from quire.classification.markdown_lines import lines_of

_MOST_TAGS = 5
_LEAST_LETTERS = 20
_LANGUAGE_CHARS = 6_000
_SURE = 0.5
_SHORT_SUMMARY = 90


@dataclass(frozen=True, slots=True)
class LocalText:
    """`title` is the one in the file's metadata; `today` is ISO, so that no process asks its own clock."""

    text: str
    filename: str
    title: str
    today: str

    def __repr__(self) -> str:
        return f"LocalText({len(self.text)} characters)"


@dataclass(frozen=True, slots=True)
class LocalClassification:
    title: str
    summary: str
    date: str | None
    language: str | None
    tags: tuple[str, ...]


def classify_locally(given: LocalText, known_tags: Sequence[str]) -> LocalClassification:
    """The same for the same text. Existing tags that fit come before words of the document itself."""
    lines = lines_of(given.text)
    plain = "\n".join(line.text for line in lines)
    language = language_of(plain)
    kinds = kinds_of(lines, language)
    today = datetime.date.fromisoformat(given.today)
    title = title_of(lines, given.title, given.filename, kinds)
    summary = summary_of(lines)
    if summary and len(summary) < _SHORT_SUMMARY and title.casefold() not in summary.casefold():
        summary = f"{title}. {summary}"  # a form has few sentences, and none that says what it is
    return LocalClassification(
        title=title,
        summary=summary,
        date=document_date(plain, language, today, given.filename),
        language=language,
        tags=_tags(
            [kind.label for kind in kinds], known_in(lines, known_tags, 2), phrases_of(lines, _MOST_TAGS)
        ),
    )


def language_of(text: str) -> str | None:
    """An ISO 639-1 code; None for too little text, or where it could be anything."""
    sample = text[:_LANGUAGE_CHARS]
    if sum(map(str.isalpha, sample)) < _LEAST_LETTERS:
        return None
    language, probability = _identifier().classify(sample)
    return str(language) if float(probability) >= _SURE else None


def load_language_model() -> None:
    """Loads the model of `language_of`, which takes about half a second."""
    _identifier()


@functools.cache
def _identifier() -> Any:
    """The one of this reader process: it takes a moment to load."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _tags(kinds: Sequence[str], known: Sequence[str], phrases: Sequence[str]) -> tuple[str, ...]:
    kept: dict[str, str] = {}
    for name in (*kinds, *known):
        kept.setdefault(name.casefold(), name)
    for phrase in phrases:
        # `Prüfbericht` beside `Bericht` says nothing more.
        if not any(name in phrase.casefold() or phrase.casefold() in name for name in kept):
            kept[phrase.casefold()] = phrase
    return tuple(kept.values())[:_MOST_TAGS]
