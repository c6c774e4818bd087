"""Writes a page's elements as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quire.domain.element import Element, ElementKind, TableGrid
from quire.rendering import markdown_writer

_LINES = {
    ElementKind.PARAGRAPH,
    ElementKind.CAPTION,
    ElementKind.RUNNING_HEADER,
    ElementKind.RUNNING_FOOTER,
    ElementKind.PAGE_NUMBER,
    ElementKind.ATTACHMENT,
}


@dataclass(frozen=True, slots=True)
class MarkdownOptions:
    """`keep_running` writes running headers, footers and page numbers on every page that has them."""

    keep_running: bool = False


def render_markdown(elements: Sequence[Element], options: MarkdownOptions | None = None) -> str:
    """The Markdown of a page: blocks with an empty line between them, items of a list line by line."""
    keep = options is not None and options.keep_running
    shown = [element for element in elements if element.is_written(keep_running=keep)]
    if not any(element.parent for element in shown):
        return _joined(shown, {})
    kinds = {element.id: element.kind for element in shown}
    mixed = _mixed_holders(shown, kinds)
    children: dict[str, list[Element]] = {}
    top: list[Element] = []
    homes: dict[str, str] = {}
    for element in shown:
        parent = element.parent or ""
        holder = kinds.get(parent)
        # Items inside an item have a depth; a caption is shown where the page has it, above or below.
        if holder is None or element.kind is ElementKind.CAPTION:
            home = ""
        elif {element.kind, holder} == {ElementKind.LIST_ITEM} and parent not in mixed:
            home = homes.get(parent, "")
        else:
            home = parent
        homes[element.id] = home
        (children.setdefault(home, []) if home else top).append(element)
    return _joined(top, children)


def _mixed_holders(elements: Sequence[Element], kinds: Mapping[str, ElementKind]) -> set[str]:
    """Items that hold something behind an inner item: they are written with all that is in them."""
    with_items: set[str] = set()
    mixed: set[str] = set()
    for element in elements:
        parent = element.parent or ""
        if kinds.get(parent) is not ElementKind.LIST_ITEM or element.kind is ElementKind.CAPTION:
            continue
        if element.kind is ElementKind.LIST_ITEM:
            with_items.add(parent)
        elif parent in with_items:
            mixed.add(parent)
    return mixed


def _joined(elements: Sequence[Element], children: dict[str, list[Element]], depth: int = 0) -> str:
    """The Markdown of elements that are inside of `depth` items."""
    texts: list[str] = []
    items: list[markdown_writer.Item] = []
    for element in elements:
        if element.is_item:
            items.append(_item(element, children, depth))
            continue
        if items:
            texts.append(markdown_writer.list_items(items))
            items = []
        texts.append(_block(element, children))
    if items:
        texts.append(markdown_writer.list_items(items))
    return "\n\n".join(text for text in texts if text)


def _item(element: Element, children: dict[str, list[Element]], depth: int) -> markdown_writer.Item:
    held = children.get(element.id)
    below = _joined(held, children, element.depth + 1) if held else ""
    inner = max(0, element.depth - depth)
    return markdown_writer.Item(element.text, element.marker, inner, element.markdown, below)


def _block(element: Element, children: dict[str, list[Element]]) -> str:
    kind = element.kind
    if kind in _LINES:
        text = _paragraph(element)
    elif kind is ElementKind.HEADING or kind is ElementKind.TITLE:
        text = markdown_writer.heading(element.text, element.level or 1, element.markdown)
    elif kind is ElementKind.TABLE:
        text = _table(element.table) if element.table else _paragraph(element)
    elif kind is ElementKind.CODE:
        text = markdown_writer.code(element.text.split("\n"), element.language)
    elif kind is ElementKind.QUOTE:
        held = children.get(element.id)
        inner = "\n\n".join(filter(None, [_paragraph(element), _joined(held, children) if held else ""]))
        return "\n".join(f"> {line}".rstrip() for line in inner.split("\n"))
    elif kind is ElementKind.FORMULA:
        text = f"$$\n{element.latex}\n$$" if element.latex else _paragraph(element)
    elif kind is ElementKind.FORM_FIELD:
        named = f"{element.marker}: {element.text}" if element.marker and element.text else element.text
        text = markdown_writer.paragraph(named)
    elif kind is ElementKind.FOOTNOTE:
        text = f"[^{element.marker}]: {_paragraph(element)}" if element.marker else _paragraph(element)
    else:
        text = element.markdown
    held = children.get(element.id)
    return "\n\n".join(filter(None, [text, _joined(held, children)])) if held else text


def _paragraph(element: Element) -> str:
    return element.markdown or markdown_writer.paragraph(element.text)


def _table(table: TableGrid) -> str:
    if not table.marked:
        return markdown_writer.table(table.rows)
    rows = [list(row) for row in table.rows]
    marked = {(mark.row, mark.column) for mark in table.marked}
    for mark in table.marked:
        rows[mark.row][mark.column] = mark.markdown
    return markdown_writer.table(rows, marked)
