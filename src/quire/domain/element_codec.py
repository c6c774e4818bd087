"""Owns the stored form of a page's elements: one version byte, then zlib over JSON with short keys.

Values at their default are left out. A reader of this version ignores keys and kinds that a later one adds; another
version byte is refused.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from quire.domain.element import (
    Box,
    CellMarkdown,
    CellSpan,
    Element,
    ElementKind,
    ElementLine,
    PageElements,
    TableGrid,
    element_id,
)
from quire.errors import QuireError

VERSION = 1
_COMPRESSION = 1
_MOST_BYTES = 64 << 20
_TENTHS = 10.0

_KINDS = {
    ElementKind.TITLE: "T",
    ElementKind.HEADING: "h",
    ElementKind.PARAGRAPH: "p",
    ElementKind.LIST_ITEM: "l",
    ElementKind.TABLE: "t",
    ElementKind.FIGURE: "f",
    ElementKind.CAPTION: "c",
    ElementKind.FORMULA: "m",
    ElementKind.CODE: "k",
    ElementKind.QUOTE: "q",
    ElementKind.FOOTNOTE: "n",
    ElementKind.RUNNING_HEADER: "rh",
    ElementKind.RUNNING_FOOTER: "rf",
    ElementKind.PAGE_NUMBER: "pn",
    ElementKind.FORM_FIELD: "ff",
    ElementKind.ATTACHMENT: "a",
}
_KIND_OF = {short: kind for kind, short in _KINDS.items()}
_SHORT = {
    "text": "x",
    "level": "v",
    "marker": "k",
    "depth": "d",
    "latex": "la",
    "language": "lg",
    "confidence": "cf",
    "reader": "r",
    "markdown": "md",
}


def encode(page: PageElements) -> bytes:
    """The stored form of a page; `decode` gives it back, its boxes rounded to a tenth of a point."""
    packed: dict[str, Any] = {"n": page.number}
    if page.reader:
        packed["r"] = page.reader
    if page.width or page.height:
        packed["s"] = [round(page.width, 1), round(page.height, 1)]
    packed["e"] = [_packed(element, page.number, place) for place, element in enumerate(page.elements)]
    text = json.dumps(packed, ensure_ascii=False, separators=(",", ":"))
    return bytes([VERSION]) + zlib.compress(text.encode("utf-8", "replace"), _COMPRESSION)


def decode(raw: bytes) -> PageElements:
    """The page of a stored form. Raises QuireError where it was written by a later version or is damaged.

    A reader process wrote it, which a hostile document may have taken over: what it unpacks to is bounded.
    """
    if not raw:
        return PageElements(0)
    if raw[0] != VERSION:
        raise QuireError(
            f"The elements of this page were stored in version {raw[0]}; this Quire reads version {VERSION}. "
            "Convert the document again."
        )
    try:
        text = zlib.decompressobj().decompress(raw[1:], _MOST_BYTES)
        return _page(json.loads(text))
    except (zlib.error, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise QuireError(
            "The stored elements of this page are damaged. Convert the document again."
        ) from error


def _page(packed: Mapping[str, Any]) -> PageElements:
    number = int(packed["n"])
    width, height = packed.get("s", (0.0, 0.0))
    return PageElements(
        number,
        tuple(_unpacked(one, number, place) for place, one in enumerate(packed["e"])),
        packed.get("r", ""),
        width,
        height,
    )


def _packed(element: Element, page: int, place: int) -> dict[str, Any]:
    packed: dict[str, Any] = {}
    if element.kind is not ElementKind.PARAGRAPH:
        packed["t"] = _KINDS[element.kind]
    if element.id != element_id(page, place):
        packed["i"] = element.id
    for long, short in _SHORT.items():
        value = getattr(element, long)
        if value or (value is not None and long == "confidence"):
            packed[short] = round(value, 3) if isinstance(value, float) else value
    if element.box is not None:
        packed["b"] = _tenths(element.box)
    if element.parent is not None:
        packed["p"] = element.parent
    if element.grounded is not True:
        packed["g"] = None if element.grounded is None else 0
    if element.repeated:
        packed["o"] = 1
    if element.lines:
        packed["l"] = [number for line in element.lines for number in (line.start, *_tenths(line.box))]
    if element.table is not None:
        packed["c"] = _packed_table(element.table)
    return packed


def _packed_table(table: TableGrid) -> dict[str, Any]:
    packed: dict[str, Any] = {"r": table.rows}
    if table.head_rows != 1:
        packed["h"] = table.head_rows
    if table.spans:
        packed["s"] = table.spans
    if table.marked:
        packed["m"] = table.marked
    return packed


def _unpacked(packed: Mapping[str, Any], page: int, place: int) -> Element:
    found = {long: packed[short] for long, short in _SHORT.items() if short in packed}
    return Element(
        id=packed.get("i") or element_id(page, place),
        kind=_KIND_OF.get(packed.get("t", "p"), ElementKind.PARAGRAPH),
        box=_points(packed["b"]) if "b" in packed else None,
        parent=packed.get("p"),
        grounded=None if packed.get("g", 1) is None else bool(packed.get("g", 1)),
        repeated=bool(packed.get("o", 0)),
        lines=_lines(packed.get("l", ())),
        table=_unpacked_table(packed["c"]) if "c" in packed else None,
        **found,
    )


def _unpacked_table(packed: Mapping[str, Any]) -> TableGrid:
    return TableGrid(
        tuple(tuple(row) for row in packed["r"]),
        packed.get("h", 1),
        tuple(CellSpan(*span) for span in packed.get("s", ())),
        tuple(CellMarkdown(*mark) for mark in packed.get("m", ())),
    )


def _lines(numbers: Sequence[int]) -> tuple[ElementLine, ...]:
    return tuple(
        ElementLine(numbers[at], _points(numbers[at + 1 : at + 5])) for at in range(0, len(numbers), 5)
    )


def _tenths(box: Box) -> list[int]:
    return [round(value * _TENTHS) for value in box]


def _points(numbers: Sequence[int]) -> Box:
    x0, y0, x1, y1 = numbers
    return x0 / _TENTHS, y0 / _TENTHS, x1 / _TENTHS, y1 / _TENTHS
