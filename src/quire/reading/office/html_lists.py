"""Lists of a web page and the numbers of their items, which a browser counts and shows in figures or in letters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from quire.reading.office.word_styles import written_number

LISTS = ("ul", "ol", "dl", "menu")
_FORMS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_STYLED = re.compile(r"list-style(?:-type)?\s*:[^;]*?\b(lower|upper)-(alpha|latin|roman)")
_STYLES = {"lower-alpha": "a", "lower-latin": "a", "lower-roman": "i"}
_STYLES |= {f"upper{name[5:]}": form.upper() for name, form in list(_STYLES.items())}


@dataclass(slots=True)
class HtmlList:
    """`number` is that of the next item; `form` how it is written, "" for figures."""

    kind: str
    number: int = 1
    form: str = ""
    in_item: bool = False

    @classmethod
    def of(cls, tag: str, given: dict[str, str]) -> HtmlList:
        """The list that a tag begins."""
        if tag != "ol":
            return cls(tag)
        styled = _STYLED.search((given.get("style") or "").lower())
        form = _STYLES[f"{styled[1]}-{styled[2]}"] if styled else (given.get("type") or "").strip()
        return cls(tag, _count(given.get("start") or "", 1), _FORMS.get(form, ""))

    @property
    def is_numbered(self) -> bool:
        return self.kind == "ol"

    def next_item(self, value: str) -> tuple[str, str]:
        """The marker of the next item as Markdown takes it, and its letter where it has one."""
        if not self.is_numbered:
            return "-", ""
        number = _count(value, self.number)
        self.number = number + 1
        return ("-", f"{written_number(number, self.form)}.") if self.form and number else (f"{number}.", "")


def _count(given: str, otherwise: int) -> int:
    return int(given) if given.isascii() and given.isdigit() and len(given) < 8 else otherwise
