"""Numbers of a workbook as a person reads them: dates as dates, shares as per cent, no binary noise."""

from __future__ import annotations

import datetime as dt
import re
from xml.etree.ElementTree import Element

from quire.reading.office.ooxml_package import Package

_DATE, _TIME, _MOMENT, _SHARE, _SPAN, _NUMBER = "date", "time", "moment", "share", "span", "number"
_BUILT_IN = {
    **dict.fromkeys((14, 15, 16, 17, *range(27, 37), *range(50, 59)), _DATE),
    **dict.fromkeys((18, 19, 20, 21), _TIME),
    **dict.fromkeys((45, 46, 47), _SPAN),
    22: _MOMENT,
    9: _SHARE,
    10: _SHARE,
}
_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]', re.IGNORECASE)
_LAST_DAY = 2_958_465  # the end of the year 9999


class Figures:
    def __init__(self, package: Package, styles: Element | None, *, since_1904: bool) -> None:
        self._epoch = dt.datetime(1904, 1, 1) if since_1904 else dt.datetime(1899, 12, 30)
        custom: dict[str, str] = {}
        for one in package.children(package.child(styles, "numFmts"), "numFmt"):
            custom[package.attribute(one, "numFmtId")] = package.attribute(one, "formatCode")
        self._kinds: dict[str, str] = {}
        for place, one in enumerate(package.children(package.child(styles, "cellXfs"), "xf")):
            number = package.attribute(one, "numFmtId")
            kind = _kind(custom[number]) if number in custom else _built_in(number)
            if kind != _NUMBER:
                self._kinds[str(place)] = kind

    def shown(self, value: str, style: str) -> str:
        """A number as its cell's style shows it; what is no number comes back harmless."""
        kind = self._kinds.get(style)
        if kind is None and value.isdigit() and len(value) < 16:
            return value
        try:
            number = float(value)
        except ValueError:
            return "".join(c for c in value if c.isalnum() or c in " .,:-")[:100]
        if kind is None:
            return _plain(number)
        if kind == _SHARE:
            return share_text(number)
        if not 0 <= number <= _LAST_DAY:
            return _plain(number)
        return self._time(number, kind)

    def _time(self, number: float, kind: str) -> str:
        if kind == _SPAN:
            seconds = round(number * 86_400)
            return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        moment = self._epoch + dt.timedelta(milliseconds=round(number * 86_400_000))
        moment = (moment + dt.timedelta(milliseconds=500)).replace(microsecond=0)
        if kind == _TIME and number < 1:
            return moment.time().isoformat()
        if kind == _DATE or (kind == _MOMENT and moment.time() == dt.time(0)):
            return moment.date().isoformat()
        return moment.isoformat(" ")


def is_share(number: int, code: str | None) -> bool:
    """Whether a format, by its number and by its code where the workbook has one, shows per cent."""
    return (_kind(code) if code else _built_in(str(number))) == _SHARE


def share_text(number: float) -> str:
    """A share as per cent."""
    return f"{_plain(round(number * 100, 10))}%"


def _plain(number: float) -> str:
    if number == int(number) if abs(number) < 1e15 else False:
        return str(int(number))
    return f"{number:.15g}"


def _built_in(number: str) -> str:
    return _BUILT_IN.get(int(number), _NUMBER) if number.isdigit() and len(number) < 6 else _NUMBER


def _kind(code: str) -> str:
    """What a format of the workbook's own shows, from the letters that are left when literal text is gone."""
    letters = _LITERAL.sub("", code.split(";", 1)[0]).lower()
    if "%" in letters:
        return _SHARE
    if re.search(r"\[[hms]+\]", letters):
        return _SPAN
    has_date = bool(re.search(r"[yd]", letters)) or ("m" in letters and not re.search(r"[hs]", letters))
    has_time = bool(re.search(r"[hs]", letters))
    if "general" in letters or not (has_date or has_time):
        return _NUMBER
    return _MOMENT if has_date and has_time else _DATE if has_date else _TIME
