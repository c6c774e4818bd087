"""Dates in documents, as people write them in several languages, and which of them is the document's own.

Weakness: `03/04/2026` is the third of April, unless the text is English and shows elsewhere that months come first.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

_MONTHS = {
    "en": "january february march april may june july august september october november december",
    "de": "januar februar märz april mai juni juli august september oktober november dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "pl": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
    "sv": "januari februari mars april maj juni juli augusti september oktober november december",
}
_SHORT = {
    **{"jan": 1, "feb": 2, "mar": 3, "apr": 4, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11},
    "dec": 12,
    **{"mär": 3, "mrz": 3, "okt": 10, "dez": 12, "sept": 9, "jän": 1, "jänner": 1, "feber": 2},
    **{"maerz": 3, "fevrier": 2, "aout": 8, "decembre": 12, "ene": 1, "abr": 4, "ago": 8, "dic": 12},
}
MONTHS: dict[str, int] = {
    **{name: place for names in _MONTHS.values() for place, name in enumerate(names.split(), 1)},
    **_SHORT,
}
_NAME = "|".join(sorted(map(re.escape, MONTHS), key=len, reverse=True))
_YEAR = r"(?P<y>(?:1[6-9]|20|21)\d{2})"
_D = r"(?P<d>0?[1-9]|[12]\d|3[01])"
_M = r"(?P<m>0?[1-9]|1[0-2])"

_FORMS = tuple(
    re.compile(rf"(?<![\w.,/-]){form}(?![\w/]|[.,-]\d)", re.IGNORECASE)
    for form in (
        rf"{_YEAR}[-/.]{_M}[-/.]{_D}",
        rf"{_D}\.\s?{_M}\.\s?{_YEAR}",
        rf"{_D}(?:st|nd|rd|th|er|º|\.)?\s+(?:de\s+|of\s+|d['’])?(?P<n>{_NAME})\.?,?\s+(?:de[l]?\s+)?{_YEAR}",
        rf"(?P<n>{_NAME})\.?\s+{_D}(?:st|nd|rd|th)?,?\s+{_YEAR}",
        rf"{_D}-(?P<n>{_NAME})-{_YEAR}",
        rf"{_YEAR}年{_M}月{_D}日",
    )
)
_SLASHED = re.compile(rf"(?<![\w.,/-])(\d{{1,2}})[/-](\d{{1,2}})[/-]{_YEAR}(?![\w/]|[.,-]\d)")
_SHORT_YEAR = re.compile(r"(?<![\w.,/-])(0?[1-9]|[12]\d|3[01])\.(0?[1-9]|1[0-2])\.(\d{2})(?![\w/]|[.,-]?\d)")
_COMPACT = re.compile(r"(?<!\d)(20\d{2})[-_ ]?(0[1-9]|1[0-2])[-_ ]?(0[1-9]|[12]\d|3[01])(?!\d)")

_OWN = re.compile(
    r"(?:(?:invoice|issue|letter|document|bill|order|statement|report|effective|contract)\s*date|date\s*of\s*(?:issue|"
    r"invoice)|dated|issued|\bdate\b|as\s+of|rechnungsdatum|belegdatum|ausstellungsdatum|vertragsdatum|briefdatum|"
    r"erstellt|ausgestellt|\bdatum\b|\bstand\b|,\s*den\b|\bvom\b|date\s+d['’]émission|fecha|\bdata\b|\ble\b|signed|"
    r"unterzeichnet|made\s+on|entered\s+into)\W{0,12}(?:on|the|den|am|:)?\W{0,6}$",
    re.IGNORECASE,
)
_OTHERS = re.compile(
    r"(?:due|payable|deadline|expir\w*|valid\s+until|until|before|no\s+later|pay\w*\s+by|deliver\w*|ship\w*|birth|born|"
    r"since|from|between|fällig\w*|zahlbar|spätestens|\bbis\b|frist|liefer\w*|leistungs\w*|geboren|geburts\w*|gültig|"
    r"kündig\w*|\bab\b|\bseit\b|zum|échéance|vencimiento|scadenza|period|zeitraum|beginn\w*|start\w*|last\s+day)"
    r"[\w\s]{0,24}\W{0,8}(?:den|the|on|am|:)?\W{0,6}$",
    re.IGNORECASE,
)
_BEFORE = 60


@dataclass(frozen=True, slots=True)
class FoundDate:
    date: datetime.date
    at: int
    before: str


def find_dates(text: str, language: str | None = None) -> list[FoundDate]:
    """Every date that a calendar has, in the order of the text."""
    found: dict[int, FoundDate] = {}
    for form in _FORMS:
        for match in form.finditer(text):
            groups = match.groupdict()
            month = MONTHS.get((groups.get("n") or "").lower()) or int(groups.get("m") or 0)
            _add(found, text, match.start(), _date(int(groups["y"]), month, int(groups["d"])))
    months_first = language == "en" and _months_first(text)
    for match in _SLASHED.finditer(text):
        first, second = int(match[1]), int(match[2])
        day, month = (second, first) if months_first or second > 12 else (first, second)
        _add(found, text, match.start(), _date(int(match["y"]), month, day))
    for match in _SHORT_YEAR.finditer(text):
        _add(found, text, match.start(), _date(2000 + int(match[3]), int(match[2]), int(match[1])))
    return [found[at] for at in sorted(found)]


def document_date(text: str, language: str | None, today: datetime.date, filename: str = "") -> str | None:
    """The date when the document was made, as far as its text tells; that in its file's name where it doesn't."""
    best: tuple[float, FoundDate] | None = None
    for place, one in enumerate(find_dates(text, language)):
        score = _score(one, place, len(text), today)
        if score > 0 and (best is None or score > best[0]):
            best = (score, one)
    if best is not None:
        return best[1].date.isoformat()
    named = _COMPACT.search(filename)
    if named:
        made = _date(int(named[1]), int(named[2]), int(named[3]))
        return made.isoformat() if made and made <= today else None
    return None


def _score(one: FoundDate, place: int, length: int, today: datetime.date) -> float:
    score = 1.0 + 1.0 / (1 + place) + 0.5 * (1 - one.at / max(length, 1))
    if _OTHERS.search(one.before):
        score -= 2.2
    elif _OWN.search(one.before):
        score += 2.0
    if one.date > today + datetime.timedelta(days=1):
        score -= 1.5  # made in the future: rather a deadline
    if one.date.year < 1900:
        score -= 1.0
    return score


def _months_first(text: str) -> bool:
    """Whether some date of the text can only be read with its month first, and none only with its day first."""
    pairs = [(int(match[1]), int(match[2])) for match in _SLASHED.finditer(text)]
    return any(second > 12 for _, second in pairs) and not any(first > 12 for first, _ in pairs)


def _add(found: dict[int, FoundDate], text: str, at: int, made: datetime.date | None) -> None:
    if made is not None and at not in found:
        line_start = text.rfind("\n", 0, at) + 1
        before = text[max(line_start, at - _BEFORE) : at]
        if not before.strip():  # a label may be on the line above
            before = text[max(0, at - _BEFORE) : at].replace("\n", " ")
        found[at] = FoundDate(made, at, before)


def _date(year: int, month: int, day: int) -> datetime.date | None:
    try:
        return datetime.date(year, month, day)
    except ValueError:
        return None
