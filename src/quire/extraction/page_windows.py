"""Packs pages into windows that fit one question to a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.domain.element import PageElements
from quire.domain.text_chunk import BYTES_PER_TOKEN
from quire.extraction.page_words import PageWords
from quire.rendering.page_markdown import render_markdown

_OVERLAP_FROM = 3
"""Windows of at least this many pages repeat their last page in the next one."""


@dataclass(frozen=True, slots=True)
class QuestionPage:
    """A page as a question has it, and its words to check the answer with."""

    number: int
    markdown: str
    words: PageWords

    @classmethod
    def of(cls, page: PageElements) -> QuestionPage:
        return cls(page.number, render_markdown(page.elements), PageWords(page))

    @property
    def tokens(self) -> int:
        return len(self.markdown.encode("utf-8", "replace")) // BYTES_PER_TOKEN + 8


Window = tuple[QuestionPage, ...]


def windows(pages: Sequence[QuestionPage], most_tokens: int) -> list[Window]:
    """Neighbouring pages, as many as fit. A record that goes over the end of a window is whole in the next one,
    because that begins with the same page again. A page that is larger than a window is one alone.
    """
    found: list[Window] = []
    current: list[QuestionPage] = []
    size = 0
    for page in pages:
        if current and size + page.tokens > most_tokens:
            found.append(tuple(current))
            again = current[-1]
            fits = len(current) >= _OVERLAP_FROM and again.tokens + page.tokens <= most_tokens
            current = [again] if fits else []
            size = again.tokens if fits else 0
        current.append(page)
        size += page.tokens
    if current:
        found.append(tuple(current))
    return found


def halves(window: Window) -> list[Window]:
    """The window in two, without a page in both; of one page there are no halves."""
    middle = len(window) // 2
    return [window[:middle], window[middle:]] if middle else []
