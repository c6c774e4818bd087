"""Styles of an OpenDocument file: how texts look, where pages begin, which lists are numbered, what is hidden."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.etree.ElementTree import Element

from quire.reading.office.inline_markdown import BOLD, HIDDEN, ITALIC, RAISED, STRIKE
from quire.reading.office.ooxml_package import Package

_DEEPEST_LINEAGE = 12
_TITLE = "Title"
_CODE, _QUOTE = "Preformatted_20_Text", "Quotations"
_CAPTION = "Caption"
"""The style from which LibreOffice derives its own for tables, illustrations and drawings, in any language."""


class OdfLevel(NamedTuple):
    """How a level of a list is numbered. `shown` is how many levels its numbers have: 2 for "1.3"."""

    format: str
    prefix: str = ""
    suffix: str = ""
    start: int = 1
    shown: int = 1


@dataclass(frozen=True, slots=True)
class OdfStyles:
    """What the styles say, by their names."""

    looks: dict[str, int] = field(default_factory=dict)
    levels: dict[str, dict[int, OdfLevel]] = field(default_factory=dict)
    """Of each style of list, and of headings under the name "", the levels that are numbered."""
    hidden_tables: set[str] = field(default_factory=set)
    parents: dict[str, str] = field(default_factory=dict)
    masters: dict[str, str] = field(default_factory=dict)
    """Styles of paragraphs and tables that begin a page of another kind, with the name of its master page."""
    breaks_before: set[str] = field(default_factory=set)
    breaks_after: set[str] = field(default_factory=set)
    hidden_slides: set[str] = field(default_factory=set)

    def is_caption(self, name: str) -> bool:
        """Whether a style is that of captions, or made from it."""
        return self._is_made_from(name, _CAPTION)

    def is_title(self, name: str) -> bool:
        """Whether a style is that of the title, or made from it."""
        return self._is_made_from(name, _TITLE)

    def is_code(self, name: str) -> bool:
        """Whether a style is that of texts whose lines and spaces count, or made from it."""
        return self._is_made_from(name, _CODE)

    def is_quote(self, name: str) -> bool:
        """Whether a style is that of quotations, or made from it."""
        return self._is_made_from(name, _QUOTE)

    def _is_made_from(self, name: str, wanted: str) -> bool:
        for _ in range(_DEEPEST_LINEAGE):
            if name == wanted or not name:
                return bool(name)
            name = self.parents.get(name, "")
        return False


def read_styles(package: Package, root: Element | None) -> OdfStyles:
    styles = OdfStyles()
    known: set[tuple[str, str]] = set()
    roots = [root, package.tree("styles.xml", "styles") if "styles.xml" in package.archive else None]
    for holder in (package.child(one, name) for one in roots for name in ("automatic-styles", "styles")):
        for style in holder if holder is not None else ():
            name = package.attribute(style, "name")
            if package.local[style.tag] == "style":
                family = package.attribute(style, "family")
                if (family, name) not in known:
                    known.add((family, name))
                    _read_style(package, styles, name, style)
            elif package.local[style.tag] == "list-style":
                levels = package.children(style, "list-level-style-number")
                styles.levels.setdefault(name, _levels(package, levels))
            elif package.local[style.tag] == "outline-style":
                outline = package.children(style, "outline-level-style")
                styles.levels.setdefault("", _levels(package, outline))
    return styles


def _levels(package: Package, levels: Iterable[Element]) -> dict[int, OdfLevel]:
    """Those that show a number: a level without a format shows none."""
    found: dict[int, OdfLevel] = {}
    for one in levels:
        is_outline = package.local[one.tag] == "outline-level-style"
        form = package.attribute(one, "num-format", "" if is_outline else "1")
        if form:
            prefix, suffix = (package.attribute(one, f"num-{name}") for name in ("prefix", "suffix"))
            start, shown = (
                _number(package.attribute(one, name)) for name in ("start-value", "display-levels")
            )
            found[_number(package.attribute(one, "level"))] = OdfLevel(form, prefix, suffix, start, shown)
    return found


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 1


def _read_style(package: Package, styles: OdfStyles, name: str, style: Element) -> None:
    if package.attribute(style, "family") in ("text", "paragraph", ""):  # others may have the same names
        styles.looks[name] = _look(package, package.child(style, "text-properties"))
    parent, master = (package.attribute(style, key) for key in ("parent-style-name", "master-page-name"))
    if parent:
        styles.parents[name] = parent
    if master:
        styles.masters[name] = master
    for kind in ("paragraph-properties", "table-properties", "drawing-page-properties"):
        own = package.child(style, kind)
        if own is None:
            continue
        if package.attribute(own, "break-before") == "page":
            styles.breaks_before.add(name)
        if package.attribute(own, "break-after") == "page":
            styles.breaks_after.add(name)
        if kind == "table-properties" and package.attribute(own, "display") == "false":
            styles.hidden_tables.add(name)
        if kind == "drawing-page-properties" and package.attribute(own, "visibility") == "hidden":
            styles.hidden_slides.add(name)


def _look(package: Package, properties: Element | None) -> int:
    if properties is None:
        return 0
    look = 0
    if package.attribute(properties, "font-weight") in ("bold", "600", "700", "800", "900"):
        look |= BOLD
    if package.attribute(properties, "font-style") in ("italic", "oblique"):
        look |= ITALIC
    if package.attribute(properties, "text-line-through-style", "none") != "none":
        look |= STRIKE
    if _is_raised(package.attribute(properties, "text-position")):
        look |= RAISED
    if package.attribute(properties, "display") == "none":
        look |= HIDDEN
    return look


def _is_raised(position: str) -> bool:
    """Whether a position says so: "super", or by how many per cent of the type's height."""
    first = position.split()[:1]
    return first == ["super"] or (bool(first) and first[0][:1].isdigit() and first[0] not in ("0", "0%"))
