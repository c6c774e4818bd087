"""Writes a page's elements as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from quire.domain.element import Element


def render_text(elements: Sequence[Element], *, keep_running: bool = False) -> str:
    """The words of a page without markup: blocks with an empty line between them, cells with a tab, items by line."""
    parts: list[str] = []
    before: Element | None = None
    for element in elements:
        text = _text(element)
        if not text or not element.is_written(keep_running=keep_running):
            continue
        if before is not None:
            items = before.is_item and element.is_item
            parts.append("\n" if items else "\n\n")
        parts.append(text)
        before = element
    return "".join(parts)


def _text(element: Element) -> str:
    text = element.plain_text or element.latex
    if element.is_item:
        mark = element.marker or "-"
        return f"{'  ' * element.depth}{mark} {text}"
    return text
