"""Writes elements and chunks as the elements of Unstructured."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from quire.domain.element import Box, Element, ElementKind, PageElements
from quire.domain.text_chunk import TextChunk
from quire.rendering.page_html import render_html

_TYPES = {
    ElementKind.TITLE: "Title",
    ElementKind.HEADING: "Title",
    ElementKind.PARAGRAPH: "NarrativeText",
    ElementKind.QUOTE: "NarrativeText",
    ElementKind.LIST_ITEM: "ListItem",
    ElementKind.TABLE: "Table",
    ElementKind.FIGURE: "Image",
    ElementKind.CAPTION: "FigureCaption",
    ElementKind.FORMULA: "Formula",
    ElementKind.CODE: "CodeSnippet",
    ElementKind.FOOTNOTE: "Footnote",
    ElementKind.RUNNING_HEADER: "Header",
    ElementKind.RUNNING_FOOTER: "Footer",
    ElementKind.PAGE_NUMBER: "PageNumber",
}


@dataclass(slots=True)
class ElementWriter:
    """Writes the pages of one document in order. An element's parent is the heading above it."""

    filename: str
    filetype: str
    languages: list[str] = field(default_factory=list)
    coordinates: bool = False
    first_page: int = 1
    _path: list[tuple[int, str]] = field(default_factory=list)
    _written: int = 0

    def page(self, page: PageElements) -> Iterator[dict[str, Any]]:
        for element in page.elements:
            text = element.plain_text or element.latex
            if text or element.kind is ElementKind.FIGURE:
                yield self._element(element, page, text)

    def page_break(self) -> dict[str, Any]:
        return {"type": "PageBreak", "element_id": self._id("", 0), "text": "", "metadata": {}}

    def note(self, page: int, text: str) -> dict[str, Any]:
        """A page that could not be read, or has no text."""
        return self._shown("UncategorizedText", text, page, {})

    def chunk(self, chunk: TextChunk) -> dict[str, Any]:
        pages = sorted({place.page for place in chunk.places})
        more: dict[str, Any] = {
            "quire_boxes": chunk.as_dict()["boxes"],
            "quire_headings": list(chunk.headings),
        }
        kind = "Table" if chunk.kind == "table" else "CompositeElement"
        return self._shown(kind, chunk.text, pages[0] if pages else 1, more)

    def _element(self, element: Element, page: PageElements, text: str) -> dict[str, Any]:
        more: dict[str, Any] = {}
        heading = element.kind in (ElementKind.TITLE, ElementKind.HEADING)
        level = element.level or 1
        if heading:
            more["category_depth"] = level - 1
            while self._path and self._path[-1][0] >= level:
                self._path.pop()
        elif element.kind is ElementKind.LIST_ITEM:
            more["category_depth"] = element.depth
        if self._path:
            more["parent_id"] = self._path[-1][1]
        if element.table is not None:
            more["text_as_html"] = render_html([element])
        if self.coordinates and element.box is not None and page.width:
            more["coordinates"] = _coordinates(element.box, page)
        if element.confidence is not None:
            more["detection_class_prob"] = element.confidence
        shown = self._shown(_TYPES.get(element.kind, "UncategorizedText"), text, page.number, more)
        if heading:
            self._path.append((level, shown["element_id"]))
        return shown

    def _shown(self, kind: str, text: str, page: int, more: dict[str, Any]) -> dict[str, Any]:
        metadata = {
            "filename": self.filename,
            "filetype": self.filetype,
            "page_number": page + self.first_page - 1,
            **({"languages": self.languages} if self.languages else {}),
            **more,
        }
        return {"type": kind, "element_id": self._id(text, page), "text": text, "metadata": metadata}

    def _id(self, text: str, page: int) -> str:
        """The same for the same element of the same document, and different for others."""
        self._written += 1
        place = f"{self.filename}\0{page + self.first_page}\0{self._written}\0{text}"
        return hashlib.sha256(place.encode("utf-8", "replace")).hexdigest()[:32]


def _coordinates(box: Box, page: PageElements) -> dict[str, Any]:
    left, top, right, bottom = (round(value, 1) for value in box)
    return {
        "points": [[left, top], [left, bottom], [right, bottom], [right, top]],
        "system": "PointSpace",
        "layout_width": page.width,
        "layout_height": page.height,
    }
