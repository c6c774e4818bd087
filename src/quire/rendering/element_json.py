"""Writes a page's elements as JSON values."""

from __future__ import annotations

from typing import Any

from quire.domain.element import Box, Element, ElementKind, PageElements, TableGrid
from quire.domain.included_details import IncludedDetails
from quire.rendering.word_boxes import line_words

SCHEMA_VERSION = 1


_PLAIN = IncludedDetails()


def page_json(page: PageElements, included: IncludedDetails = _PLAIN) -> dict[str, Any]:
    """The page with its elements in reading order; `included` says whether they have lines and words."""
    return {"schema_version": SCHEMA_VERSION, **document_page_json(page, included)}


def document_page_json(
    page: PageElements, included: IncludedDetails = _PLAIN, *, note: str = ""
) -> dict[str, Any]:
    """The page as a part of its document, which has the schema's version. `note` says why it has no elements."""
    found: dict[str, Any] = {
        "page_number": page.number,
        "width": page.width or None,
        "height": page.height or None,
        "reader": page.reader or None,
        "elements": [
            element_json(element, place, page.reader, included) for place, element in enumerate(page.elements)
        ],
    }
    if page.turns:
        found["turned"] = 90 * page.turns
    if note:
        found["note"] = note
    return found


def element_json(
    element: Element, order: int, reader: str = "", included: IncludedDetails = _PLAIN
) -> dict[str, Any]:
    """One element. Fields that its kind does not have are left out."""
    found: dict[str, Any] = {
        "id": element.id,
        "kind": element.kind.value,
        "order": order,
        "parent": element.parent,
        "box": _box(element.box),
        "text": element.plain_text,
        "confidence": element.confidence,
        "grounded": element.grounded,
        "reader": element.reader or reader or None,
    }
    if element.repeated:
        found["repeated"] = True
    for name in ("level", "marker", "depth", "latex", "language", "markdown", "continues"):
        value = getattr(element, name)
        if value:
            found[name] = value
    if element.kind is ElementKind.FORM_FIELD:
        found["name"] = found.pop("marker", "")
    if element.file is not None:
        found["file"] = element.file._asdict()
    if element.table is not None:
        found["table"] = _table(element.table)
    if included.lines and element.lines:
        found["lines"] = [{"start": line.start, "box": _box(line.box)} for line in element.lines]
    if included.words and element.lines:
        found["words"] = [
            {"start": word.start, "end": word.end, "box": _box(word.box)} for word in line_words(element)
        ]
    return found


def _table(table: TableGrid) -> dict[str, Any]:
    return {
        "rows": len(table.rows),
        "columns": max(map(len, table.rows), default=0),
        "cells": [cell._asdict() for cell in table.cells()],
    }


def _box(box: Box | None) -> list[float] | None:
    return None if box is None else [round(value, 1) for value in box]
