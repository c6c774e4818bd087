"""Styles of an OpenDocument file: how texts look, which lists are numbered, which tables are hidden."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree.ElementTree import Element

from quire.reading.office.inline_markdown import BOLD, ITALIC, RAISED, STRIKE
from quire.reading.office.ooxml_package import Package


@dataclass(frozen=True, slots=True)
class OdfStyles:
    """How each style of text looks, and which levels of each style of list are numbered."""

    looks: dict[str, int]
    numbered: dict[str, frozenset[str]]
    hidden_tables: frozenset[str]


def read_styles(package: Package, root: Element | None) -> OdfStyles:
    looks: dict[str, int] = {}
    numbered: dict[str, frozenset[str]] = {}
    hidden: set[str] = set()
    roots = [root, package.tree("styles.xml", "styles") if "styles.xml" in package.archive else None]
    for holder in (package.child(one, name) for one in roots for name in ("automatic-styles", "styles")):
        for style in holder if holder is not None else ():
            name = package.attribute(style, "name")
            if package.local[style.tag] == "style":
                looks.setdefault(name, _look(package, package.child(style, "text-properties")))
                table = package.child(style, "table-properties")
                if table is not None and package.attribute(table, "display") == "false":
                    hidden.add(name)
            elif package.local[style.tag] == "list-style":
                levels = package.children(style, "list-level-style-number")
                numbered.setdefault(name, frozenset(package.attribute(one, "level") for one in levels))
    return OdfStyles(looks, numbered, frozenset(hidden))


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
    return look


def _is_raised(position: str) -> bool:
    """Whether a position says so: "super", or by how many per cent of the type's height."""
    first = position.split()[:1]
    return first == ["super"] or (bool(first) and first[0][:1].isdigit() and first[0] not in ("0", "0%"))
