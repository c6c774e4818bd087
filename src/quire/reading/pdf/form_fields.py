"""Reads the fields of a PDF form: name, value and place of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from quire.domain.element import Box
from quire.reading.pdf.block_matching import compact

_MOST_FIELDS = 1_000
_CHECKED, _UNCHECKED = "checked", "not checked"
_BUTTONS = ("CheckBox", "RadioButton")
_NO_VALUE = ("Button", "Signature", "Unknown")


@dataclass(frozen=True, slots=True)
class FormField:
    """A field. `is_shown` says that the page's text has its value, or that it has none that text could show."""

    name: str
    value: str
    box: Box
    is_shown: bool


def form_fields(page: Any, turn: Callable[[Box], Box], text: str) -> list[FormField]:
    """The fields of MuPDF's `page`, whose text is given; none for one whose form is damaged."""
    try:
        return list(_fields(page, turn, compact(text)))
    except MemoryError:
        raise
    except Exception:  # a damaged form costs its fields, never the page
        return []


def _fields(page: Any, turn: Callable[[Box], Box], words: str) -> Iterator[FormField]:
    for count, widget in enumerate(page.widgets()):
        if count >= _MOST_FIELDS:
            return
        kind = widget.field_type_string
        if kind in _NO_VALUE:
            continue
        name = str(widget.field_label or widget.field_name or "")
        value = widget.field_value
        if kind in _BUTTONS:
            checked = value not in (None, "", False, "Off")
            yield FormField(name, _CHECKED if checked else _UNCHECKED, turn(tuple(widget.rect)), True)
            continue
        shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value or "")
        yield FormField(name, shown, turn(tuple(widget.rect)), compact(shown) in words)
