"""Writes a page's elements as JSON values."""

from __future__ import annotations

from typing import Any

from quire.domain.element import Box, Element, ElementKind, PageElements, TableGrid

SCHEMA_VERSION = 1


def page_json(page: PageElements, *, lines: bool = False) -> dict[str, Any]:
    """The page with its elements in reading order; `lines` adds the box of every line."""
    return {"schema_version": SCHEMA_VERSION, **document_page_json(page, lines=lines)}


def document_page_json(page: PageElements, *, lines: bool = False, note: str = "") -> dict[str, Any]:
    """The page as a part of its document, which has the schema's version. `note` says why it has no elements."""
    found: dict[str, Any] = {
        "page_number": page.number,
        "width": page.width or None,
        "height": page.height or None,
        "reader": page.reader or None,
        "elements": [
            element_json(element, place, page.reader, lines=lines)
            for place, element in enumerate(page.elements)
        ],
    }
    if note:
        found["note"] = note
    return found


def element_json(element: Element, order: int, reader: str = "", *, lines: bool = False) -> dict[str, Any]:
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
    for name in ("level", "marker", "depth", "latex", "language", "markdown"):
        value = getattr(element, name)
        if value:
            found[name] = value
    if element.kind is ElementKind.FORM_FIELD:
        found["name"] = found.pop("marker", "")
    if element.table is not None:
        found["table"] = _table(element.table)
    if lines and element.lines:
        found["lines"] = [{"start": line.start, "box": _box(line.box)} for line in element.lines]
    return found


def _table(table: TableGrid) -> dict[str, Any]:
    return {
        "rows": len(table.rows),
        "columns": max(map(len, table.rows), default=0),
        "cells": [cell._asdict() for cell in table.cells()],
    }


def _box(box: Box | None) -> list[float] | None:
    return None if box is None else [round(value, 1) for value in box]
