"""Numbers of a workbook as a person reads them: dates as dates, others as their formats show them, no binary noise."""

from __future__ import annotations

import datetime as dt
import re
from xml.etree.ElementTree import Element

from quire.reading.office.inline_markdown import plain
from quire.reading.office.number_formats import NumberFormat, format_of, plain_number
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
_EPOCHS = {False: dt.datetime(1899, 12, 30), True: dt.datetime(1904, 1, 1)}
_LAST_DAY = 2_958_465  # the end of the year 9999


class Figures:
    def __init__(self, package: Package, styles: Element | None, *, since_1904: bool) -> None:
        self._epoch = _EPOCHS[since_1904]
        custom: dict[str, str] = {}
        for one in package.children(package.child(styles, "numFmts"), "numFmt"):
            custom[package.attribute(one, "numFmtId")] = package.attribute(one, "formatCode")
        self._kinds: dict[str, str] = {}
        self._formats: dict[str, NumberFormat] = {}
        for place, one in enumerate(package.children(package.child(styles, "cellXfs"), "xf")):
            number = package.attribute(one, "numFmtId")
            code = custom.get(number)
            kind = _built_in(number) if code is None else _kind(code)
            found = _number_format(number, code) if kind in (_NUMBER, _SHARE) else None
            if found is not None:
                self._formats[str(place)] = found
            elif kind != _NUMBER:
                self._kinds[str(place)] = kind

    def shown(self, value: str, style: str) -> str:
        """A number as its cell's style shows it, as Markdown; what is no number comes back harmless."""
        kind, written = self._kinds.get(style), self._formats.get(style)
        if kind is None and written is None and value.isdigit() and len(value) < 16:
            return value
        try:
            number = float(value)
        except ValueError:
            return "".join(c for c in value if c.isalnum() or c in " .,:-")[:100]
        if written is not None:
            return plain(written.shown(number))
        if kind == _SHARE:
            return share_text(number)
        is_day = kind is not None and 0 <= number <= _LAST_DAY
        return _time_text(number, kind or _NUMBER, self._epoch) if is_day else plain_number(number)

    def worded(self, text: str, style: str) -> str:
        """A text, which is Markdown, as its cell's style shows it."""
        written = self._formats.get(style)
        return written.worded(text) if written is not None else text


def figure_text(value: str, code: str, *, since_1904: bool = False) -> str:
    """A number of a chart, which has its format beside it, as the chart shows it; what is no number as it is."""
    try:
        number = float(value)
    except ValueError:
        return value
    kind = _kind(code)
    if kind in (_NUMBER, _SHARE):
        written = _number_format("0", code)
        return written.shown(number) if written is not None else f"{number:.10g}" if "." in value else value
    if not 0 <= number <= _LAST_DAY:
        return plain_number(number)
    return _time_text(number, kind, _EPOCHS[since_1904])


def _time_text(number: float, kind: str, epoch: dt.datetime) -> str:
    if kind == _SPAN:
        seconds = round(number * 86_400)
        return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    moment = epoch + dt.timedelta(milliseconds=round(number * 86_400_000))
    moment = (moment + dt.timedelta(milliseconds=500)).replace(microsecond=0)
    if kind == _TIME and number < 1:
        return moment.time().isoformat()
    if kind == _DATE or (kind == _MOMENT and moment.time() == dt.time(0)):
        return moment.date().isoformat()
    return moment.isoformat(" ")


def cell_format(number: int, code: str | None) -> NumberFormat | None:
    """A format by its number, and by its code where the workbook has one; None for those of dates and times."""
    kind = _kind(code) if code else _built_in(str(number))
    return _number_format(str(number), code or None) if kind in (_NUMBER, _SHARE) else None


def share_text(number: float) -> str:
    """A share as per cent."""
    return f"{plain_number(round(number * 100, 10))}%"


def _number_format(number: str, code: str | None) -> NumberFormat | None:
    return format_of(int(number) if number.isdigit() and len(number) < 6 else 0, code)


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
