"""Writes a page's elements as Markdown with the options of a request, and the front matter of a document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from quire.domain.element import Element, ElementKind
from quire.domain.output_options import HeaderForm, OutputOptions, TableForm
from quire.rendering.page_html import table_html
from quire.rendering.page_markdown import MarkdownOptions, render_markdown


def page_markdown(elements: Sequence[Element], options: OutputOptions, figures: Mapping[str, str]) -> str:
    """The Markdown of a page. `figures` has what is written for a figure, by the id of its element."""
    shown = [_shown(element, options, figures) for element in elements]
    return render_markdown(shown, MarkdownOptions(keep_running=options.headers is HeaderForm.KEEP))


def _shown(element: Element, options: OutputOptions, figures: Mapping[str, str]) -> Element:
    if element.kind is ElementKind.FIGURE and element.id in figures:
        said = element.markdown
        return replace(element, markdown="\n\n".join(filter(None, [figures[element.id], said])))
    if element.table is not None and _is_html(element, options):
        # A paragraph whose Markdown is given is written as it is.
        html = table_html(element.table).replace("\n", " ")
        return replace(element, kind=ElementKind.PARAGRAPH, table=None, markdown=html)
    return element


def _is_html(element: Element, options: OutputOptions) -> bool:
    spans = element.table is not None and bool(element.table.spans)
    return options.tables is TableForm.HTML or (options.tables is TableForm.AUTO and spans)


def figure_placeholder(element: Element) -> str:
    """A comment in the place of a figure."""
    return f"<!-- figure {element.id} -->"


def figure_link(element: Element, address: str) -> str:
    """A figure as an image; its words are its alternative text."""
    words = " ".join(element.text.split())[:200]
    alt = "".join(c for c in words if c not in "[]\\`<>*_!")
    return f"![{alt or element.id}]({address})"


def front_matter(known: Mapping[str, Any]) -> str:
    """What is known of a document, as YAML between dashes; texts are quoted as JSON, which is YAML too."""
    lines = [
        f"{name}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in known.items()
        if value is not None
    ]
    return "\n".join(["---", *lines, "---", "", ""])
