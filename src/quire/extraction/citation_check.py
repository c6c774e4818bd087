"""Checks what a model says about a value against the words of the pages: is the quotation there, and has it the value?

A value counts as proved only by the page's own words. A conclusion from a quotation (a boolean, a choice that the
quotation does not say) and a text with some other words can't be proved: their match is `fuzzy`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from quire.extraction.field_schema import SchemaLeaf
from quire.extraction.normal_forms import NormalReading, date_of, dates, number_of, numbers
from quire.extraction.page_words import PageWords, TextSpan, collapsed, words_of

_LEAST_ALONE = 4
"""Letters and digits that a value needs to be looked for without a quotation."""
_FREE_TEXT_WORDS = 8
_FREE_TEXT_SHARE = 0.8


class QuoteMatch(StrEnum):
    EXACT = "exact"
    NORMALISED = "normalised"
    FUZZY = "fuzzy"
    NONE = "none"


_BEST_FIRST = tuple(QuoteMatch)


class FieldDoubt(StrEnum):
    """What is wrong with an answer about one value."""

    MISSING = "missing"  # the model gave no value
    UNGROUNDED = "ungrounded"  # no page has it
    QUOTE = "quote"  # the quotation is not on the page, or does not have the value
    PAGE = "page"  # the quotation is on another page than the model said
    INVALID = "invalid"  # the value does not satisfy the schema
    CONFLICT = "conflict"  # parts of the document say different things


@dataclass(frozen=True, slots=True)
class ValueClaim:
    """What a model says: a value, the words it was read from, and their page.

    `malformed`: it gave something that can't be a value of the schema, so the value is null.
    """

    value: Any
    quote: str = ""
    page: int | None = None
    malformed: bool = False


@dataclass(frozen=True, slots=True)
class ValueGround:
    """Where a value was found: `spans` are all places that fit, as good as the first; `values` those of the value."""

    match: QuoteMatch
    spans: tuple[TextSpan, ...] = ()
    values: tuple[TextSpan, ...] = ()
    doubts: tuple[FieldDoubt, ...] = ()


NOWHERE = ValueGround(QuoteMatch.NONE, doubts=(FieldDoubt.UNGROUNDED,))


def check_claim(leaf: SchemaLeaf, claim: ValueClaim, pages: Mapping[int, PageWords]) -> ValueGround:
    """Where the pages say what the claim says. The page that the claim names is searched first."""
    if claim.value is None:
        doubt = FieldDoubt.INVALID if claim.malformed else FieldDoubt.MISSING
        return ValueGround(QuoteMatch.NONE, doubts=(doubt,))
    order = sorted(pages.values(), key=lambda page: (page.number != claim.page, page.number))
    words = words_of(claim.quote)
    for page in order:
        found = _by_quote(leaf, claim, page, page.occurrences(words))
        if found is not None:
            return _with_page(found, claim, page)
    for page in order:
        similar = page.similar(words)
        value = None if similar is None else _value_in(leaf, claim.value, page, similar)
        if similar is not None and value is not None:
            return _with_page(
                ValueGround(QuoteMatch.FUZZY, (similar,), (value[1],), (FieldDoubt.QUOTE,)), claim, page
            )
    for page in order:
        alone = _alone(leaf, claim.value, page)
        if alone:
            return _with_page(ValueGround(QuoteMatch.FUZZY, alone, alone, (FieldDoubt.QUOTE,)), claim, page)
    return NOWHERE


def _with_page(found: ValueGround, claim: ValueClaim, page: PageWords) -> ValueGround:
    if claim.page == page.number:
        return found
    return ValueGround(found.match, found.spans, found.values, (*found.doubts, FieldDoubt.PAGE))


def _by_quote(
    leaf: SchemaLeaf, claim: ValueClaim, page: PageWords, spans: Sequence[TextSpan]
) -> ValueGround | None:
    """The occurrences of the quotation that have the value, with the best of their matches.

    Fuzzy ones are left out where another occurrence says the value.
    """
    found: list[tuple[QuoteMatch, TextSpan, TextSpan]] = []
    for span in spans:
        value = _value_in(leaf, claim.value, page, span)
        if value is not None:
            literal = collapsed(page.said(span)) == collapsed(claim.quote).strip(" .,;:|*#>-")
            worse = value[0] is QuoteMatch.EXACT and not literal
            found.append((QuoteMatch.NORMALISED if worse else value[0], span, value[1]))
    if not found:
        return None
    best = min((one for one, _, _ in found), key=_BEST_FIRST.index)
    kept = [one for one in found if best is QuoteMatch.FUZZY or one[0] is not QuoteMatch.FUZZY]
    return ValueGround(best, tuple(one for _, one, _ in kept), tuple(one for _, _, one in kept))


def _value_in(
    leaf: SchemaLeaf, value: Any, page: PageWords, span: TextSpan
) -> tuple[QuoteMatch, TextSpan] | None:
    """How and where a stretch of a page has the value; None where it does not have it."""
    text = page.said(span)
    # Signs, brackets and percent signs are beside the words of a span, not in it.
    start, end = max(0, span.start - 3), min(len(page.text), span.end + 12)
    around = page.text[start:end]
    if isinstance(value, bool):
        return QuoteMatch.FUZZY, span
    if isinstance(value, int | float):
        return _read_in(numbers(around), number_of(value), str(value), page, offset=start, span=span)
    if leaf.choices:
        return _words_in(str(value), page, span) or (QuoteMatch.FUZZY, span)
    day = date_of(value)
    if day is not None:
        return _read_in(dates(around), day, str(value), page, offset=start, span=span)
    return _text_in(str(value), text, page, span)


def _read_in(
    readings: Iterable[NormalReading],
    wanted: object,
    literal: str,
    page: PageWords,
    *,
    offset: int,
    span: TextSpan,
) -> tuple[QuoteMatch, TextSpan] | None:
    """The first reading inside the span that may mean what is wanted. Readings count from `offset`."""
    for reading in readings:
        place = TextSpan(page.number, offset + reading.start, offset + reading.end)
        if wanted in reading.meanings and place.start < span.end and span.start < place.end:
            return (QuoteMatch.EXACT if page.said(place) == literal else QuoteMatch.NORMALISED), place
    return None


def _text_in(value: str, text: str, page: PageWords, span: TextSpan) -> tuple[QuoteMatch, TextSpan] | None:
    words = words_of(value)
    if not words:
        return (QuoteMatch.EXACT, span) if value.strip() and value.strip() in text else None
    said = _words_in(value, page, span)
    if said is not None:
        return said
    if len(_compact(value)) >= _LEAST_ALONE and _compact(value) in _compact(text):
        return QuoteMatch.NORMALISED, span
    if len(words) >= _FREE_TEXT_WORDS:
        there = set(words_of(text))
        if sum(word in there for word in words) / len(words) >= _FREE_TEXT_SHARE:
            return QuoteMatch.FUZZY, span
    number = number_of(value)
    return (
        _read_in(numbers(text), number, value, page, offset=span.start, span=span)
        if number is not None
        else None
    )


def _words_in(value: str, page: PageWords, span: TextSpan) -> tuple[QuoteMatch, TextSpan] | None:
    """How and where the span has all words of the value in their order."""
    for found in page.occurrences(words_of(value)):
        if span.start <= found.start and found.end <= span.end:
            same = collapsed(page.said(found)) == collapsed(value).strip(" .,;:")
            literal = same or collapsed(value) in collapsed(page.text[span.start : span.end + 3])
            return (QuoteMatch.EXACT if literal else QuoteMatch.NORMALISED), found
    return None


def _alone(leaf: SchemaLeaf, value: Any, page: PageWords) -> tuple[TextSpan, ...]:
    """Where a page has the value itself, without the quotation; only for values that are long enough to be told."""
    if leaf.choices or isinstance(value, bool) or len(_compact(str(value))) < _LEAST_ALONE:
        return ()
    readings: Iterable[NormalReading] = ()
    wanted: object = None
    if isinstance(value, int | float):
        readings, wanted = numbers(page.text), number_of(value)
    elif date_of(value) is not None:
        readings, wanted = dates(page.text), date_of(value)
    else:
        return tuple(page.occurrences(words_of(str(value))))
    return tuple(TextSpan(page.number, one.start, one.end) for one in readings if wanted in one.meanings)


def _compact(text: str) -> str:
    return re.sub(r"\W|_", "", text).casefold()
