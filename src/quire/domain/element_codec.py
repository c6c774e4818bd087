"""Owns the stored form of a page's elements: one version byte, then zlib over JSON with short keys.

Values at their default are left out, and so are parents that depths say. A reader of this version ignores keys and
kinds that a later one adds; another version byte is refused.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

import msgspec

from quire.domain.element import (
    Box,
    CellMarkdown,
    CellSpan,
    Element,
    ElementKind,
    ElementLine,
    FileFacts,
    PageElements,
    TableGrid,
    element_id,
)
from quire.domain.element_tree import with_item_parents
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
_NUMBERS_A_LINE = 5


class _StoredTable(msgspec.Struct, omit_defaults=True):
    """Rows of texts, rows of the head, spans, and cells that have inline Markdown."""

    r: tuple[tuple[str, ...], ...]
    h: int = 1
    s: tuple[tuple[int, int, int, int], ...] = ()
    m: tuple[tuple[int, int, str], ...] = ()


class _StoredElement(msgspec.Struct, omit_defaults=True):
    """The fields of an element under short names; boxes are in tenths of a point."""

    t: str = "p"
    i: str = ""
    x: str = ""
    v: int = 0
    k: str = ""
    d: int = 0
    la: str = ""
    lg: str = ""
    cf: float | None = None
    r: str = ""
    md: str = ""
    b: list[int] | None = None
    p: str | None = None
    g: int | None = 1
    o: int = 0
    l: list[int] = []  # noqa: E741
    c: _StoredTable | None = None
    f: tuple[str, int | None, str] | None = None
    cn: str = ""


class _StoredPage(msgspec.Struct, omit_defaults=True):
    n: int
    e: list[_StoredElement]
    r: str = ""
    s: tuple[float, float] = (0.0, 0.0)
    q: int = 0


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_StoredPage)


def encode(page: PageElements, confidences: Sequence[float | None] = ()) -> bytes:
    """The stored form of a page; `decode` gives it back with parents of inner items and boxes in tenths of a point.

    `confidences` are those of its elements, where there are any: making every element anew would cost more than this.
    """
    size = (round(page.width, 1), round(page.height, 1))
    sure = confidences or [element.confidence for element in page.elements]
    packed = [
        _packed(element, page.number, place, confidence)
        for place, (element, confidence) in enumerate(zip(page.elements, sure, strict=True))
    ]
    text = _json(_StoredPage(page.number, packed, page.reader, size, page.turns))
    return bytes([VERSION]) + zlib.compress(text, _COMPRESSION)


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
        return _page(_DECODER.decode(zlib.decompressobj().decompress(raw[1:], _MOST_BYTES)))
    except (zlib.error, msgspec.DecodeError, ValueError, IndexError, RecursionError) as error:
        raise QuireError(
            "The stored elements of this page are damaged. Convert the document again."
        ) from error


def _json(page: _StoredPage) -> bytes:
    try:
        return _ENCODER.encode(page)
    except UnicodeEncodeError:  # half of a surrogate pair, as broken fonts give
        text = json.dumps(msgspec.to_builtins(page), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def _page(packed: _StoredPage) -> PageElements:
    number = packed.n
    return PageElements(
        number,
        with_item_parents([_unpacked(one, number, place) for place, one in enumerate(packed.e)]),
        packed.r,
        *packed.s,
        packed.q % 4,
    )


def _packed(element: Element, page: int, place: int, confidence: float | None) -> _StoredElement:
    grounded = element.grounded
    return _StoredElement(
        _KINDS[element.kind],
        "" if element.id == element_id(page, place) else element.id,
        element.text,
        element.level,
        element.marker,
        element.depth,
        element.latex,
        element.language,
        None if confidence is None else round(confidence, 3),
        element.reader,
        element.markdown,
        None if element.box is None else _tenths(element.box),
        element.parent,
        1 if grounded else None if grounded is None else 0,
        1 if element.repeated else 0,
        _packed_lines(element.lines),
        None if element.table is None else _packed_table(element.table),
        element.file,
        element.continues,
    )


def _packed_lines(lines: Sequence[ElementLine]) -> list[int]:
    return [
        number
        for start, (x0, y0, x1, y1) in lines
        for number in (
            start,
            round(x0 * _TENTHS),
            round(y0 * _TENTHS),
            round(x1 * _TENTHS),
            round(y1 * _TENTHS),
        )
    ]


def _packed_table(table: TableGrid) -> _StoredTable:
    return _StoredTable(table.rows, table.head_rows, table.spans, table.marked)


def _unpacked(packed: _StoredElement, page: int, place: int) -> Element:
    return Element(
        id=packed.i or element_id(page, place),
        kind=_KIND_OF.get(packed.t, ElementKind.PARAGRAPH),
        text=packed.x,
        box=_points(packed.b) if packed.b is not None else None,
        parent=packed.p,
        level=packed.v,
        marker=packed.k,
        depth=packed.d,
        table=_unpacked_table(packed.c) if packed.c is not None else None,
        latex=packed.la,
        language=packed.lg,
        confidence=packed.cf,
        grounded=None if packed.g is None else bool(packed.g),
        reader=packed.r,
        markdown=packed.md,
        repeated=bool(packed.o),
        lines=_lines(packed.l),
        file=FileFacts(*packed.f) if packed.f is not None else None,
        continues=packed.cn,
    )


def _unpacked_table(packed: _StoredTable) -> TableGrid:
    return TableGrid(
        packed.r,
        packed.h,
        tuple(CellSpan(*span) for span in packed.s),
        tuple(CellMarkdown(*mark) for mark in packed.m),
    )


def _lines(numbers: Sequence[int]) -> tuple[ElementLine, ...]:
    if len(numbers) % _NUMBERS_A_LINE:
        raise ValueError("a line without its box")
    return tuple(
        ElementLine(numbers[at], _points(numbers[at + 1 : at + _NUMBERS_A_LINE]))
        for at in range(0, len(numbers), _NUMBERS_A_LINE)
    )


def _tenths(box: Box) -> list[int]:
    return [round(value * _TENTHS) for value in box]


def _points(numbers: Sequence[int]) -> Box:
    x0, y0, x1, y1 = numbers
    return x0 / _TENTHS, y0 / _TENTHS, x1 / _TENTHS, y1 / _TENTHS
