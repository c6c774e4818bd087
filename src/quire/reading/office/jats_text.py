"""The words of a JATS element in one line, and the rows of its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from quire.domain.element import CellSpan
from quire.reading.office.inline_markdown import BOLD, CODE, ITALIC, RAISED, RAW, Run, render
from quire.reading.office.math_markup import inline_formula
from quire.reading.office.mathml_markup import mathml_latex
from quire.reading.office.ooxml_package import MAX_DEPTH

_LOOKS = {"bold": BOLD, "italic": ITALIC, "monospace": CODE, "sup": RAISED}
_WORDS_APART = frozenset(
    {
        *("p", "title", "label", "name", "string-name", "element-citation", "break", "term", "list-item"),
        *("fn", "verse-line", "td", "th"),
    }
)
_PARTS_APART = frozenset(
    {"name", "person-group", "element-citation", "nlm-citation", "aff", "collab", "compound-kwd", "corresp"}
)
"""Elements whose parts are words of their own, even if nothing is written between them."""
_BEST_FORMS = ("tex-math", "math", "textual-form", "table", "mixed-citation", "element-citation")
_TEX_BODY = re.compile(r"\\begin\{document\}(.*?)\\end\{document\}", re.DOTALL)
_MOST_SPAN = 64


def local_name(element: Element) -> str:
    """The name of an element without its namespace, "" for what is no element."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def children(element: Element | None, *names: str) -> Iterator[Element]:
    """The children that have one of these names."""
    return (one for one in (element if element is not None else ()) if local_name(one) in names)


def child(element: Element | None, name: str) -> Element | None:
    """The first child of that name."""
    return next(children(element, name), None)


def found(element: Element, name: str) -> Iterator[Element]:
    """The elements of that name inside the element, at any depth."""
    return (one for one in element.iter() if local_name(one) == name)


def chosen_form(alternatives: Element) -> Element | None:
    """Of several forms of one thing the one that says most as text."""
    forms = [one for one in alternatives if local_name(one)]
    best = (one for name in _BEST_FORMS for one in forms if local_name(one) == name)
    return next(best, forms[0] if forms else None)


def latex_text(element: Element) -> str:
    """The formula in a `tex-math`, which may be a whole LaTeX document."""
    text = "".join(element.itertext())
    inside = _TEX_BODY.search(text)
    text = " ".join((inside[1] if inside else text).replace("<", "\\lt ").split()).strip("$ ")
    return text.removeprefix("\\[").removesuffix("\\]").replace("$", "\\$").strip()


def line_of(element: Element | None) -> str:
    """The words of an element in one line, as Markdown."""
    if element is None:
        return ""
    return render(_runs(element, 0, "", 0)).replace("\n", " ")


def _runs(element: Element, look: int, href: str, depth: int) -> Iterator[Run]:
    if element.text:
        yield Run(" ".join(element.text.split("\n")), look, href)
    are_apart = local_name(element) in _PARTS_APART
    for one in element:
        name = local_name(one)
        if depth < MAX_DEPTH and name:
            yield from _child_runs(one, name, look, href, depth)
            if name in _WORDS_APART or (are_apart and not one.tail):
                yield Run(" ")
        if one.tail:
            yield Run(" ".join(one.tail.split("\n")), look, href)


def _child_runs(one: Element, name: str, look: int, href: str, depth: int) -> Iterator[Run]:
    if name == "math":
        yield Run(inline_formula(mathml_latex(one)), RAW)
    elif name == "tex-math":
        yield Run(inline_formula(latex_text(one)), RAW)
    elif name in ("alternatives", "citation-alternatives"):
        form = chosen_form(one)
        if form is not None:
            yield from _child_runs(form, local_name(form), look, href, depth + 1)
    elif name in ("ext-link", "uri"):
        address = next((value for key, value in one.attrib.items() if key.endswith("href")), "")
        yield from _runs(one, look, address, depth + 1)
    else:
        yield from _runs(one, look | _LOOKS.get(name, 0), href, depth + 1)


def table_rows(table: Element) -> tuple[list[list[str]], list[CellSpan]]:
    """The rows of a table, with cells that span several rows or columns at their first place."""
    rows: list[list[str]] = []
    spans: list[CellSpan] = []
    taken: set[tuple[int, int]] = set()
    for at, row in enumerate(one for one in table.iter() if local_name(one) in ("tr", "row")):
        cells: list[str] = []
        for one in children(row, "td", "th", "entry"):
            while (at, len(cells)) in taken:
                cells.append("")
            wide, high = _span(one.get("colspan")), _span(one.get("rowspan"))
            if wide > 1 or high > 1:
                spans.append(CellSpan(at, len(cells), high, wide))
                taken |= {(at + r, len(cells) + c) for r in range(high) for c in range(wide)}
            cells += [line_of(one), *[""] * (wide - 1)]
        rows.append(cells)
    return rows, [one._replace(row_span=min(one.row_span, len(rows) - one.row)) for one in spans]


def _span(given: str | None) -> int:
    return max(1, min(int(given), _MOST_SPAN)) if given and given.isdigit() and len(given) < 6 else 1
