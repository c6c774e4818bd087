"""Writes a document's elements as the parts of a DoclingDocument (its JSON form, version 1.10), page by page.

A DoclingDocument lists its texts, tables, pictures and groups apart, and joins them by references; an element gets its
reference when its page is added. Formatting and links inside a text are not written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from quire.domain.element import RUNNING_KINDS, Box, Element, ElementKind, PageElements, TableGrid
from quire.rendering.joined_tables import is_joined_part

SCHEMA_NAME = "DoclingDocument"
VERSION = "1.10.0"
SECTIONS = ("groups", "texts", "pictures", "tables")
"""The lists of items in a DoclingDocument."""

_BODY = "#/body"
_LABELS = {
    ElementKind.TITLE: "title",
    ElementKind.HEADING: "section_header",
    ElementKind.LIST_ITEM: "list_item",
    ElementKind.CAPTION: "caption",
    ElementKind.FORMULA: "formula",
    ElementKind.CODE: "code",
    ElementKind.FOOTNOTE: "footnote",
    ElementKind.RUNNING_HEADER: "page_header",
    ElementKind.RUNNING_FOOTER: "page_footer",
    ElementKind.PAGE_NUMBER: "page_footer",
}
_MOST_LEVELS = 100
_LANGUAGES = {
    **{name.lower(): name for name in ("Bash", "C", "C#", "C++", "CSS", "Dart", "Dockerfile", "Go", "HTML")},
    **{name.lower(): name for name in ("Haskell", "Java", "JavaScript", "JSON", "Julia", "Kotlin", "Lua")},
    **{name.lower(): name for name in ("Matlab", "PHP", "Perl", "Python", "Ruby", "Rust", "SQL", "Scala")},
    **{name.lower(): name for name in ("Swift", "TypeScript", "XML", "YAML")},
}
_TYPES = frozenset(
    {
        "application/pdf",
        "application/epub+zip",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "image/bmp",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/tiff",
        "message/rfc822",
        "text/csv",
        "text/html",
        "text/plain",
    }
)
"""Media types that docling-core accepts for the origin of a document on every system."""


def document_origin(mime: str | None, sha256: str | None, filename: str) -> dict[str, Any] | None:
    """What a DoclingDocument says about the file it was read from; None where docling-core would refuse its type."""
    if not filename or not sha256 or mime not in _TYPES:
        return None
    return {"mimetype": mime, "binary_hash": int(sha256[:16], 16), "filename": filename}


class DoclingItems:
    """Turns pages into items, in order. References count over the whole document."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(SECTIONS, 0)

    def add(self, page: PageElements, note: str = "") -> DoclingPage:
        """The items of the next page. `note` is the text that a page without elements has in the result."""
        elements = page.elements
        if not elements and note:
            elements = (Element("", ElementKind.PARAGRAPH, note),)
        return DoclingPage(page, elements, self._counts)


class DoclingPage:
    """The items of one page by section, the references of those at the top level, and the page's entry."""

    def __init__(self, page: PageElements, elements: Sequence[Element], counts: dict[str, int]) -> None:
        self.items: dict[str, list[dict[str, Any]]] = {name: [] for name in SECTIONS}
        self.top: list[str] = []
        self.refs: dict[str, str] = {}
        """The reference of each element by its id."""
        self.entry: dict[str, Any] | None = None
        self._items: dict[str, dict[str, Any]] = {}
        self._page = page
        self._counts = counts
        if page.width > 0 and page.height > 0:
            self.entry = {"size": {"width": page.width, "height": page.height}, "page_no": page.number}
        self._add_all(elements)

    def _add_all(self, elements: Sequence[Element]) -> None:
        captions = _captions(elements)
        held = {caption.id for listed in captions.values() for caption in listed}
        lists: dict[str, dict[str, Any]] = {}  # the open group of each item that holds one
        for element in elements:
            if element.id in held or is_joined_part(element):
                continue
            holder = self._items.get(element.parent or "")
            place = element.parent or "" if holder else ""
            if element.is_item:
                if place not in lists:
                    lists[place] = self._group(holder)
                group = lists[place]
                group["children"].append(_ref(self._add(element, group["self_ref"])))
                continue
            lists.pop(place, None)
            item = self._add(element, holder["self_ref"] if holder else _BODY)
            self._list_child(holder, item)
            for caption in captions.get(element.id, ()):
                below = self._add(caption, item["self_ref"])
                item["children"].append(_ref(below))
                item["captions"].append(_ref(below))

    def _group(self, holder: dict[str, Any] | None) -> dict[str, Any]:
        """A new list inside of the holder, or at the top level."""
        parent = holder["self_ref"] if holder else _BODY
        group = self._item("groups", parent, name="list", label="list", content_layer="body")
        self._list_child(holder, group)
        return group

    def _list_child(self, holder: dict[str, Any] | None, item: dict[str, Any]) -> None:
        if holder is None:
            self.top.append(item["self_ref"])
        else:
            holder["children"].append(_ref(item))

    def _add(self, element: Element, parent: str) -> dict[str, Any]:
        if element.kind is ElementKind.FIGURE:
            return self._picture(element, parent)
        if element.kind is ElementKind.TABLE and element.table is not None:
            fields = {"label": "table", "data": _table(element.table), "annotations": []}
            return self._item("tables", parent, element, **_floating(), **fields)
        return self._text(element, parent)

    def _picture(self, element: Element, parent: str) -> dict[str, Any]:
        notes = []
        if element.text:
            source = element.reader or self._page.reader or "quire"
            notes.append({"kind": "description", "text": element.text, "provenance": source})
        return self._item("pictures", parent, element, **_floating(), label="picture", annotations=notes)

    def _text(self, element: Element, parent: str) -> dict[str, Any]:
        text = _words(element)
        fields: dict[str, Any] = {"label": _label(element), "orig": text, "text": text}
        if element.kind is ElementKind.HEADING:
            fields["level"] = max(1, min(_MOST_LEVELS, element.level or 1))
        elif element.is_item:
            marker = element.marker or "-"
            fields |= {"enumerated": marker[:-1].isdecimal(), "marker": marker}
        elif element.kind is ElementKind.CODE:
            fields |= {**_floating(), "code_language": _LANGUAGES.get(element.language.lower(), "unknown")}
        return self._item("texts", parent, element, **fields)

    def _item(
        self, section: str, parent: str, element: Element | None = None, **fields: Any
    ) -> dict[str, Any]:
        place = self._counts[section]
        self._counts[section] = place + 1
        item: dict[str, Any] = {
            "self_ref": f"#/{section}/{place}",
            "parent": {"$ref": parent},
            "children": [],
        }
        if element is not None:
            running = element.kind in RUNNING_KINDS
            item["content_layer"] = "furniture" if running else "body"
            item["prov"] = self._places(element)
            self.refs |= dict.fromkeys((element.id, *(one.id for one in element.parts)), item["self_ref"])
            self._items[element.id] = item
        item.update(fields)
        self.items[section].append(item)
        return item

    def _places(self, element: Element) -> list[dict[str, Any]]:
        """Where the element is on its page; none where its box is not known."""
        if element.parts:
            return [_place(part.page, part.box, 0) for part in element.parts if part.box is not None]
        if element.box is None:
            return []
        return [_place(self._page.number, element.box, len(_words(element)))]


def _place(page: int, corners: Box, chars: int) -> dict[str, Any]:
    left, top, right, bottom = (round(value, 1) for value in corners)
    box = {"l": left, "t": top, "r": right, "b": bottom, "coord_origin": "TOPLEFT"}
    return {"page_no": page, "bbox": box, "charspan": [0, chars]}


def document_head(name: str, origin: dict[str, Any] | None) -> dict[str, Any]:
    """The fields of a DoclingDocument that do not depend on its pages."""
    head: dict[str, Any] = {"schema_name": SCHEMA_NAME, "version": VERSION, "name": name}
    if origin is not None:
        head["origin"] = origin
    return head | {"furniture": _root("furniture", []), "key_value_items": [], "form_items": []}


def docling_dict(
    name: str, origin: dict[str, Any] | None, pages: Iterable[tuple[PageElements, str]]
) -> dict[str, Any]:
    """A whole DoclingDocument of pages and their notes, for documents that fit in memory."""
    found = document_head(name, origin) | {section: [] for section in SECTIONS}
    top: list[str] = []
    entries: dict[str, Any] = {}
    items = DoclingItems()
    for page, note in pages:
        added = items.add(page, note)
        for section in SECTIONS:
            found[section] += added.items[section]
        top += added.top
        if added.entry is not None:
            entries[str(page.number)] = added.entry
    return found | {"body": _root("body", top), "pages": entries}


def body_start() -> str:
    """The JSON of the body up to its first child."""
    empty = json.dumps(_root("body", []), separators=(",", ":"))
    return empty.removesuffix("]}")


def _root(layer: str, children: Sequence[str]) -> dict[str, Any]:
    return {
        "self_ref": f"#/{layer}",
        "content_layer": layer,
        "name": "_root_",
        "label": "unspecified",
        "children": [{"$ref": one} for one in children],
    }


def _floating() -> dict[str, Any]:
    return {"captions": [], "references": [], "footnotes": []}


def _captions(elements: Sequence[Element]) -> dict[str, list[Element]]:
    """Captions by the figure or table that they belong to."""
    holders = {one.id for one in elements if one.kind is ElementKind.FIGURE or one.table is not None}
    found: dict[str, list[Element]] = {}
    for element in elements:
        if element.kind is ElementKind.CAPTION and element.parent in holders:
            found.setdefault(element.parent or "", []).append(element)
    return found


def _label(element: Element) -> str:
    return "list_item" if element.is_item else _LABELS.get(element.kind, "text")


def _words(element: Element) -> str:
    if element.kind is ElementKind.FORMULA:
        return element.latex or element.text
    if element.kind is ElementKind.FORM_FIELD and element.marker and element.text:
        return f"{element.marker}: {element.text}"
    return element.text


def _table(table: TableGrid) -> dict[str, Any]:
    cells = [
        {
            "row_span": cell.row_span,
            "col_span": cell.column_span,
            "start_row_offset_idx": cell.row,
            "end_row_offset_idx": cell.row + cell.row_span,
            "start_col_offset_idx": cell.column,
            "end_col_offset_idx": cell.column + cell.column_span,
            "text": cell.text,
            "column_header": cell.is_head,
            "row_header": False,
            "row_section": False,
        }
        for cell in table.cells()
    ]
    columns = max(map(len, table.rows), default=0)
    return {"table_cells": cells, "num_rows": len(table.rows), "num_cols": columns}


def _ref(item: dict[str, Any]) -> dict[str, str]:
    return {"$ref": item["self_ref"]}
