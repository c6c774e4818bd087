"""What a document says by its form alone, without AI: pairs of a name and a value, and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from quire.domain.element import Box, Element, ElementKind, PageElements

_PAIR = re.compile(r"^\s*([^\W\d_][^:\n]{0,48}?)\s*:\s+(\S[^\n]{0,200})$", re.MULTILINE)
_KEY_WORDS = 6
_MOST_PAIRS = 500
_MOST_TABLES = 50
_TEXTS = (ElementKind.PARAGRAPH, ElementKind.LIST_ITEM, ElementKind.CAPTION)


def local_findings(pages: Iterable[PageElements]) -> dict[str, Any]:
    """`pairs` of `{key, value, page, box, element}`, and `tables` of `{page, box, element, rows}`; both bounded."""
    pairs: list[dict[str, Any]] = []
    tables: list[dict[str, Any]] = []
    for page in pages:
        for element in page.elements:
            if element.table is not None and len(tables) < _MOST_TABLES:
                rows = [list(row) for row in element.table.rows]
                tables.append({**_place(page, element), "rows": rows})
            for key, value in _pairs(element):
                if len(pairs) < _MOST_PAIRS:
                    pairs.append({"key": key, "value": value, **_place(page, element)})
    return {"pairs": pairs, "tables": tables}


def _pairs(element: Element) -> Iterator[tuple[str, str]]:
    if element.kind is ElementKind.FORM_FIELD and element.marker and element.text:
        yield element.marker, element.text
    elif element.table is not None:
        for row in element.table.rows:
            cells = [cell.strip() for cell in row if cell.strip()]
            if len(cells) == 2 and len(cells[0].split()) <= _KEY_WORDS and not element.repeated:
                yield cells[0].rstrip(":"), cells[1]
    elif element.kind in _TEXTS and not element.repeated:
        for key, value in _PAIR.findall(element.text):
            if len(key.split()) <= _KEY_WORDS:
                yield key, value.strip()


def _place(page: PageElements, element: Element) -> dict[str, Any]:
    box: Box | None = element.box
    shown = None if box is None else [round(value, 1) for value in box]
    return {"page": page.number, "box": shown, "element": element.id}
