"""Writes a page's elements as HTML: semantic, tables with their spans, and nothing in it that can act.

All text is escaped. Inline Markdown goes through a CommonMark renderer that escapes HTML, follows no pictures and drops
addresses with a scheme that a browser would run.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from quire.domain.element import Element, ElementKind, TableGrid
from quire.rendering.joined_tables import is_joined_part

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_TAGS = {
    ElementKind.PARAGRAPH: "p",
    ElementKind.FORM_FIELD: "p",
    ElementKind.ATTACHMENT: "p",
    ElementKind.RUNNING_HEADER: "header",
    ElementKind.RUNNING_FOOTER: "footer",
    ElementKind.PAGE_NUMBER: "footer",
    ElementKind.FOOTNOTE: "aside",
    ElementKind.CAPTION: "figcaption",
}
_MAX_LEVEL = 6


@functools.cache
def _inline() -> MarkdownIt:
    from markdown_it import MarkdownIt  # here: an idle service does not need it

    return MarkdownIt("commonmark", {"html": False}).enable("strikethrough").disable("image")


def inline_html(markdown: str) -> str:
    """Inline Markdown as HTML; HTML in it is escaped, and addresses that a browser would run are dropped."""
    return str(_inline().renderInline(markdown))


def render_html(elements: Sequence[Element], *, keep_running: bool = False) -> str:
    """The HTML of a page's content, one line for each block; it has no document around it."""
    shown = [element for element in elements if element.is_written(keep_running=keep_running)]
    kinds = {element.id: element.kind for element in shown}
    children: dict[str, list[Element]] = {}
    top: list[Element] = []
    for element in shown:
        held = element.parent if element.parent in kinds else None
        if element.kind is ElementKind.CAPTION and held and kinds[held] is not ElementKind.FIGURE:
            held = None  # a table's caption stays where the page has it, above or below
        (top if held is None else children.setdefault(held, [])).append(element)
    return "\n".join(_blocks(top, children))


def _blocks(elements: Sequence[Element], children: dict[str, list[Element]]) -> list[str]:
    found: list[str] = []
    items: list[Element] = []
    for element in elements:
        if element.is_item:
            if items and element.depth <= items[0].depth and _is_ordered(element) != _is_ordered(items[0]):
                found.append(_list(items, children))
                items = []
            items.append(element)
            continue
        if items:
            found.append(_list(items, children))
            items = []
        found.append(_block(element, children))
    if items:
        found.append(_list(items, children))
    return found


def _list(items: Sequence[Element], children: dict[str, list[Element]]) -> str:
    """Items as one list; those that are deeper than the first are lists inside the item before them."""
    depth = items[0].depth
    tag = "ol" if _is_ordered(items[0]) else "ul"
    parts: list[str] = []
    at, expected = 0, int(items[0].marker[:-1]) if tag == "ol" else 0
    while at < len(items):
        item = items[at]
        value, expected = _value(item, tag, expected)
        end = at + 1
        while end < len(items) and items[end].depth > depth:
            end += 1
        inner = [_label(item), _text(item), *_blocks(children.get(item.id, ()), children)]
        if end > at + 1:
            inner.append(_list(items[at + 1 : end], children))
        parts.append(f'<li id="{escape(item.id)}"{value}>{"".join(inner)}</li>')
        at = end
    start = items[0].marker[:-1]
    first = f' start="{int(start)}"' if tag == "ol" and int(start) != 1 else ""
    return f"<{tag}{first}>{''.join(parts)}</{tag}>"


def _value(item: Element, tag: str, expected: int) -> tuple[str, int]:
    """The number of an item where counting would give another one, and the number that follows it."""
    if tag != "ol" or not _is_ordered(item):
        return "", expected + 1
    number = int(item.marker[:-1])
    return (f' value="{number}"' if number != expected else ""), number + 1


def _label(item: Element) -> str:
    """The mark of an item that HTML does not write by itself: "a)", "(ii)", "2.1"."""
    is_said = any(map(str.isalnum, item.marker)) and not _is_ordered(item)
    return f"{escape(item.marker)} " if is_said else ""


def _is_ordered(item: Element) -> bool:
    return item.marker[:-1].isdecimal() and item.marker[-1:] in (".", ")")


def _block(element: Element, children: dict[str, list[Element]]) -> str:
    kind, id_ = element.kind, f' id="{escape(element.id)}"'
    inner = "".join(_blocks(children.get(element.id, ()), children))
    if kind in (ElementKind.HEADING, ElementKind.TITLE):
        level = max(1, min(_MAX_LEVEL, element.level or 1))
        text = f"<h{level}{id_}>{_text(element)}</h{level}>{inner}"
    elif kind is ElementKind.TABLE and element.table is not None:
        text = f"{_table(element.table, id_)}{inner}"
    elif is_joined_part(element):
        text = f'<div{id_} data-continues="{escape(element.continues)}"></div>{inner}'
    elif kind is ElementKind.CODE:
        language = f' class="language-{escape(element.language)}"' if element.language else ""
        text = f"<pre{id_}><code{language}>{escape(element.text)}</code></pre>{inner}"
    elif kind is ElementKind.QUOTE:
        text = f"<blockquote{id_}><p>{_text(element)}</p>{inner}</blockquote>"
    elif kind is ElementKind.FORMULA:
        text = f'<p{id_} class="formula">{escape(element.latex or element.text)}</p>{inner}'
    elif kind is ElementKind.FIGURE:
        caption = f"<figcaption>{escape(element.text)}</figcaption>" if element.text else ""
        text = f"<figure{id_}>{caption}{inner}</figure>"
    elif kind is ElementKind.CAPTION and element.parent not in children:
        text = f'<p{id_} class="caption">{_text(element)}</p>{inner}'
    else:
        tag = _TAGS.get(kind, "p")
        text = f"<{tag}{id_}>{_text(element)}</{tag}>{inner}"
    return text


def _text(element: Element) -> str:
    if element.markdown:
        return inline_html(element.markdown)
    return escape(element.text).replace("\n", "<br/>")


def table_html(table: TableGrid) -> str:
    """A table alone, with its spans."""
    return _table(table, "")


def _table(table: TableGrid, id_: str) -> str:
    rows: dict[int, list[str]] = {row: [] for row in range(len(table.rows))}
    for cell in table.cells():
        tag = "th" if cell.is_head else "td"
        spans = f' rowspan="{cell.row_span}"' if cell.row_span > 1 else ""
        spans += f' colspan="{cell.column_span}"' if cell.column_span > 1 else ""
        text = inline_html(cell.markdown) if cell.markdown else escape(cell.text)
        rows[cell.row].append(f"<{tag}{spans}>{text}</{tag}>")
    lines = [f"<tr>{''.join(cells)}</tr>" for cells in rows.values()]
    head, body = lines[: table.head_rows], lines[table.head_rows :]
    thead = f"<thead>{''.join(head)}</thead>" if head else ""
    return f"<table{id_}>{thead}<tbody>{''.join(body)}</tbody></table>"
