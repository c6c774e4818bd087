"""Numbers and dates as documents write them, and the values that they may mean."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

_NUMBER = re.compile(
    r"(?<![\w.,])[-−–(]?\s?[€$£¥]?\s?"
    r"(\d{1,3}(?:[ \u00a0\u202f’'.,]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?)(?!\d)"
)
_BEFORE = re.compile(r"[-−–(]")
_PERCENT = re.compile(r"\s?(?:%|percent|Prozent)", re.IGNORECASE)
_SCALE = re.compile(
    r"\s?(k|thousand|tausend|m|mn|million|millionen|mio|bn|billion|mrd|milliarden)\b", re.IGNORECASE
)
_SCALES = {"k": 3, "t": 3, "m": 6, "b": 9}
_GROUP = 3
_LONGEST = 40

_MONTHS = {
    name: place % 12 + 1
    for listed in (
        "january february march april may june july august september october november december",
        "januar februar märz april mai juni juli august september oktober november dezember",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "jan feb mär apr mai jun jul aug sep okt nov dez",
        "jan feb mar apr may jun jul aug sept oct nov dec",
    )
    for place, name in enumerate(listed.split())
}
_NAMES = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATES = (
    re.compile(r"(?<!\d)(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})(?!\d)"),
    re.compile(r"(?<!\d)(?P<a>\d{1,2})\s?[-/.]\s?(?P<b>\d{1,2})\s?[-/.]\s?(?P<y>\d{4}|\d{2})(?!\d)"),
    re.compile(
        rf"(?<!\d)(?P<d>\d{{1,2}})(?:\.|st|nd|rd|th|er)?\s+(?:de\s+|of\s+)?(?P<n>{_NAMES})\.?,?\s+(?:de\s+)?(?P<y>\d{{4}})",
        re.IGNORECASE,
    ),
    re.compile(rf"\b(?P<n>{_NAMES})\.?\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y>\d{{4}})", re.IGNORECASE),
)
_CENTURIES = (1900, 2000)


@dataclass(frozen=True, slots=True)
class NormalReading:
    """A stretch of text and what it may mean."""

    start: int
    end: int
    meanings: frozenset[object]


def numbers(text: str) -> Iterator[NormalReading]:
    """Every number with the values that it may have: `1.234` is 1234 or 1.234; a minus before it may be a dash."""
    for found in _NUMBER.finditer(text):
        digits = found[1]
        if len(digits) > _LONGEST:
            continue
        values = set(_values(digits))
        after = text[found.end() : found.end() + 20]
        if _PERCENT.match(after):
            values |= {value / 100 for value in values}
        scale = _SCALE.match(after)
        if scale:
            word = scale[1].lower()
            power = 9 if word.startswith(("mrd", "milliarde")) else _SCALES[word[0]]
            values |= {value.scaleb(power) for value in values}
        if _BEFORE.search(text[found.start() : found.start(1)]) or after.startswith("-"):
            values |= {-value for value in values}
        yield NormalReading(found.start(1), found.end(1), frozenset(values))


def _values(digits: str) -> Iterator[Decimal]:
    """The values of digits with separators: a last group of three may be a fraction or a thousand."""
    plain = re.sub(r"[ \u00a0\u202f’']", "", digits)
    marks = [mark for mark in plain if mark in ".,"]
    if not marks:
        yield Decimal(plain)
        return
    whole, last = plain[: plain.rfind(marks[-1])], plain[plain.rfind(marks[-1]) + 1 :]
    if marks.count(marks[-1]) == 1:
        yield Decimal(f"{whole.replace('.', '').replace(',', '')}.{last}")
    if len(last) == _GROUP and len(set(marks)) == 1:
        yield Decimal(plain.replace(".", "").replace(",", ""))


def number_of(value: object) -> Decimal | None:
    """The number that a JSON value is, or that its text says without doubt; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value).strip()
    try:
        found = Decimal(text)
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def dates(text: str) -> Iterator[NormalReading]:
    """Every date with the days that it may be: `03/04/2024` is the third of April or the fourth of March.

    A year of two digits is of this century or of the last one.
    """
    for pattern in _DATES:
        for found in pattern.finditer(text):
            days = frozenset(_days(found.groupdict()))
            if days:
                yield NormalReading(found.start(), found.end(), days)


def _days(parts: dict[str, str | None]) -> Iterator[object]:
    year = int(parts["y"] or 0)
    years = [year + century for century in _CENTURIES] if len(parts["y"] or "") == 2 else [year]
    if parts.get("n"):
        pairs = [(_MONTHS[(parts["n"] or "").lower()], int(parts["d"] or 0))]
    elif parts.get("a"):
        a, b = int(parts["a"] or 0), int(parts["b"] or 0)
        pairs = [(b, a), (a, b)]
    else:
        pairs = [(int(parts["m"] or 0), int(parts["d"] or 0))]
    for one, (month, day) in itertools.product(years, pairs):
        try:
            yield datetime.date(one, month, day)
        except ValueError:
            continue


def date_of(value: object) -> datetime.date | None:
    """The day of a value in ISO form, with or without a time; None otherwise."""
    if not isinstance(value, str) or not re.match(r"\d{4}-\d{2}-\d{2}(?:$|T)", value):
        return None
    try:
        return datetime.date.fromisoformat(value[:10])
    except ValueError:
        return None
