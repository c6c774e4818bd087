"""Parts of a web page that are read as a whole: formulas, and what a form has been filled in with."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

from quire.reading.office.html_tags import attributes
from quire.reading.office.mathml_markup import mathml_latex

_DEEPEST = 60
_TYPED = frozenset(
    {
        *("", "text", "email", "number", "date", "datetime-local", "month", "week", "time", "tel", "url"),
        *("search",),
    }
)
_TICKS = {"checkbox": ("☐", "☒"), "radio": ("○", "◉")}


class MathInsert:
    """A formula. Elements nested deeper than any real one count as text of the one around them."""

    def __init__(self, given: dict[str, str]) -> None:
        self.is_block = given.get("display") == "block"
        self._root = Element("math", {"alttext": given.get("alttext", "")})
        self._open = [self._root]

    def start(self, tag: str, inner: str) -> None:
        if len(self._open) < _DEEPEST:
            made = SubElement(self._open[-1], tag, attributes(inner))
            if not inner.endswith("/"):
                self._open.append(made)

    def data(self, text: str) -> None:
        top = self._open[-1]
        if len(top):
            top[-1].tail = (top[-1].tail or "") + text
        else:
            top.text = (top.text or "") + text

    def end(self, tag: str) -> bool:
        for place in range(len(self._open) - 1, 0, -1):
            if self._open[place].tag == tag:
                del self._open[place:]
                break
        return tag == "math"

    @property
    def latex(self) -> str:
        return mathml_latex(self._root)


class SelectInsert:
    """A list to choose from: of its options only those that are chosen."""

    def __init__(self) -> None:
        self._chosen: list[str] = []
        self._is_chosen = False

    def start(self, tag: str, inner: str) -> None:
        self._is_chosen = tag == "option" and "selected" in attributes(inner)
        if self._is_chosen:
            self._chosen.append("")

    def data(self, text: str) -> None:
        if self._is_chosen:
            self._chosen[-1] += text

    def end(self, tag: str) -> bool:
        self._is_chosen = self._is_chosen and tag != "option"
        return tag == "select"

    @property
    def text(self) -> str:
        return ", ".join(filter(None, (" ".join(one.split()) for one in self._chosen)))


def input_text(given: dict[str, str]) -> str:
    """What a field of a form shows: whether it is ticked, or what was typed; "" for buttons and passwords."""
    kind = given.get("type", "").strip().lower()
    if kind in _TICKS:
        return _TICKS[kind]["checked" in given]
    return given.get("value", "") if kind in _TYPED else ""
